# SPDX-License-Identifier: Apache-2.0
"""Goals close to something cost no search more, and no more checks than a bound."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from barrier_scene import at, franka
from scene.coal_robot import CoalRobot
from scene.slider_robot import slider_robot

from motion_nodes.core.planning import shortcut
from motion_nodes.core.planning.pipeline import PlanOptions, plan
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.planning.rrt_connect import RrtConnect
from motion_nodes.core.planning.shortcut import shorten_with_clearance
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.world import World
from motion_nodes.typing import Array

PREFERRED = 0.005
RADIUS = 0.1
"""Radius of the robot that slides between two walls at x = 0, with a gap from y = -1 to 1 [m]."""


@pytest.fixture
def slider(tmp_path: Path) -> CollisionChecker:
    robot = slider_robot(tmp_path, f'<sphere radius="{RADIUS}"/>', RADIUS)
    world = World()
    for name, y in (("below", -3.0), ("above", 3.0)):
        world.add(world_object(name, Box((0.2, 4.0, 1.0)), at(0.0, y, 0.0)))
    return CollisionChecker(robot, scene=world.scene, resolution=0.02)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list to which each search appends its allowed time [s]."""
    times: list[float] = []
    original = RrtConnect.plan

    def counted(self: RrtConnect, request: PlanRequest) -> object:
        times.append(request.timeout)
        return original(self, request)

    monkeypatch.setattr(RrtConnect, "plan", counted)
    return times


@pytest.fixture
def samplings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which each batch of configurations appends its size."""
    sizes: list[int] = []
    original = CollisionChecker.are_free

    def counted(self: CollisionChecker, Q: Array) -> object:
        sizes.append(len(Q))
        return original(self, Q)

    monkeypatch.setattr(CollisionChecker, "are_free", counted)
    return sizes


@pytest.mark.parametrize("gap", [0.001, 0.003, 0.0049])
def test_a_tight_goal_is_searched_once(
    gap: float, slider: CollisionChecker, searches: list[float], samplings: list[int]
) -> None:
    goal = [-RADIUS - 0.1 - gap, -2.0]
    request = PlanRequest(slider, [4.0, -2.0], (JointGoal(goal),), timeout=20.0)
    found = plan(request, PlanOptions(preferred_clearance=PREFERRED))
    assert found.success, found.reason
    assert searches == [pytest.approx(20.0, abs=1.0)]
    assert not found.notes
    assert len(samplings) < 2 * shortcut._BATCHES


def test_a_goal_in_a_pocket_is_searched_once(
    slider: CollisionChecker, searches: list[float], samplings: list[int]
) -> None:
    """The robot fits between two posts with 1 mm on each side: it cannot evade."""
    world = World(slider.scene)
    for name, y in (("one", 0.201), ("two", -0.201)):
        world.add(world_object(name, Box((1.0, 0.2, 1.0)), at(3.0, y, 0.0)))
    slider.set_scene(world.scene)
    request = PlanRequest(slider, [-4.0, 2.0], (JointGoal([3.0, 0.0]),), timeout=20.0)
    found = plan(request, PlanOptions(preferred_clearance=PREFERRED))
    assert found.success, found.reason
    assert len(searches) == 1
    assert len(samplings) < 2 * shortcut._BATCHES
    assert found.trajectory is not None
    oracle = CoalRobot(slider)
    distances = np.array([oracle.distance(q) for q in found.trajectory.positions])
    assert distances.min() > 0.0
    outside = np.abs(found.trajectory.positions[:, 0] - 3.0) > 0.65
    assert distances[outside].min() > PREFERRED - 5e-4


@pytest.mark.parametrize("seed", range(8))
def test_where_there_is_room_the_arm_keeps_the_preferred_clearance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World()
    world.add(world_object("post", Box((0.06, 0.06, 0.9)), at(0.45, 0.0, 0.45)))
    world.add(world_object("table", Box((2.0, 2.0, 0.02)), at(0.0, 0.0, -0.05)))
    checker = CollisionChecker(franka(), "arm", scene=world.scene)
    clear = checker.snapshot()
    clear.set_sphere_margin(PREFERRED)
    over = franka().named_state("ready", "arm")
    ends: list[Array] = []
    while len(ends) < 2:
        q = over + rng.uniform(-0.25, 0.25, 7) + np.eye(7)[0] * (1.2 - 2.4 * len(ends))
        ends += [q] if clear.is_free(q) else []
    request = PlanRequest(checker, ends[0], (JointGoal(ends[1]),), 20.0, random_seed=seed)
    found = plan(request, PlanOptions(preferred_clearance=PREFERRED))
    assert found.success, found.reason
    assert found.trajectory is not None
    assert clear.are_free(found.trajectory.positions).all(), found.notes
    oracle = CoalRobot(checker)
    assert min(oracle.distance(q) for q in found.trajectory.positions[::5]) > 0.0


def test_stretches_join_and_keep_the_ends(slider: CollisionChecker) -> None:
    clear = slider.snapshot()
    clear.set_sphere_margin(0.04)
    begin, end = [-0.21, -2.0], [0.21, -2.0]
    path = np.array([begin, [-0.4, -1.5], [-0.205, -0.9], [0.0, -0.895], [0.205, -0.9], end])
    assert all(slider.edge_free(a, b) for a, b in pairwise(path))
    one, same = (shorten_with_clearance(slider, clear, path) for _ in "ab")
    np.testing.assert_array_equal(one.path, same.path)
    np.testing.assert_array_equal(one.path[[0, -1]], [begin, end])
    assert one.ends_only
    assert not one.clear[[0, -1]].any()
    assert one.clear[1:-1].all()
    for a, b, kept in zip(one.path[:-1], one.path[1:], one.clear, strict=True):
        assert (clear if kept else slider).edge_free(a, b)
    assert one.near_a_tight_line(np.array([begin]), 1e-6).all()
    assert not one.near_a_tight_line(np.array([[0.0, 3.0]]), 0.1).any()
