# SPDX-License-Identifier: Apache-2.0
"""Targets of the tool and goals of the planner, set in a real browser."""

import numpy as np
import pytest
from browser.franka_cell import FRANKA, arrow
from browser.pictures import keep_picture

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.extras.viewer.ui_commands import TargetCommand
from motion_nodes.extras.viewer.viewed_robot import RMPFLOW
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


def test_a_target_that_somebody_else_moves_is_shown(cell, tmp_path):
    gizmo = cell.live.target
    cell.page.tab("Target")
    gizmo._was_shown = False
    X = from_xyz_rpy((0.4, -0.2, 0.5), (np.pi, 0.0, 0.0))
    cell.viewer.robot("franka").update_target(X)
    cell.wait(lambda: cell.page.is_checked("Show target handle"), "the target is shown")
    cell.wait(lambda: gizmo.handles.visible, "the handles are there")
    # The drag of the test before may still hold them.
    cell.wait(lambda: np.allclose(gizmo.handles.pose, X), "the handles are at the target")
    cell.page.open_folder("Pose")
    keep_picture(cell.page, "target", tmp_path)
    cell.page.check("Show target handle", False)
