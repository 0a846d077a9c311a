# SPDX-License-Identifier: Apache-2.0
"""Behaviors of MoveIt's Pilz industrial motion planner, over services and actions of move_group."""

import math
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from joint_client import ARM, FRANKA, HOME, SUCCEEDED
from moveit_msgs.action import MoveGroupSequence
from moveit_msgs.msg import (
    Constraints,
    MotionPlanRequest,
    MotionSequenceItem,
    MoveItErrorCodes,
    PositionConstraint,
)
from moveit_msgs.srv import GetMotionSequence, QueryPlannerInterfaces
from planner_client import Planner, at, end_of, planning_cell, pose_constraints, state

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import to_quat_xyzw

Codes = MoveItErrorCodes
PILZ = "pilz_industrial_motion_planner"
TIP = FRANKA.group("arm").tip
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
HERE = KINEMATICS.pose(FRANKA.home, TIP)
AT_HOME = {name: HOME[name] for name in ARM}
KINDS = ("PTP", "LIN", "CIRC")
SCALED = {"max_velocity_scaling_factor": 0.5, "max_acceleration_scaling_factor": 0.5}
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def planner(module_suite, module_client):
    yield from planning_cell(module_suite, module_client)


@pytest.fixture
def strict(planner):
    """The planner with the ways of Pilz."""
    node = f"{planner.namespace}/move_group"
    assert planner.client.set_parameters(node, peer_defaults=True).successful
    yield planner
    assert planner.client.set_parameters(node, peer_defaults=False).successful


def beside(x: float = 0.0, y: float = 0.0, z: float = 0.0, **more: Any) -> Constraints:
    return pose_constraints(HERE[:3, 3] + (x, y, z), to_quat_xyzw(HERE), **more)


def arc(name: str, *offset: float, link: str = TIP) -> Constraints:
    point, pose = PositionConstraint(link_name=link), Pose()
    pose.position.x, pose.position.y, pose.position.z = (HERE[:3, 3] + offset).tolist()
    point.constraint_region.primitive_poses = [pose]
    return Constraints(name=name, position_constraints=[point])


def plan(planner: Planner, goal: Any, kind: str = "LIN", **fields: Any) -> Any:
    fields.setdefault("start_state", state(HOME))
    if kind == "CIRC":
        fields.setdefault("path_constraints", arc("interim", 0.0, 0.05, 0.05))
    return planner.plan(goal, pipeline_id=PILZ, planner_id=kind, **fields)


def code(planner: Planner, goal: Any, kind: str = "LIN", **fields: Any) -> int:
    answer = plan(planner, goal, kind, **fields)
    failed = answer.error_code.val != Codes.SUCCESS
    assert failed != bool(answer.trajectory.joint_trajectory.points)
    return int(answer.error_code.val)


def places(trajectory: Any) -> np.ndarray:
    """Return the tool's positions relative to the start."""
    message = trajectory.joint_trajectory
    Q = np.tile(FRANKA.home, (len(message.points), 1))
    columns = [FRANKA.joint_names.index(name) for name in message.joint_names]
    Q[:, columns] = [point.positions for point in message.points]
    return KINEMATICS.pose_batch(Q, TIP)[:, :3, 3] - HERE[:3, 3]


def moved(**joints: float) -> dict[str, float]:
    return {**AT_HOME, **joints}


def item(goal: Any, kind: str = "LIN", radius: float = 0.0, **fields: Any) -> MotionSequenceItem:
    request = MotionPlanRequest(group_name="arm", pipeline_id=PILZ, planner_id=kind, **fields)
    request.goal_constraints = [goal if isinstance(goal, Constraints) else at(goal)]
    return MotionSequenceItem(req=request, blend_radius=radius)


def sequence(planner: Planner, *items: MotionSequenceItem) -> Any:
    request = GetMotionSequence.Request()
    request.request.items = list(items)
    name = "/plan_sequence_path"
    answer = planner.client.call(GetMotionSequence, name, request, within=90.0).response
    if answer.error_code.val != Codes.SUCCESS:
        assert not answer.planned_trajectories
    return answer


def execute(planner: Planner, *items: MotionSequenceItem, plan_only: bool = False) -> Any:
    goal = MoveGroupSequence.Goal()
    goal.request.items = list(items)
    goal.planning_options.plan_only = plan_only
    return planner.arm.send(goal, MoveGroupSequence, "/sequence_move_group")


