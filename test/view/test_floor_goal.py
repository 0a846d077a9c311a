# SPDX-License-Identifier: Apache-2.0
"""Goals by clicks on the floor, and the panel of the simulation, without a page."""

import asyncio
import math

import numpy as np
import pytest
import viser
from view.test_browser_viewer import LIMIT, Record, as_page, page, refresh
from view.toy_robot import hand_made, pose

from motion_nodes.extras.viewer.live_robot import ARM, DISARM, floor_point, heading_to
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

DOWN = (0.0, 0.0, -1.0)


@pytest.mark.parametrize(
    ("origin", "direction", "point"),
    [
        ((1.0, 2.0, 3.0), DOWN, (1.0, 2.0)),
        ((0.0, 0.0, 1.0), (2.0, -1.0, -1.0), (2.0, -1.0)),
        ((0.0, 0.0, -1.0), (0.0, 1.0, 1.0), (0.0, 1.0)),
        ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), None),
        ((0.0, 0.0, 1.0), (1.0, 0.0, 0.1), None),
        ((0.0, 0.0, 1.0), (math.nan, 0.0, -1.0), None),
    ],
)
def test_where_a_ray_meets_the_floor(origin, direction, point):
    found = floor_point(origin, direction)
    if point is None:
        assert found is None
    else:
        np.testing.assert_allclose(found, point, atol=1e-12)


def test_a_base_heads_for_the_goal_or_keeps_its_heading():
    X_WB = pose((1.0, 1.0, 0.0), (0.0, 0.0, 0.4))
    goal = np.array((1.0, 3.0))
    assert heading_to(goal, X_WB, turns=True) == pytest.approx(0.5 * math.pi)
    assert heading_to(goal, X_WB, turns=False) == pytest.approx(0.4)


@pytest.fixture
def viewer(open_viewer):
    robot = ViewedRobot(hand_made("differential"), "base", navigates=True)
    return open_viewer(robot, simulation=True)


def click(viewer, origin, client=99):
    """Deliver a click on the scene as from a page."""
    goal = viewer._robots["base"].floor_goal
    event = viser.SceneClickEvent(page(), client, origin, DOWN, (0.5, 0.5), None)

    async def run():
        await goal._clicked(event)

    asyncio.run_coroutine_threadsafe(run(), viewer._loop).result(LIMIT)


def test_the_click_after_the_button_is_the_goal(viewer):
    record = viewer.on_go = Record()
    goal = viewer._robots["base"].floor_goal
    click(viewer, (0.5, 0.5, 1.0))
    as_page(viewer, goal.button, value=True)
    assert goal.button.label == DISARM
    refresh(viewer)
    assert "Click on the floor" in goal.message.content
    click(viewer, (1.0, 1.0, 1.0), client=7)
    click(viewer, (1e4, 0.0, 1.0))
    viewer.robot("base").update_base(pose((2.0, 0.0, 0.0)))
    click(viewer, (2.0, -3.0, 1.0))
    record.wait_for(lambda calls: calls == [("base", 2.0, -3.0, pytest.approx(-0.5 * math.pi))])
    assert goal.button.label == ARM
    viewer.robot("base").set_drive_message("driving", driving=True)
    refresh(viewer)
    assert goal._mark.visible
    viewer.robot("base").set_drive_message("arrived")
    refresh(viewer)
    assert goal.message.content == "arrived"
    assert not goal._mark.visible


def test_a_page_that_closes_leaves_no_armed_button(viewer):
    goal = viewer._robots["base"].floor_goal
    as_page(viewer, goal.button, value=True)
    goal.client_left(7)
    assert goal.button.label == DISARM
    goal.client_left(99)
    assert goal.button.label == ARM


def test_the_simulation_is_paused_continued_and_reset(viewer):
    paused, reset = Record(), Record()
    viewer.on_pause, viewer.on_reset = paused, reset
    panel = viewer._simulation
    as_page(viewer, panel.pause, value=True)
    paused.wait_for(lambda calls: calls == [(True,)])
    assert panel.pause.label == "Pause", "until the simulation has confirmed it"
    viewer.set_simulation(True, "")
    refresh(viewer)
    assert panel.pause.label == "Continue"
    as_page(viewer, panel.pause, value=True)
    paused.wait_for(lambda calls: calls == [(True,), (False,)])
    as_page(viewer, panel.reset, value=True)
    reset.wait_for(lambda calls: calls == [()])
    viewer.set_simulation(False, "the simulation was reset")
    refresh(viewer)
    assert panel._line.content == "the simulation was reset"
