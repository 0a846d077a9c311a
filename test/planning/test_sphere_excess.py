# SPDX-License-Identifier: Apache-2.0
"""Where collision spheres and exact shapes disagree, the exact shapes decide."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from barrier_scene import at, franka
from scene.coal_robot import CoalRobot
from scene.slider_robot import slider_robot, sliding_robot

from motion_nodes.core.planning.cartesian import CartesianStop, cartesian_path
from motion_nodes.core.planning.path_verification import PathVerifier, PathWatch
from motion_nodes.core.planning.pipeline import PlanOptions, plan
from motion_nodes.core.planning.plan_run import searchable
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    PlanRequest,
    PlanStatus,
    check_start,
)
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.scenery import floor_of
from motion_nodes.core.scene.world import World
from motion_nodes.typing import Array

READY = franka().named_state("ready", "arm")


RADIUS = 0.1
"""Radius of the robot, which slides between two walls at x = 0 with a gap from y = -1 to 1 [m]."""


def with_spheres_larger_by(more: float, folder: Path) -> CollisionChecker:
    """Return a planar robot whose collision sphere is that much larger than its shape [m]."""
    robot = slider_robot(folder, f'<sphere radius="{RADIUS}"/>', RADIUS + more)
    world = World()
    for name, y in (("below", -3.0), ("above", 3.0)):
        world.add(world_object(name, Box((0.2, 4.0, 1.0)), at(0.0, y, 0.0)))
    return CollisionChecker(robot, scene=world.scene, resolution=0.02)


def depth(checker: CollisionChecker, path: Array) -> float:
    oracle = CoalRobot(checker)
    return -min(oracle.distance(q) for q in path)


def test_what_spheres_leave_out_is_refused_and_found_anew_with_larger_ones(tmp_path):
    checker = with_spheres_larger_by(-0.002, tmp_path)
    request = PlanRequest(checker, [-4.0, -0.901], (JointGoal([4.0, -0.901]),), timeout=90.0)
    unverified = plan(request, PlanOptions(verify=False, preferred_clearance=0.0))
    assert unverified.trajectory is not None
    assert depth(checker, unverified.trajectory.positions) == pytest.approx(1e-3, abs=1e-5)
    found = plan(request, PlanOptions(preferred_clearance=0.0))
    assert found.success, found.reason
    assert found.trajectory is not None
    assert depth(checker, found.trajectory.positions) < 1e-4
    assert any("3 mm larger" in note for note in found.notes)


@pytest.mark.parametrize("end", ["start", "goal", "both"])
def test_ends_that_only_spheres_touch_are_planned_to(end, tmp_path):
    checker = with_spheres_larger_by(0.01, tmp_path)
    near, far = [-4.0, -2.0], [4.0, -2.0]
    beside = [-0.205, -2.0]  # 5 mm from the wall
    other = [0.205, -2.0]
    start = near if end == "goal" else beside
    goal = far if end == "start" else other
    assert checker.exact.is_free(beside)
    assert not checker.is_free(beside)
    request = PlanRequest(checker, start, (JointGoal(goal),), timeout=20.0)
    found = plan(request, PlanOptions(preferred_clearance=0.0))
    assert found.success, found.reason
    assert found.path is not None
    assert found.trajectory is not None
    np.testing.assert_array_equal(found.path[[0, -1]], [start, goal])
    assert depth(checker, found.trajectory.positions) < 1e-4
    assert any("spheres" in note for note in found.notes)


def test_paths_have_the_preferred_clearance_where_their_ends_permit_it(tmp_path):
    checker = with_spheres_larger_by(0.0, tmp_path)
    oracle = CoalRobot(checker)

    def planned(clearance: float, x: float) -> tuple[Array, list[float]]:
        request = PlanRequest(checker, [-x, -2.0], (JointGoal([x, -2.0]),), timeout=20.0)
        found = plan(request, PlanOptions(preferred_clearance=clearance))
        assert found.path is not None
        assert found.trajectory is not None
        np.testing.assert_array_equal(found.path[[0, -1]], [[-x, -2.0], [x, -2.0]])
        assert not found.notes
        return found.path, [oracle.distance(q) for q in found.trajectory.positions]

    assert min(planned(0.0, 4.0)[1]) < 0.045
    assert min(planned(0.049, 4.0)[1]) > 0.0485
    path, distances = planned(0.049, 0.21)  # both ends are 10 mm from the walls
    assert min(distances) > 0.009
    assert min(oracle.distance(q) for q in path[1:-1]) > 0.0485


def test_where_no_path_has_the_preferred_clearance_closer_ones_are_found(tmp_path):
    checker = with_spheres_larger_by(0.0, tmp_path)
    request = PlanRequest(checker, [-4.0, -2.0], (JointGoal([4.0, -2.0]),), timeout=60.0)
    world = World(checker.scene)  # the walls are longer, and the gap is 30 mm wider than the robot
    for name, length, y in (("post", 1.77, 0.115), ("low", 5.2, -7.5), ("high", 5.2, 7.5)):
        world.add(world_object(name, Box((0.2, length, 1.0)), at(0.0, y, 0.0)))
    checker.set_scene(world.scene)
    found = plan(request, PlanOptions(preferred_clearance=0.02))
    assert found.success, found.reason
    assert any("preferred clearance of 20 mm" in note for note in found.notes)
    staying = PlanRequest(checker, [-0.202, -2.0], (JointGoal([-0.202, -2.0]),))
    assert plan(staying, PlanOptions()).motion is None


def test_true_shapes_in_collision_are_refused_though_spheres_are_free(tmp_path):
    checker = with_spheres_larger_by(-0.02, tmp_path)
    inside = [-0.19, -2.0]  # 10 mm in the wall
    assert checker.is_free(inside)
    begin = check_start(checker, inside)
    assert begin.status is PlanStatus.START_IN_COLLISION
    assert "10.0 mm deep in below" in begin.reason
    found = plan(PlanRequest(checker, [-4.0, -2.0], (JointGoal(inside),), timeout=5.0))
    assert found.status is PlanStatus.GOAL_IN_COLLISION


def test_cartesian_steps_find_a_sheet_between_two_configurations():
    world = World()
    world.add(world_object("sheet", Box((0.5, 2e-5, 0.3)), at(0.3, 0.2, 0.6)))
    checker = CollisionChecker(franka(), "arm", scene=world.scene)
    from motion_nodes.core.robot.kinematics import Kinematics

    X = Kinematics(franka().tree, franka().group("arm").joints).pose(READY, "panda_hand")
    X[1, 3] += 0.3
    found = cartesian_path(checker, READY, "panda_hand", [X])
    assert found.stop is CartesianStop.COLLISION
    assert "sheet" in found.reason


def test_a_path_beside_a_wall_within_the_spheres_excess_is_not_blocked(tmp_path):
    checker = with_spheres_larger_by(0.01, tmp_path)
    path = np.array([[-0.205, -3.0], [-0.205, -2.0]])
    watch = PathWatch(checker.snapshot(), [0.0, 1.0], path)
    assert watch.obstacle(checker.scene) == ""
    world = World(checker.scene)
    world.add(world_object("pin", Box((0.001, 0.001, 1.0)), at(-0.205, -2.5, 0.0)))
    assert "pin" in watch.obstacle(world.scene)


@pytest.mark.parametrize("name", ["franka", "ur10e"])
def test_random_free_goals_in_the_spheres_excess_are_planned_to(name):
    """Goals with the tolerances of a MoveGroup client, above the floor."""
    robot = load_robot(name)
    checker = CollisionChecker(robot, "arm", scene=floor_of(robot).scene())
    rng, limits = np.random.default_rng(5), checker.limits
    low, high = np.maximum(limits.lower, -3.0), np.minimum(limits.upper, 3.0)
    Q = rng.uniform(low, high, (600, len(low)))
    Q = Q[checker.exact.are_free(Q) & ~checker.are_free(Q)][:12]
    assert len(Q) > 5
    for q in Q:
        ends = searchable(PlanRequest(checker, robot.home[: len(q)], (JointGoal(q, 1e-3, 1e-3),)))
        (goal,) = ends.request.goals
        assert isinstance(goal, JointGoal)
        assert checker.is_free(goal.q)
        path = ends.joined(np.atleast_2d(goal.q), 0)
        np.testing.assert_array_equal(path[-1], q)
        assert PathVerifier(checker).verify(path).free


def crank(folder: Path, radius: float) -> Robot:
    """Return a ball at a distance of 1 m from a continuous joint, in a sphere of a radius [m]."""
    urdf = (
        '<robot name="crank"><link name="post"/><link name="arm"><collision>'
        f'<origin xyz="1 0 0"/><geometry><sphere radius="{RADIUS}"/></geometry></collision></link>'
        '<joint name="turn" type="continuous"><parent link="post"/><child link="arm"/>'
        '<axis xyz="0 0 1"/><limit velocity="1" effort="1"/></joint></robot>'
    )
    robot = sliding_robot(folder, urdf, {"turn": 0.0}, ("post", "arm"))
    return replace(robot, spheres={"arm": ((1.0, 0.0, 0.0, radius),)})


@pytest.mark.parametrize("turns", [-2.0, -1.0, 0.0, 1.0])
def test_continuous_joints_reach_such_ends_without_an_extra_turn(turns, tmp_path):
    robot = crank(tmp_path, RADIUS + 0.01)
    world = World()
    world.add(world_object("beside", Box((0.2, 0.2, 1.0)), at(1.205, 0.0, 0.0)))
    checker = CollisionChecker(robot, scene=world.scene)
    near, far = np.zeros(1), np.array([2.0 * np.pi * turns + 2.0])
    assert checker.exact.is_free(near)
    assert not checker.is_free(near)
    for start, goal in ((far, near), (near, far)):
        request = PlanRequest(checker, start, (JointGoal(goal),), timeout=20.0)
        found = plan(request, PlanOptions(preferred_clearance=0.0))
        assert found.path is not None, found.reason
        assert np.ptp(found.path) < np.pi
        ends = np.concatenate([start, goal])
        np.testing.assert_allclose(np.exp(1j * (found.path[[0, -1], 0] - ends)), 1.0, atol=1e-9)


@pytest.mark.parametrize("turns", [0.0, 1.0, -2.0])
@pytest.mark.parametrize("planner", ["RRTConnect", "RRT", "TRRT"])
def test_a_way_of_more_than_half_a_turn_is_not_replaced_by_the_shorter_one(
    planner, turns, tmp_path
):
    """The shorter way is blocked, and one line leads along the longer one."""
    robot = crank(tmp_path, RADIUS)
    world = World()
    world.add(world_object("pillar", Box((0.2, 0.2, 1.0)), at(np.cos(1.0), np.sin(1.0), 0.0)))
    checker = CollisionChecker(robot, scene=world.scene)
    goal = JointGoal(np.array([2.0 + 2.0 * np.pi * turns]))
    request = PlanRequest(checker, np.zeros(1), (goal,), timeout=20.0)
    found = plan(request, PlanOptions(planner=planner))
    assert found.trajectory is not None, found.reason
    assert found.trajectory.positions[-1, 0] == pytest.approx(2.0 - 2.0 * np.pi)
    assert checker.exact.are_free(found.trajectory.positions).all()


def test_spheres_of_a_base_beside_a_wall_are_no_obstacle(tmp_path):
    """No motion of the joints could end this contact; the moving links still avoid the wall."""
    urdf = (
        '<robot name="crank"><link name="post"><collision><geometry><box size="0.2 0.2 0.2"/>'
        '</geometry></collision></link><link name="arm"><collision><origin xyz="0 0.5 0.3"/>'
        f'<geometry><sphere radius="{RADIUS}"/></geometry></collision></link>'
        '<joint name="turn" type="revolute"><parent link="post"/><child link="arm"/>'
        '<axis xyz="0 0 1"/><limit lower="-3.5" upper="3.5" velocity="1" effort="1"/></joint>'
        "</robot>"
    )
    robot = sliding_robot(tmp_path, urdf, {"turn": 0.0}, ("post", "arm"))
    spheres = {"post": ((0.0, 0.0, 0.0, 0.18),), "arm": ((0.0, 0.5, 0.3, RADIUS),)}
    robot = replace(robot, spheres=spheres)
    world = World()
    world.add(world_object("wall", Box((0.2, 2.0, 2.0)), at(0.21, 0.0, 0.0)))
    checker = CollisionChecker(robot, scene=world.scene)
    assert checker.exact.is_free([0.5])
    assert not checker.is_free([0.5])
    for goal, status in ((2.5, PlanStatus.SOLVED), (-3.3, PlanStatus.TIMED_OUT)):
        request = PlanRequest(checker, [0.5], (JointGoal([goal]),), timeout=2.0)
        found = plan(request)
        assert found.status is status, found.reason
        if found.trajectory is not None:
            assert depth(checker, found.trajectory.positions) < 0.0
    assert checker.scene is world.scene, "the scene of the request is unchanged"
