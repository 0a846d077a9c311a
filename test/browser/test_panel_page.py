# SPDX-License-Identifier: Apache-2.0
"""Joint sliders, the goal state, plots, and the rest of the panel in a real browser."""

import time

import numpy as np
import pytest
from browser.franka_cell import FRANKA

from motion_nodes.extras.viewer import ui_commands
from motion_nodes.extras.viewer.suite_panels import Health

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_a_slider_acts_while_it_is_dragged_however_fast(cell, monkeypatch):
    monkeypatch.setattr(ui_commands, "SETTLING_TIME", 1000.0)  # numbers that are typed
    cell.page.tab("Joints")
    cell.joints.clear()
    with cell.page.held_slider("joint1") as move:

        def moved() -> bool:
            for share in (0.3, 0.7):
                move(share)
            return {joint for joint, _ in cell.joints} == {"panda_joint1"}

        cell.wait(moved, "the joint is commanded")
    cell.wait(lambda: not cell.viewer.slider_hold.held, "the slider is released")


def test_sliders_set_a_goal_state_that_is_planned(cell):
    page, goal = cell.page, cell.live.goal_state
    cell.viewer.update_joints("franka", FRANKA.home)
    page.tab("Joints")
    page.choose("Sliders set", "goal state")
    cell.wait(lambda: goal.active, "the sliders set the goal")
    slider = cell.live.joints.sliders["panda_joint1"]
    cell.wait(lambda: page._id("joint1", "") == slider._impl.uuid, "the page has its new sliders")
    cell.joints.clear()
    cell.plans.clear()

    def ghost() -> bool:
        return goal.ghost is not None and goal.ghost.base.visible and goal.ghost.q[0] > 0.5

    def moved() -> bool:
        page.set_slider("joint1", 0.8)  # again, should the panel have moved meanwhile
        until = time.monotonic() + 5.0
        while not ghost() and time.monotonic() < until:
            time.sleep(0.05)
        return ghost()

    cell.wait(moved, "the ghost moves")
    page.click("Execute")
    command = cell.wait(lambda: cell.plans and cell.plans[-1], "the motion is commanded")
    assert command.verb == "execute"
    assert command.joints["panda_joint1"] == pytest.approx(goal.ghost.q[0])
    np.testing.assert_allclose(cell.live.view.q, FRANKA.home)
    page.choose("Sliders set", "robot")
    cell.wait(lambda: not goal.active and not goal.ghost.base.visible, "the ghost is gone")
    cell.wait(lambda: abs(page.slider_value("joint1")) < 1e-3, "the slider shows the robot")
    assert cell.joints == [], "the robot was not commanded"


def test_the_gripper_slider_moves_all_fingers(cell):
    cell.page.tab("Joints")
    cell.page.set_slider("Gripper", 25.0)
    fingers = {"panda_finger_joint1", "panda_finger_joint2"}

    def asked() -> bool:
        # Values change while one types.
        last = dict(cell.joints[-2:])
        return set(last) == fingers and list(last.values()) == pytest.approx([0.01, 0.01])

    cell.wait(asked, "both fingers are asked for")


def test_joints_are_plotted(cell):
    page = cell.page
    for k in range(5):
        cell.viewer.update_joints("franka", FRANKA.home + 0.1 * k, np.full(9, 0.1))
    page.tab("Plots")
    page.check("Plot joints", True)
    cell.wait(
        lambda: page.count("//div[contains(@class, 'uplot-container')]") == 1, "the plot appears"
    )
    # Nine joints, both limits and the time.
    assert len(cell.live.plots._plot.series) == 12
    cell.live.plots.joint.value = "panda_joint1"
    cell.wait(lambda: len(cell.live.plots._plot.series) == 4, "one joint is plotted")
    page.check("Plot joints", False)
    cell.wait(
        lambda: page.count("//div[contains(@class, 'uplot-container')]") == 0, "the plot is gone"
    )


def test_nodes_tell_how_they_are(cell):
    reports = [
        Health("franka/move_group", "OK", "running"),
        Health("sim", "ERROR", "no <b>time</b>"),
    ]

    def shown(text: str) -> bool:
        cell.viewer.update_health(reports)  # again, as nodes do: soon they would be silent
        return text in cell.page.text()

    cell.wait(lambda: shown("1 ERROR of 2 nodes"), "the summary is shown")
    cell.page.open_folder("Nodes")
    cell.wait(lambda: shown("no <b>time</b>"), "the status is shown")


def test_camera_presets_and_the_dark_page(cell):
    page = cell.page
    page.open_folder("View")

    def above() -> bool:
        camera = next(iter(cell.viewer._server.get_clients().values())).camera
        away = camera.position - camera.look_at
        return bool(away[2] > 0.95 * np.linalg.norm(away))

    def looked() -> bool:
        page.click("Top", "View")
        return above()

    cell.wait(looked, "the camera looks from above")
    page.check("Dark", True, "View")
    scheme = "return document.documentElement.getAttribute('data-mantine-color-scheme')"
    cell.wait(lambda: page.driver.execute_script(scheme) == "dark", "the page is dark")
    page.check("Dark", False, "View")
    cell.wait(lambda: page.driver.execute_script(scheme) == "light", "the page is light")
    page.click("Fit", "View")
    cell.wait(lambda: not above(), "the camera is back")


@pytest.mark.long
def test_on_a_phone_robots_stand_above_the_panel(cell):
    page = cell.page
    page.resize(360, 640)
    page.open(cell.viewer.url)
    elbow = np.array([0.2, 0.0, 0.5])
    cell.wait(lambda: cell.pixel(elbow)[1] < 0.4 * 640, "the robot is in the upper part")
    across, _ = cell.pixel(elbow)
    assert 0.2 * 360 < across < 0.8 * 360
    # A tap on the title closes the panel, another one opens it.
    for seen in (False, True):
        page.tap_title("motion_nodes")
        cell.wait(lambda seen=seen: ("joint1" in page.text()) is seen, "the panel moves")


def test_a_page_whose_suite_has_ended_says_so(cell):
    text = "No connection to the suite"
    assert text not in cell.page.text()
    cell.viewer.close()
    cell.page.wait_for_text(text)