# ---- all motions


def test_planners(planner):
    found = planner.client.call(QueryPlannerInterfaces, "/query_planner_interface")
    named = {i.pipeline_id: set(i.planner_ids) for i in found.planner_interfaces}
    assert named[PILZ] == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_plans(planner, kind):
    assert code(planner, beside(0.0, 0.1, 0.0), kind) == Codes.SUCCESS


@pytest.mark.parametrize("kind", ["", "NON_EXISTING_ALGORITHM_HASH"])
def test_unknown_planners(planner, kind):
    assert code(planner, beside(0.1), kind) == Codes.FAILURE


@pytest.mark.parametrize(
    "factors",
    [
        {"max_velocity_scaling_factor": 2.0},
        {"max_velocity_scaling_factor": 1e-5},
        {"max_acceleration_scaling_factor": 1e-4},
        {"max_acceleration_scaling_factor": -1.0},
    ],
)
def test_scaling_factors(planner, factors):
    assert code(planner, beside(0.1), **factors) == Codes.INVALID_MOTION_PLAN


@pytest.mark.parametrize("kind", ["velocity", "acceleration"])
def test_a_scaling_factor_of_zero(planner, request, kind):
    other = "velocity" if kind == "acceleration" else "acceleration"
    fields = {f"max_{kind}_scaling_factor": 0.0, f"max_{other}_scaling_factor": 0.5}
    assert code(planner, beside(0.1), **fields) == Codes.SUCCESS
    strict = request.getfixturevalue("strict")
    assert code(strict, beside(0.1), **fields) == Codes.INVALID_MOTION_PLAN
    fields[f"max_{kind}_scaling_factor"] = 0.5
    assert code(strict, beside(0.1), **fields) == Codes.SUCCESS


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_groups(planner, kind):
    fields = {"group_name": "foot"}
    assert code(planner, beside(0.1), kind, **fields) == Codes.INVALID_GROUP_NAME


@pytest.mark.parametrize("kind", KINDS)
def test_start_states(planner, kind):
    more, outside, moving = state(HOME), state({**HOME, "panda_joint1": 100.0}), state(HOME)
    more.joint_state.name.append("joint_7")
    moving.joint_state.velocity = [100.0] + [0.0] * (len(moving.joint_state.name) - 1)
    codes = (Codes.INVALID_ROBOT_STATE, Codes.START_STATE_INVALID)
    for start in (more, outside, moving):
        assert code(planner, beside(0.0, 0.1), kind, start_state=start) in codes


def test_a_start_that_hardly_moves(planner):
    start = state(HOME)
    start.joint_state.velocity = [1e-9] * len(start.joint_state.name)
    assert code(planner, moved(panda_joint1=0.1), start_state=start) == Codes.SUCCESS


def test_an_empty_start_state(planner, request):
    empty, diff = state({}), state({})
    diff.is_diff = True
    assert code(planner, beside(0.1), start_state=empty) == Codes.SUCCESS
    strict, fields = request.getfixturevalue("strict"), SCALED
    found = code(strict, beside(0.1), start_state=empty, **fields)
    assert found == Codes.INVALID_ROBOT_STATE
    for given in (diff, state(HOME)):
        assert code(strict, beside(0.1), start_state=given, **fields) == Codes.SUCCESS


@pytest.mark.parametrize("kind", KINDS)
def test_goals(planner, kind):
    both, bare, twice = beside(0.1), beside(0.1), beside(0.1)
    both.joint_constraints = at(AT_HOME).joint_constraints
    bare.position_constraints[0].constraint_region.primitive_poses = []
    twice.position_constraints *= 2
    for goal in (
        [],
        [beside(0.1), beside(0.2)],
        both,
        twice,
        at({**AT_HOME, "test_joint_2": 0.0}),
        bare,
    ):
        assert code(planner, goal, kind) == Codes.INVALID_GOAL_CONSTRAINTS, goal
    beyond = at(moved(panda_joint1=100.0))
    assert code(planner, beyond, kind) in (Codes.INVALID_GOAL_CONSTRAINTS, Codes.GOAL_STATE_INVALID)


