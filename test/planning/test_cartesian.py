# SPDX-License-Identifier: Apache-2.0
"""Straight tool paths, and industrial motions: PTP, LIN, CIRC, blended sequences."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from barrier_scene import START, at, barrier_scene, franka
from raised_errors import about

import motion_nodes as mn
from motion_nodes.core.planning.cartesian import (
    CartesianOptions,
    CartesianStop,
    cartesian_path,
    with_tool_speed,
)
from motion_nodes.core.planning.industrial import SequenceItem, plan_sequence
from motion_nodes.core.planning.path_tools import interpolate, interpolate_poses
from motion_nodes.core.planning.planning_problem import JointSpace, PlanRequest, PlanStatus
from motion_nodes.core.planning.tool_motions import ArcPoint, ToolMotion
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.world import World
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame
from motion_nodes.typing import Array

TOOL = "panda_hand_tcp"
READY = franka().named_state("ready", "arm")


def free() -> CollisionChecker:
    return CollisionChecker(franka(), "arm")


def tool(Q: Array) -> Array:
    return Kinematics(franka().tree, franka().group("arm").joints).pose_batch(
        np.atleast_2d(Q), TOOL
    )


def shifted(x: float, y: float, z: float) -> Array:
    X = tool(READY)[0].copy()
    X[:3, 3] += x, y, z
    return X


def test_tool_goes_straight_through_all_poses():
    corners = [shifted(0, 0, -0.2), shifted(0, 0.2, -0.2), shifted(0, 0, 0)]
    result = cartesian_path(free(), READY, TOOL, corners)
    assert result.success
    assert result.fraction == 1.0
    assert (result.path[0] == READY).all()
    np.testing.assert_allclose(tool(result.path[-1])[0], corners[-1], atol=1e-4)
    # Between the waypoints too, the tool is within a millimetre of the lines between the poses.
    space = JointSpace.of_robot(franka(), franka().group("arm").joints)
    dense = tool(interpolate(space, result.path, 0.002))[:, :3, 3]
    ends = [tool(READY)[0, :3, 3], *(X[:3, 3] for X in corners)]
    away = np.min([_away(dense, a, b) for a, b in itertools.pairwise(ends)], axis=0)
    assert away.max() < 1.1e-3
    assert np.linalg.norm(np.diff(tool(result.path)[:, :3, 3], axis=0), axis=1).max() <= 0.0101
    for X in corners:
        assert np.linalg.norm(dense - X[:3, 3], axis=1).min() < 1e-4


def _away(points: Array, a: Array, b: Array) -> Array:
    way = b - a
    shares = np.clip((points - a) @ way / (way @ way), 0.0, 1.0)
    return np.linalg.norm(points - a - shares[:, None] * way, axis=1)


def test_rotation_in_place_steps_by_small_angles():
    X = tool(READY)[0] @ from_xyz_rpy((0, 0, 0), (0, 0, 0.8))
    result = cartesian_path(free(), READY, TOOL, [X])
    assert result.success
    assert len(result.path) >= math.ceil(0.8 / (math.pi / 16)) + 1
    assert np.abs(tool(result.path)[:, :3, 3] - X[:3, 3]).max() < 1e-4


def test_end_of_reach_is_told_with_the_place():
    result = cartesian_path(free(), READY, TOOL, [shifted(0.6, 0, 0)])
    assert result.stop is CartesianStop.OUT_OF_REACH
    assert 0.3 < result.fraction < 0.9
    place = tool(result.path[-1])[0, :3, 3]
    assert f"{place[0]:.3g}" in result.reason
    assert "%" in result.reason
    # The part that was reached is a valid path.
    gone = np.linalg.norm(place - tool(READY)[0, :3, 3])
    assert gone / 0.6 == pytest.approx(result.fraction, abs=0.01)


def test_joint_at_its_limit_is_named():
    robot = franka()
    columns = robot.group("arm").indices
    lower, upper = robot.limits.lower.copy(), robot.limits.upper.copy()
    lower[columns], upper[columns] = READY - 0.2, READY + 0.2
    narrow = replace(robot, limits=replace(robot.limits, lower=lower, upper=upper))
    checker = CollisionChecker(narrow, "arm")
    result = cartesian_path(checker, READY, TOOL, [shifted(0, 0.3, 0)])
    assert result.stop is CartesianStop.OUT_OF_REACH
    assert "at the limit" in result.reason
    assert "panda_joint" in result.reason
    assert checker.limits.within(result.path)


def test_obstacle_in_the_way_is_named_and_may_be_ignored():
    world = World()
    world.add(world_object("post", Box((0.04, 0.04, 1.0)), at(0.307, 0.2, 0.5)))
    checker = CollisionChecker(franka(), "arm", scene=world.scene)
    result = cartesian_path(checker, READY, TOOL, [shifted(0, 0.4, 0)])
    assert result.stop is CartesianStop.COLLISION
    assert "post" in result.reason
    assert 0.0 < result.fraction < 0.5
    assert checker.exact.are_free(result.path).all()
    through = cartesian_path(
        checker, READY, TOOL, [shifted(0, 0.4, 0)], CartesianOptions(avoid_collisions=False)
    )
    assert through.success


def test_start_in_collision_does_not_begin():
    checker = CollisionChecker(franka(), "arm", scene=barrier_scene())
    stuck = START.copy()
    stuck[0], stuck[3] = math.pi / 2, -1.5
    result = cartesian_path(checker, stuck, TOOL, [shifted(0, 0, 0)])
    assert result.stop is CartesianStop.START
    assert result.fraction == 0.0
    assert "left" in result.reason


def test_absolute_and_relative_jumps_stop_the_path():
    sideways = [shifted(0, 0.3, 0)]
    absolute = cartesian_path(free(), READY, TOOL, sideways, CartesianOptions(revolute_jump=0.01))
    assert absolute.stop is CartesianStop.JUMP
    assert "panda_joint" in absolute.reason
    assert "0.01" in absolute.reason
    relative = cartesian_path(free(), READY, TOOL, sideways, CartesianOptions(jump_factor=1.2))
    assert relative.stop is CartesianStop.JUMP
    assert 0.5 < relative.fraction < 1.0
    steps = np.linalg.norm(np.diff(relative.path, axis=0), axis=1)
    assert steps.max() < 1.3 * steps.mean()
    usual = CartesianOptions(revolute_jump=0.5, jump_factor=5.0)
    assert cartesian_path(free(), READY, TOOL, sideways, usual).success


def test_point_beside_the_tool_can_be_led():
    X_LT = at(0.0, 0.0, 0.1)
    X_BT = tool(READY)[0] @ X_LT @ from_xyz_rpy((0, 0, 0), (0.3, 0, 0))
    result = cartesian_path(free(), READY, TOOL, [X_BT], X_LT=X_LT)
    assert result.success
    points = (tool(result.path) @ X_LT)[:, :3, 3]
    assert np.abs(points - X_BT[:3, 3]).max() < 1e-3


def test_speed_of_the_tool_is_kept():
    checker = free()
    result = cartesian_path(checker, READY, TOOL, [shifted(0, 0, -0.2)])
    motion = with_tool_speed(retime(result.path, checker.limits), checker, TOOL, 0.05)
    q, v, _, _ = motion.states(motion.sample_times(0.005))
    J = Kinematics(franka().tree, checker.joint_names).jacobian_batch(q, TOOL)[:, :3]
    speeds = np.linalg.norm(np.einsum("mij,mj->mi", J, v), axis=1)
    assert 0.045 < speeds.max() < 0.0505
    with pytest.raises(InvalidConfig, check=about("max_speed")):
        with_tool_speed(motion, checker, TOOL, 0.0)


def test_what_is_no_request_is_refused():
    for poses in ([], [np.eye(3)], [np.full((4, 4), np.nan)], [np.diag([2.0, 1, 1, 1])]):
        with pytest.raises(InvalidCommand):
            cartesian_path(free(), READY, TOOL, poses)
    with pytest.raises(UnknownFrame, check=about("panda_tol")):
        cartesian_path(free(), READY, "panda_tol", [shifted(0, 0, 0)])
    for bad in ({"max_step": 0.0}, {"max_angle": np.inf}, {"jump_factor": -1.0}):
        with pytest.raises(InvalidConfig, check=about(next(iter(bad)))):
            CartesianOptions(**bad)
    lost = cartesian_path(free(), READY * np.nan, TOOL, [shifted(0, 0, 0)])
    assert lost.stop is CartesianStop.START


def test_a_path_of_too_many_steps_is_refused():
    """Poses are computed in advance; a step of a nanometre must not use all memory."""
    far = np.eye(4)
    far[0, 3] = 0.5
    with pytest.raises(InvalidCommand, match="the max is 100000"):
        interpolate_poses(np.eye(4), far, position_step=1e-9)


ARM = mn.load_robot("franka")["arm"]
READY_INDUSTRIAL_MOTIONS = ARM.state("ready")
HERE = ARM.fk(READY_INDUSTRIAL_MOTIONS)
TIP = ARM.tip


def beside(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    X = HERE.copy()
    X[:3, 3] += (x, y, z)
    return X


def item(kind: ToolMotion, goal: object, **fields: object) -> SequenceItem:
    arc = fields.pop("arc", None)
    world = fields.pop("world", None)
    goal = goal if isinstance(goal, mn.JointGoal) else mn.PoseGoal(TIP, goal)
    request = PlanRequest(ARM.checker(world), READY_INDUSTRIAL_MOTIONS, (goal,))
    return SequenceItem(request, kind, TIP, arc, **fields)


def tool_positions(plan: mn.MotionPlan) -> np.ndarray:
    assert plan.success, plan.reason
    if plan.motion is None:
        return ARM.fk_batch(plan.trajectory.positions)[:, :3, 3]
    times = np.linspace(0.0, plan.motion.duration, 1500)
    return ARM.fk_batch(plan.motion.states(times)[0])[:, :3, 3]


def test_a_line_is_straight_and_within_limits():
    goal = beside(0.1, -0.2, -0.1)
    plan = plan_sequence([item(ToolMotion.LIN, goal)])
    P = tool_positions(plan) - HERE[:3, 3]
    way = goal[:3, 3] - HERE[:3, 3]
    off = np.linalg.norm(np.cross(P, way / np.linalg.norm(way)), axis=1)
    assert off.max() < 1e-4
    assert P[-1] == pytest.approx(way, abs=1e-4)
    assert plan.motion.limit_use(ARM.limits).stretch <= 1.0 + 1e-6
    slow = plan_sequence([item(ToolMotion.LIN, goal, velocity_scaling=0.1)])
    assert slow.motion.duration > 2.0 * plan.motion.duration


@pytest.mark.parametrize("kind", [ToolMotion.LIN, ToolMotion.PTP])
@pytest.mark.parametrize("factor", [1e-3, 1e-4, 1e-5])
def test_slow_motions_have_no_more_points_than_others_need(kind, factor):
    plan = plan_sequence([item(kind, beside(0.1, -0.2), velocity_scaling=factor)])
    assert plan.success, plan.reason
    assert plan.duration > 0.05 / factor
    assert len(plan.trajectory.times) < 25_000
    usual = plan_sequence([item(kind, beside(0.1, -0.2))])
    assert plan.trajectory.positions[-1] == pytest.approx(usual.trajectory.positions[-1], abs=1e-6)
    # Between the points, too, it is the path that was checked.
    times = np.linspace(0.0, plan.duration, 50)
    driven = np.array([plan.trajectory.sample(t).position for t in times])
    exact = plan.motion.states(times)[0]
    assert driven == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("is_center", [True, False])
def test_an_arc_is_a_circle_to_a_tenth_of_a_millimetre(is_center):
    """A quarter of a circle in the vertical plane, given by its centre or by an interim point."""
    center = HERE[:3, 3] + (0.0, 0.15, 0.0)
    goal = beside(0.0, 0.15, 0.15)
    half = center + 0.15 * np.array([0.0, -1.0, 1.0]) / np.sqrt(2.0)
    arc = ArcPoint(center if is_center else half, is_center)
    plan = plan_sequence([item(ToolMotion.CIRC, goal, arc=arc)])
    P = tool_positions(plan) - center
    assert np.abs(np.linalg.norm(P[:, 1:], axis=1) - 0.15).max() < 1e-4
    assert np.abs(P[:, 0]).max() < 1e-4
    assert (P @ (half - center)).max() == pytest.approx(0.15**2, rel=1e-3), "the shorter arc"


def test_point_to_point_is_a_line_of_the_joints():
    q = READY_INDUSTRIAL_MOTIONS + np.array([0.4, 0.1, 0.0, 0.2, 0.0, 0.1, 0.3])
    plan = plan_sequence([item(ToolMotion.PTP, mn.JointGoal(q))])
    way = plan.trajectory.positions - READY_INDUSTRIAL_MOTIONS
    share = (
        way
        @ (q - READY_INDUSTRIAL_MOTIONS)
        / ((q - READY_INDUSTRIAL_MOTIONS) @ (q - READY_INDUSTRIAL_MOTIONS))
    )
    assert np.abs(way - share[:, None] * (q - READY_INDUSTRIAL_MOTIONS)).max() < 1e-9
    assert plan.trajectory.positions[-1] == pytest.approx(q)


@pytest.mark.parametrize("kinds", [(ToolMotion.LIN,) * 3, (ToolMotion.PTP,) * 3,
                                   (ToolMotion.LIN, ToolMotion.PTP, ToolMotion.LIN)])  # fmt: skip
def test_blends_do_not_stop_and_stay_within_their_radius(kinds):
    goals = (beside(0.1), beside(0.1, 0.2), beside(0.0, 0.2, 0.1))
    radius = 0.03
    items = [item(k, X, blend_radius=radius) for k, X in zip(kinds, goals, strict=True)]
    items[-1] = item(kinds[-1], goals[-1])
    plan = plan_sequence(items)
    P = tool_positions(plan)
    for X in goals[:2]:
        assert 1e-3 < np.linalg.norm(P - X[:3, 3], axis=1).min() < radius
    times = np.linspace(0.05, plan.motion.duration - 0.05, 500)
    assert np.abs(plan.motion.states(times)[1]).max(axis=1).min() > 0.01, "it stopped"
    assert plan.motion.limit_use(ARM.limits).stretch <= 1.0 + 1e-6
    stops = plan_sequence([item(k, X) for k, X in zip(kinds, goals, strict=True)])
    assert stops.trajectory.times[-1] > plan.motion.duration
    assert np.linalg.norm(tool_positions(stops) - goals[0][:3, 3], axis=1).min() < 1e-3


def test_a_blocked_line_names_the_obstacle():
    world = mn.World()
    world.add("post", mn.Box(0.03, 0.03, 0.6), mn.pose(xyz=tuple(beside(0.0, 0.15)[:3, 3])))
    plan = plan_sequence([item(ToolMotion.LIN, beside(0.0, 0.3), world=world)])
    assert plan.status is PlanStatus.BLOCKED
    assert "post" in plan.reason


def test_what_is_out_of_reach_or_not_defined_is_refused():
    far = plan_sequence([item(ToolMotion.LIN, beside(2.0))])
    assert far.status is PlanStatus.GOAL_UNREACHABLE
    ptp = plan_sequence([item(ToolMotion.PTP, beside(2.0))])
    assert ptp.status is PlanStatus.GOAL_UNREACHABLE
    goal = beside(0.0, 0.2)
    middle = beside(0.0, 0.1)[:3, 3]
    for items in (
        [item(ToolMotion.CIRC, goal)],
        [item(ToolMotion.CIRC, goal, arc=ArcPoint(middle, True))],
        [item(ToolMotion.CIRC, goal, arc=ArcPoint(middle, False))],
        [item(ToolMotion.CIRC, goal, arc=ArcPoint(middle + 0.5, True))],
        [item(ToolMotion.CIRC, goal, arc=ArcPoint((np.nan, 0.0, 0.0), False))],
        [item(ToolMotion.LIN, goal, blend_radius=0.1)],
        [item(ToolMotion.LIN, goal, blend_radius=-0.1), item(ToolMotion.LIN, HERE)],
        [item(ToolMotion.LIN, goal, blend_radius=0.3), item(ToolMotion.LIN, beside(0.1))],
    ):
        with pytest.raises(InvalidCommand):
            plan_sequence(items)


@pytest.mark.parametrize("kind", [ToolMotion.LIN, ToolMotion.CIRC])
def test_a_speed_limit_is_a_cruise_speed(kind):
    """Pilz's profile: a ramp, the max velocity of the tool, and a ramp."""
    goal, limit = beside(0.0, 0.3), 0.1
    arc = ArcPoint(beside(0.05, 0.15)[:3, 3], False) if kind is ToolMotion.CIRC else None
    plan = plan_sequence([item(kind, goal, arc=arc, tool_speed=(TIP, limit))])
    times = np.linspace(0.0, plan.motion.duration, 3001)
    q, v, _, _ = plan.motion.states(times)
    J = np.stack([ARM.jacobian(each)[:3] for each in q])
    speeds = np.linalg.norm(np.einsum("kij,kj->ki", J, v), axis=1)
    assert speeds.max() <= limit * (1.0 + 1e-3)
    cruises = np.flatnonzero(speeds > 0.97 * limit)
    assert np.all(np.diff(cruises) == 1), "one phase of constant speed"
    assert len(cruises) > 0.8 * len(times)
    assert plan.motion.limit_use(ARM.limits).stretch <= 1.0 + 1e-6
    length = float(np.sum(np.linalg.norm(np.diff(tool_positions(plan), axis=0), axis=1)))
    assert length / limit < plan.motion.duration < length / limit + 0.6
