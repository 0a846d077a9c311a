# SPDX-License-Identifier: Apache-2.0
"""Order and direction of the strokes that an arm wipes."""

from __future__ import annotations

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box
from motion_nodes.nodes.task.reachability import Reachability
from motion_nodes.scene.world import World
from motion_nodes.tasks.contact_poses import strokes_over
from motion_nodes.tasks.world_state import ObjectState

ARM = mn.load_robot("franka")["arm"]
SPONGE = ObjectState("sponge", from_xyz_rpy((0.4, 0.3, 0.3)), Box((0.05, 0.05, 0.05)))
X_OT = from_xyz_rpy((0.0, 0.0, 0.0), (np.pi, 0.0, 0.0))
"""Held from above."""


def parts_of(size: tuple[float, float], heading: float) -> list[np.ndarray]:
    """Return the positions of the parts over a board before the robot, shape (k, 3) each."""
    X = from_xyz_rpy((0.5, 0.0, 0.03), (0.0, 0.0, heading))
    board = ObjectState("board", X, Box((*size, 0.06)))
    reach = Reachability(ARM, World(), lambda: ARM.state("ready"))
    work = reach.strokes(strokes_over(board, SPONGE), X_OT, board)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return [np.array(part)[:, :3, 3] for part, _ in end.value]


@pytest.mark.parametrize("heading", [0.0, np.pi, 0.5])
def test_a_tool_that_friction_pulls_into_the_surface_is_not_pushed(heading: float) -> None:
    parts = parts_of((0.2, 0.1), heading)
    assert len(parts) > 1
    for part in parts:
        assert (np.diff(part[:, 0]) < 0.0).all(), "every stroke is pulled towards the robot"


@pytest.mark.parametrize("heading", [0.0, np.pi])
def test_strokes_across_go_to_and_fro_and_come_nearer(heading: float) -> None:
    (part,) = parts_of((0.1, 0.2), heading)
    assert np.linalg.norm(np.diff(part, axis=0), axis=1).max() < 0.06
    assert (np.diff(part[:, 0]) < 1e-9).all()
    assert np.ptp(part[:, 0]) == pytest.approx(0.05)
    turns = np.diff(np.sign(np.diff(part[:, 1]).round(6))) != 0.0
    assert turns.any()