def test_goals_of_some_joints(planner, request):
    answer = plan(planner, at({"panda_joint1": 0.1}), "PTP")
    assert answer.error_code.val == Codes.SUCCESS
    end = end_of(answer.trajectory)
    assert end["panda_joint1"] == pytest.approx(0.1, abs=1e-3)
    assert end["panda_joint4"] == pytest.approx(HOME["panda_joint4"], abs=1e-3)
    strict = request.getfixturevalue("strict")
    some = at({"panda_joint1": 0.1})
    assert code(strict, some, "PTP", **SCALED) == Codes.INVALID_GOAL_CONSTRAINTS
    assert code(strict, moved(panda_joint1=0.1), "PTP", **SCALED) == Codes.SUCCESS


def test_goals_of_unknown_links(planner):
    codes = (Codes.INVALID_GOAL_CONSTRAINTS, Codes.INVALID_LINK_NAME, Codes.NO_IK_SOLUTION)
    assert code(planner, beside(0.1, link="test_link_1")) in codes


def test_goals_without_a_link(planner, request):
    assert code(planner, beside(0.1, link="")) == Codes.SUCCESS
    strict = request.getfixturevalue("strict")
    found = code(strict, beside(0.1, link=""), **SCALED)
    assert found == Codes.INVALID_GOAL_CONSTRAINTS
    assert code(strict, beside(0.1), **SCALED) == Codes.SUCCESS


# ---- PTP


def test_ptp_to_joints(planner):
    goal = moved(panda_joint1=0.4, panda_joint6=1.8)
    answer = plan(planner, goal, "PTP", max_velocity_scaling_factor=0.5)
    assert end_of(answer.trajectory) == pytest.approx(goal, abs=1e-3)
    points = answer.trajectory.joint_trajectory.points
    assert not any(points[-1].velocities)
    limits = FRANKA.group("arm").limits
    assert (np.abs([p.velocities for p in points]) <= 0.5 * limits.velocity + 1e-6).all()
    assert (np.abs([p.accelerations for p in points]) <= limits.acceleration + 1e-6).all()
    slower = plan(planner, goal, "PTP", max_acceleration_scaling_factor=0.25).trajectory
    found = np.abs([p.accelerations for p in slower.joint_trajectory.points])
    assert (found <= 0.25 * limits.acceleration + 1e-6).all()
    assert found.max() > 0.1 * limits.acceleration.min()


def test_ptp_to_a_pose(planner):
    answer = plan(planner, beside(0.05, 0.1, -0.05), "PTP")
    assert places(answer.trajectory)[-1] == pytest.approx((0.05, 0.1, -0.05), abs=1e-3)


def test_ptp_out_of_reach(planner):
    assert code(planner, beside(2.5), "PTP") == Codes.NO_IK_SOLUTION


def test_ptp_to_where_it_is(planner):
    answer = plan(planner, AT_HOME, "PTP")
    assert answer.error_code.val == Codes.SUCCESS
    assert len(answer.trajectory.joint_trajectory.points) == 1


# ---- LIN


def test_lin_to_joints(planner):
    P = places(plan(planner, moved(panda_joint1=0.4)).trajectory)
    along = P[-1] / np.linalg.norm(P[-1])
    assert np.abs(P - np.outer(P @ along, along)).max() < 1e-3
    assert np.linalg.norm(P[-1]) > 0.08


def test_lin_to_a_pose(planner):
    P = places(plan(planner, beside(0.0, 0.2)).trajectory)
    assert np.abs(P[:, [0, 2]]).max() < 1e-3
    assert P[-1] == pytest.approx((0.0, 0.2, 0.0), abs=1e-3)


def tool_speeds(trajectory: Any) -> np.ndarray:
    """Return the speeds of the tool between points [m/s]."""
    steps = np.linalg.norm(np.diff(places(trajectory), axis=0), axis=1)
    return np.asarray(steps / np.diff(times_of(trajectory)))


