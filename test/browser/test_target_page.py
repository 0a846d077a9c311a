# SPDX-License-Identifier: Apache-2.0
"""Targets of the tool and goals of the planner, set in a real browser."""

import numpy as np
import pytest
from browser.franka_cell import FRANKA, arrow
from browser.pictures import keep_picture

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.extras.viewer.ui_commands import TargetCommand
from motion_nodes.extras.viewer.viewed_robot import PLANNER, RMPFLOW
from motion_nodes.typing import Array

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_a_target_is_dragged_along_an_arrow(cell):
    page, handles = cell.page, cell.live.target.handles
    page.tab("Target")
    assert not handles.visible, "no handles to drag by accident"
    page.check("Show target handle", True)
    cell.wait(lambda: handles.visible, "the handles are there")
    before = handles.pose
    tool = FRANKA.tree.frame_names.index("panda_hand_tcp")
    poses = cell.live.target._poses.in_root(FRANKA.home)
    np.testing.assert_allclose(before, poses[tool], atol=1e-9)
    page.wait_until_drawn()

    def dragged() -> bool:
        page.drag(arrow(cell, handles, 0, 0.7), arrow(cell, handles, 0, 1.5))
        return bool(cell.targets)

    def moved(command: TargetCommand) -> Array:
        return np.asarray(before[:3, :3].T @ (command.X_BT[:3, 3] - before[:3, 3]))

    cell.wait(dragged, "the target is asked for")
    # The first commands are from the beginning of the drag.
    cell.wait(lambda: moved(cell.targets[-1])[0] > 0.03, "it moves along the arrow")
    command = cell.targets[-1]
    assert (command.follower, command.verb) == (RMPFLOW, "follow")
    np.testing.assert_allclose(moved(command)[1:], 0.0, atol=1e-4)
    np.testing.assert_allclose(command.X_BT[:3, :3], before[:3, :3], atol=1e-6)


def test_a_target_is_jogged_and_entered(cell):
    page, target = cell.page, cell.live.target
    page.tab("Target")
    page.open_folder("Pose")
    cell.settle()  # the last drag
    before, count = target.current(), len(cell.targets)
    page.click("+Z")
    cell.wait(lambda: len(cell.targets) == count + 1, "the jogged target is commanded")
    jogged = cell.targets[-1].X_BT
    np.testing.assert_allclose(jogged[:3, 3] - before[:3, 3], (0.0, 0.0, 0.005), atol=1e-9)
    page.click("Move target to pose")
    cell.wait(lambda: len(cell.targets) == count + 2, "the entered target is commanded")
    np.testing.assert_allclose(cell.targets[-1].X_BT, jogged, atol=2e-3)


def test_goals_of_the_planner(cell):
    page = cell.page
    page.tab("Plan", "franka")
    goals = cell.live.planning.goals
    assert goals.goal.value == cell.live.viewed.named_states[0]
    page.type_text("Velocity", "50")
    cell.wait(lambda: cell.viewer.scaling.velocity == 0.5, "the velocity is scaled")
    page.click("Execute")
    command = cell.wait(lambda: cell.plans and cell.plans[-1], "the motion is commanded")
    assert (command.verb, command.state) == ("execute", cell.live.viewed.named_states[0])
    assert (command.velocity_scaling, command.acceleration_scaling) == (0.5, 1.0)
    page.type_text("Velocity", "100")
    cell.wait(lambda: cell.viewer.scaling.full, "the velocity is not scaled")
    below = page.button("Recover")
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", below)
    on_top = (
        "const b = arguments[0].getBoundingClientRect();"
        "return arguments[0] === document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);"
    )
    for field in (cell.viewer._scaling.velocity, cell.viewer._scaling.acceleration):
        shown = page.driver.find_element("id", field._impl.uuid)
        assert page.driver.execute_script(on_top, shown), "it stays visible"
    cell.viewer.set_plan_message("franka", "moving")
    page.wait_for_text("moving")
    cell.viewer.notify("franka: planner", "the goal is in collision")
    page.wait_for_text("the goal is in collision")
    page.close_notices()


def test_a_planner_is_asked_by_buttons_alone(cell):
    page = cell.page
    page.tab("Target")
    cell.live.target.follower.value = PLANNER
    count = len(cell.targets)
    for verb in ("Plan", "Execute", "Stop"):
        page.click(verb, "franka")
        cell.wait(lambda verb=verb: cell.targets[-1].verb == verb.lower(), f"'{verb}' is told")
    assert len(cell.targets) == count + 3
    np.testing.assert_allclose(cell.targets[-2].X_BT, cell.live.target.handles.pose)
    cell.viewer.set_target_message("franka", "no path: *box* is in the way", PLANNER)
    cell.viewer.set_target_message("franka", "stuck", RMPFLOW)
    page.wait_for_text("no path: *box* is in the way")
    cell.live.target.follower.value = RMPFLOW
    page.wait_for_text("stuck")
    assert "in the way" not in page.text()
    cell.viewer.set_target_message("franka", "", RMPFLOW)
    page.check("Show target handle", False)
    cell.wait(lambda: not cell.live.target.handles.visible, "the handles are hidden")


def test_a_target_that_somebody_else_moves_is_shown(cell, tmp_path):
    gizmo = cell.live.target
    cell.page.tab("Target")
    gizmo._was_shown = False
    X = from_xyz_rpy((0.4, -0.2, 0.5), (np.pi, 0.0, 0.0))
    cell.viewer.update_target("franka", X)
    cell.wait(lambda: cell.page.is_checked("Show target handle"), "the target is shown")
    cell.wait(lambda: gizmo.handles.visible, "the handles are there")
    np.testing.assert_allclose(gizmo.handles.pose, X)
    keep_picture(cell.page, "target", tmp_path)
    cell.page.check("Show target handle", False)
