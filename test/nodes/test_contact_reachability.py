# SPDX-License-Identifier: Apache-2.0
"""Order and direction of wiping strokes, and the arm's posture for a pull."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.world import World
from motion_nodes.extras.tasks.skill_poses import backed, handle_grasps, strokes_over
from motion_nodes.extras.tasks.task_runner import SkillFailed
from motion_nodes.extras.tasks.world_state import ObjectState
from motion_nodes.nodes.task.contact_skills import PULL
from motion_nodes.nodes.task.reachability import APPROACH, RETREAT, Reachability
from motion_nodes.nodes.task.remote_work import Work

ARM = mn.load_robot("franka")["arm"]
SPONGE = ObjectState("sponge", from_xyz_rpy((0.4, 0.3, 0.3)), Box((0.05, 0.05, 0.05)))
X_OT = from_xyz_rpy((0.0, 0.0, 0.0), (np.pi, 0.0, 0.0))
"""Held from above."""


def reach_from(q: np.ndarray) -> Reachability:
    """Return the reachability of the arm at joint positions [rad], shape (n,)."""
    motions: Any = SimpleNamespace(arm=ARM, positions=lambda: q)
    return Reachability(motions, World())


def result(work: Work) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def parts_of(size: tuple[float, float], heading: float) -> list[np.ndarray]:
    """Return stroke positions by part, over a board in front of the robot [m], (k, 3) each."""
    X = from_xyz_rpy((0.5, 0.0, 0.03), (0.0, 0.0, heading))
    board = ObjectState("board", X, Box((*size, 0.06)))
    reach = reach_from(ARM.state("ready"))
    parts = result(reach.strokes(strokes_over(board, SPONGE), X_OT, board))
    return [np.array(part)[:, :3, 3] for part, _ in parts]


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


def test_a_handle_is_not_pulled_from_a_singular_posture() -> None:
    # The first posture that is found is nearly singular: the arm would pull without moving.
    X = from_xyz_rpy((0.5485, -0.3762, 0.3999), (0.0, 0.0, -0.4346))
    handle = ObjectState("handle", X, Box((0.012, 0.12, 0.016)))
    reach = reach_from(ARM.state("home"))
    grasp, q = result(reach.pull(handle_grasps(handle, 0.08), PULL, handle))
    np.testing.assert_allclose(ARM.fk(q), backed(grasp.X_WG, APPROACH), atol=1e-3)
    for away in np.linspace(-APPROACH, PULL + RETREAT, 8):
        pose = backed(grasp.X_WG, abs(away) if away < 0.0 else away)
        q = ARM.ik(pose, seed=q).q
        twist = np.concatenate((grasp.X_WG[:3, 2], np.zeros(3)))
        speed = float(np.linalg.norm(np.linalg.pinv(ARM.jacobian(q)) @ twist))
        assert speed < 12.0, f"{speed:.0f} rad/s for 1 m/s"


@pytest.mark.parametrize("search", ["grasp", "place", "pour"])
def test_a_search_gives_way_after_each_attempt(monkeypatch, search: str) -> None:
    """The loop that advances it also decides whether the held object is lost."""
    reach = reach_from(ARM.state("ready"))
    tried = [0]

    def solution(*_: Any, **__: Any) -> None:
        tried[0] += 1

    monkeypatch.setattr(reach, "_solution", solution)
    work = {"grasp": lambda: reach.grasp(SPONGE, 0.08), "pour": lambda: reach.pour(X_OT, X_OT, 1.9),
            "place": lambda: reach.place([X_OT], X_OT)}[search]()  # fmt: skip
    most = 0

    def steps() -> None:
        nonlocal most
        for _ in work:
            most, tried[0] = max(most, tried[0]), 0

    with pytest.raises(SkillFailed, match="out of reach"):
        steps()
    assert most == 1