@pytest.mark.parametrize("by", ["request", "parameter"])
def test_the_speed_of_lin(planner, by):
    limit, fields = 0.1, {"max_cartesian_speed": 0.1} if by == "request" else {}
    node, name = f"{planner.namespace}/move_group", "cartesian_limits.max_trans_vel"
    if by == "parameter":
        assert planner.client.set_parameters(node, **{name: limit}).successful
    try:
        slow = plan(planner, beside(0.0, 0.2), **fields).trajectory
    finally:
        assert planner.client.set_parameters(node, **{name: 0.0}).successful
    speeds, times = tool_speeds(slow), times_of(slow)
    assert speeds.max() == pytest.approx(limit, rel=0.02)
    cruises = np.flatnonzero(speeds > 0.97 * limit)
    assert np.all(np.diff(cruises) == 1), "one phase of constant velocity"
    cruise = times[cruises[-1] + 1] - times[cruises[0]]
    assert 0.2 / limit * 0.8 < cruise < times[-1]
    # A trapezoid with ramps of less than a quarter of a second.
    assert 0.2 / limit < times[-1] < 0.2 / limit + 0.5


def test_no_limit_of_the_speed(planner):
    assert code(planner, beside(0.1), max_cartesian_speed=0.0) == Codes.SUCCESS


def test_a_negative_limit_of_the_speed(planner, request):
    assert code(planner, beside(0.1), max_cartesian_speed=-1.0) == Codes.INVALID_MOTION_PLAN
    strict = request.getfixturevalue("strict")
    durations = [
        times_of(plan(strict, beside(0.1), max_cartesian_speed=v, **SCALED).trajectory)[-1]
        for v in (-1.0, 0.0, 0.01)
    ]
    assert durations[0] == durations[1] < durations[2]
    nan = code(strict, beside(0.1), max_cartesian_speed=math.nan, **SCALED)
    assert nan == Codes.INVALID_MOTION_PLAN


def test_lin_out_of_reach(planner):
    assert code(planner, beside(0.8)) != Codes.SUCCESS


def test_lin_at_the_limits(planner):
    answer = plan(planner, beside(0.0, 0.3), max_velocity_scaling_factor=1.0)
    V = np.abs([p.velocities for p in answer.trajectory.joint_trajectory.points])
    assert (V <= FRANKA.group("arm").limits.velocity + 1e-6).all()


@pytest.mark.parametrize("goal", [AT_HOME, beside()])
def test_lin_to_where_it_is(planner, goal):
    assert code(planner, goal) == Codes.SUCCESS


# ---- CIRC


def on_circle(P: np.ndarray, center: tuple[float, ...], radius: float) -> bool:
    return bool(np.abs(np.linalg.norm(P - center, axis=1) - radius).max() < 1e-3)


def test_circ_with_a_center(planner):
    along = arc("center", 0.0, 0.1, 0.0)
    P = places(plan(planner, beside(0.0, 0.1, 0.1), "CIRC", path_constraints=along).trajectory)
    assert on_circle(P, (0.0, 0.1, 0.0), 0.1)
    assert P[-1] == pytest.approx((0.0, 0.1, 0.1), abs=1e-3)


def test_circ_to_joints(planner):
    # The tool turns about the first axis of the robot.
    goal = moved(panda_joint1=HOME["panda_joint1"] + 0.4)
    axis = np.array((0.0, 0.0, HERE[2, 3])) - HERE[:3, 3]
    radius = float(np.linalg.norm(HERE[:2, 3]))
    turn = math.atan2(HERE[1, 3], HERE[0, 3]) + 0.2
    between = radius * np.array((math.cos(turn), math.sin(turn), 0.0)) + axis
    for along in (arc("center", *axis), arc("interim", *between)):
        P = places(plan(planner, goal, "CIRC", path_constraints=along).trajectory)
        assert on_circle(P, tuple(axis), radius)


@pytest.mark.parametrize(
    ("goal", "interim"),
    [
        ((0.0, 0.1, 0.0), (0.0, 0.05, 0.05)),
        ((0.0, 0.05, -0.05), (0.0, 0.1, 0.0)),
        ((0.0, 0.05, -0.05), (0.0, 0.05 + 0.05 * math.cos(0.3), -0.05 * math.sin(0.3))),
    ],
)
def test_circ_through_interim_points(planner, goal, interim):
    along = arc("interim", *interim)
    P = places(plan(planner, beside(*goal), "CIRC", path_constraints=along).trajectory)
    assert on_circle(P, (0.0, 0.05, 0.0), 0.05)
    assert P[-1] == pytest.approx(goal, abs=1e-3)


