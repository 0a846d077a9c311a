# SPDX-License-Identifier: Apache-2.0
"""Velocity and acceleration scaling: one pair for all robots, always in range."""

import math

import numpy as np
import pytest
from patience import wait_until
from view.test_browser_viewer import Record, as_page

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.viewer import panel_style
from motion_nodes.extras.viewer.suite_panels import MIN_PERCENT
from motion_nodes.extras.viewer.ui_commands import MotionScaling
from motion_nodes.extras.viewer.viewed_robot import IK, PLANNER, ViewedRobot

FRANKA = load_robot("franka")


@pytest.fixture
def viewer(open_viewer):
    robots = [ViewedRobot.of(FRANKA, name, followers=(IK, PLANNER)) for name in ("a", "b")]
    viewer = open_viewer(*robots, stops=True)
    viewer.on_plan, viewer.on_target = Record(), Record()
    return viewer


def test_one_pair_applies_to_the_plans_and_targets_of_all_robots(viewer):
    as_page(viewer, viewer._scaling.velocity, value=30.0)
    as_page(viewer, viewer._scaling.acceleration, value=45.0)
    assert viewer.scaling == MotionScaling(0.3, 0.45)
    for name in ("a", "b"):
        live = viewer._robots[name]
        as_page(viewer, live.planning.goals.verbs, value="Execute")
        as_page(viewer, live.target.follower, value=PLANNER)
        as_page(viewer, live.target.plan, value="Plan")
    viewer.on_plan.wait_for(lambda calls: len(calls) == 2)
    viewer.on_target.wait_for(lambda calls: len(calls) == 2)
    for record, verb in ((viewer.on_plan, "execute"), (viewer.on_target, "plan")):
        assert {name for name, _ in record.calls} == {"a", "b"}
        for _, command in record.calls:
            assert command.verb == verb
            assert (command.velocity_scaling, command.acceleration_scaling) == (0.3, 0.45)


@pytest.mark.parametrize("typed", [0.0, -5.0, 1e9, math.nan, math.inf, "", "fast", None, True])
def test_whatever_is_typed_the_factors_are_in_range(viewer, typed):
    """A page sends each state of a field that is being typed."""
    viewer._scaling.velocity.value = 50.0
    viewer._scaling.velocity._impl.value = typed
    scaling = viewer.scaling
    for factor in (scaling.velocity, scaling.acceleration):
        assert MIN_PERCENT / 100.0 <= factor <= 1.0
        assert np.isfinite(factor)
    assert scaling.acceleration == 1.0


@pytest.mark.parametrize(("typed", "kept"), [(1000.0, 100.0), (0.0, MIN_PERCENT), (42.0, 42.0)])
def test_all_pages_show_the_number_that_holds_once_it_is_typed(viewer, monkeypatch, typed, kept):
    monkeypatch.setattr(panel_style, "TYPING_PAUSE", 0.05)
    live = viewer._robots["a"]
    for field in (viewer._scaling.velocity, viewer._scaling.acceleration):
        as_page(viewer, field, value=typed)
        assert field.value == typed, "while it is being typed"
        wait_until(lambda field=field: field.value == kept, "bounded")
    as_page(viewer, live.planning.goals.attempts, value=1000)
    wait_until(lambda: live.planning.goals.attempts.value == 100, "bounded")


def test_they_are_above_all_robots(viewer):
    panel = viewer._scaling
    folder = viewer._server.gui._container_handle_from_uuid[
        viewer._robots["a"]._status._impl.parent_container_id
    ]
    for field in (panel.velocity, panel.acceleration):
        assert field._impl.parent_container_id == folder._impl.parent_container_id
        assert viewer._stop.resume.order < field.order < folder.order


def test_a_page_without_a_planner_has_none(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy), ViewedRobot.of(FRANKA, followers=(IK,)))
    assert viewer._scaling is None
    assert viewer.scaling == MotionScaling()
    assert viewer.scaling.full