def test_circ_refuses(planner):
    goal, two = (0.0, 0.1, 0.0), arc("center", 0.0, 0.05, 0.0)
    two.position_constraints[0].constraint_region.primitive_poses *= 2
    for to, along in (
        ((0.0, 0.0, 0.0), arc("center", 0.0, 0.0, 0.0)),
        ((0.0, 0.0, 0.0), arc("interim", 0.0, 0.0, 0.0)),
        (goal, Constraints()),
        (goal, arc("", 0.0, 0.05, 0.05)),
        (goal, arc("center", 0.0, 0.2, 0.0)),
        (goal, arc("center", 0.0, 0.05, 0.0)),
        (goal, arc("interim", 0.0, 0.05, 0.0)),
        (goal, two),
    ):
        found = code(planner, beside(*to), "CIRC", path_constraints=along)
        assert found == Codes.INVALID_MOTION_PLAN, along


def test_circ_refuses_an_unknown_link(planner):
    along = arc("interim", 0.0, 0.05, 0.05, link="INVALID")
    found = code(planner, beside(0.0, 0.1), "CIRC", path_constraints=along)
    assert found == Codes.INVALID_LINK_NAME


def test_circ_at_the_limits(planner):
    answer = plan(planner, beside(0.0, 0.1), "CIRC", max_velocity_scaling_factor=1.0)
    V = np.abs([p.velocities for p in answer.trajectory.joint_trajectory.points])
    assert (V <= FRANKA.group("arm").limits.velocity + 1e-6).all()


# ---- sequences


def test_an_empty_sequence(planner):
    answer = sequence(planner)
    assert answer.error_code.val == Codes.SUCCESS
    assert not answer.planned_trajectories
    status, result = execute(planner).result()
    assert (status, result.response.error_code.val) == (SUCCEEDED, Codes.SUCCESS)


def test_invalid_sequences(planner):
    one, two = beside(0.0, 0.1), beside(0.0, 0.2)
    other, started = item(one), item(two)
    other.req.group_name = "wrong"
    started.req.start_state = state(HOME)
    for items in (
        [other, item(two)],
        [item(one, radius=-0.3), item(two)],
        [item(one, radius=0.06), item(two, radius=0.06), item(beside(0.0, 0.1))],
        [item(one, radius=1e3), item(two)],
        [item(one), started],
        [item(beside(2.5)), item(two)],
        [item(beside(0.0, 0.1, link="invalid_link_name")), item(two)],
        [item(one), item(two, radius=0.01)],
        [item(one), item(two, "INVALID")],
    ):
        assert sequence(planner, *items).error_code.val != Codes.SUCCESS


def times_of(trajectory: Any) -> np.ndarray:
    points = trajectory.joint_trajectory.points
    return np.array([p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in points])


def apart(planner: Planner, items: Any) -> float:
    """Return the sum of the durations of motions that are planned one after the other [s]."""
    total, start = 0.0, dict(HOME)
    for each in items:
        goal, kind = list(each.req.goal_constraints), each.req.planner_id
        found = plan(planner, goal, kind, start_state=state(start)).trajectory
        total += float(times_of(found)[-1])
        start |= end_of(found)
    return total


def test_sequences(planner):
    first, second = item(beside(0.0, 0.1), "PTP"), item(beside(0.0, 0.1, 0.1))
    third = item(beside(0.0, 0.0, 0.1), "PTP")
    alone = times_of(sequence(planner, first).planned_trajectories[0])[-1]
    for items in ((first, third), (first, second), (second, third), (first, second, third)):
        times = times_of(sequence(planner, *items).planned_trajectories[0])
        assert (np.diff(times) > 0.0).all()
        assert times[-1] > alone
        assert times[-1] == pytest.approx(apart(planner, items), abs=0.01 * len(items))
    pair = [item(beside(0.0, 0.05), "PTP"), item(beside(0.0, 0.1), "PTP")]
    many = sequence(planner, *pair * 6)
    assert many.error_code.val == Codes.SUCCESS
    assert times_of(many.planned_trajectories[0])[-1] > 2.0 * alone


def test_blending(planner):
    places_to = (beside(0.0, 0.1), beside(0.0, 0.1, 0.1), beside(0.0, 0.0, 0.1))
    stopping = sequence(planner, *map(item, places_to)).planned_trajectories[0]
    for radii in ((0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.02, 0.02, 0.0)):
        items = [item(p, radius=r) for p, r in zip(places_to, radii, strict=True)]
        answer = sequence(planner, *items)
        assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
        times = times_of(answer.planned_trajectories[0])
        assert (np.diff(times) > 0.0).all()
        assert times[-1] < times_of(stopping)[-1]
        P = places(answer.planned_trajectories[0])
        for corner, radius in zip(((0.0, 0.1, 0.0), (0.0, 0.1, 0.1)), radii, strict=False):
            off = float(np.linalg.norm(P - corner, axis=1).min())
            assert (1e-3 < off < radius) if radius else off < 1e-3


def test_a_sequence_that_is_only_planned(planner):
    before = planner.arm.joints
    status, result = execute(planner, item(beside(0.0, 0.1)), plan_only=True).result()
    assert (status, result.response.error_code.val) == (SUCCEEDED, Codes.SUCCESS)
    assert result.response.planned_trajectories
    assert planner.arm.away(before) < 1e-3
    bad = item(beside(0.0, 0.1), radius=-0.3), item(beside(0.0, 0.2))
    _, result = execute(planner, *bad, plan_only=True).result()
    assert result.response.error_code.val != Codes.SUCCESS


def test_sequences_are_executed(planner):
    planner.arm.rest()
    call = execute(planner, item(beside(0.0, 0.1), radius=0.02), item(beside(0.0, 0.1, 0.1)))
    status, result = call.result()
    assert status == SUCCEEDED, result.response.error_code.message
    assert {entry.feedback.state for entry in call.feedback} >= {"PLANNING", "MONITOR"}
    planner.arm.rest()
    planner.arm.arrives(end_of(result.response.planned_trajectories[-1]))
    assert places(result.response.planned_trajectories[-1])[-1] == pytest.approx(
        (0.0, 0.1, 0.1), abs=2e-3
    )
    call = execute(planner, item(beside(0.0, -0.2), max_velocity_scaling_factor=0.1))
    assert call.accepted()
    planner.arm.moving()
    assert call.cancel()
    assert call.result()[1].response.error_code.val == Codes.PREEMPTED
    planner.arm.rest()


def test_sequences_of_several_groups(planner):
    """Each group continues where it ended, and starts at its own start state."""

    def fingers(width: float, **fields: Any) -> MotionSequenceItem:
        return item({name: width for name in FRANKA.group("gripper").joints}, "PTP",
                    **fields)  # fmt: skip

    def with_group(each: MotionSequenceItem, **start: float) -> MotionSequenceItem:
        each.req.group_name = "gripper"
        each.req.start_state = state(start) if start else each.req.start_state
        return each

    planner.arm.rest()
    narrow, wide = with_group(fingers(0.01)), with_group(fingers(0.03))
    arm = [item(beside(0.0, 0.1), radius=0.02), item(beside(0.0, 0.1, 0.1), radius=0.05)]
    back = item(beside(0.0, 0.0), "PTP")
    answer = sequence(planner, *arm, narrow, back, wide)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    assert "item 2 stops" in answer.error_code.message
    joints = [set(t.joint_trajectory.joint_names) for t in answer.planned_trajectories]
    hand = set(FRANKA.group("gripper").joints)
    assert [names <= hand for names in joints] == [False, True, False, True]
    first, _, second, open_again = answer.planned_trajectories
    ends = end_of(first)
    starts = second.joint_trajectory.points[0].positions
    assert starts == pytest.approx([ends[n] for n in second.joint_trajectory.joint_names], abs=1e-6)
    assert open_again.joint_trajectory.points[0].positions[0] == pytest.approx(0.01, abs=1e-4)
    both = dict.fromkeys(FRANKA.group("gripper").joints, 0.035)
    own = sequence(planner, *arm, with_group(fingers(0.01), **both))
    assert own.planned_trajectories[-1].joint_trajectory.points[0].positions[0] == 0.035
    again = with_group(fingers(0.02), **both)
    assert sequence(planner, narrow, back, again).error_code.val == Codes.INVALID_ROBOT_STATE
    status, result = execute(planner, arm[0], with_group(fingers(0.01)), back).result(within=40.0)
    assert status == SUCCEEDED, result.response.error_code.message
    planner.arm.rest()
    planner.arm.arrives(end_of(result.response.planned_trajectories[-1]))
    planner.arm.arrives(end_of(result.response.planned_trajectories[-2]))
