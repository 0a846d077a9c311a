# SPDX-License-Identifier: Apache-2.0
"""Requests that the planner refuses in words: motions without end, malformed trajectories."""

import math

import pytest
from joint_client import ABORTED, ARM, FRANKA, HOME, SUCCEEDED, trajectory
from moveit_msgs.action import MoveGroupSequence
from moveit_msgs.msg import (
    CollisionObject,
    MotionSequenceItem,
    MoveItErrorCodes,
    PlanningScene,
    TrajectoryConstraints,
)
from moveit_msgs.srv import GetCartesianPath
from planner_client import Planner, at, state

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.messages.plan_messages import INDUSTRIAL

Codes = MoveItErrorCodes
START = [HOME[name] for name in ARM]
ASIDE = {**dict(zip(ARM, START, strict=True)), "panda_joint1": 0.8}
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def planner(module_suite, controlled_arm):
    module_suite.node("rrt_planner", robot="franka", use_sim_time=True)
    made = Planner(controlled_arm)
    made.wait()
    return made


def line(planner, **fields):
    """Request a straight line downwards; return the answer."""
    request = GetCartesianPath.Request(group_name="arm", max_step=0.01, start_state=state(HOME))
    tip = FRANKA.group("arm").tip
    X = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame).pose(FRANKA.home, tip)
    X[2, 3] -= 0.1
    request.waypoints = [pose_message(X)]
    for name, value in fields.items():
        setattr(request, name, value)
    return planner.client.call(GetCartesianPath, "/compute_cartesian_path", request)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_velocity_scaling_factor": 1e-300}, "max_velocity_scaling_factor is 1e-300"),
        ({"max_acceleration_scaling_factor": 1e-9}, "max_acceleration_scaling_factor is 1e-09"),
        ({"max_velocity_scaling_factor": 1e-6}, "which is more than 100000 samples"),
        ({"max_cartesian_speed": 1e-9}, "which is more than 100000 samples"),
        ({"max_cartesian_speed": 5e-324}, "which is more than 100000 samples"),
    ],
)
def test_a_motion_that_would_take_days_is_refused(planner, fields, words):
    _, text = planner.refused(ASIDE, **fields)
    assert words in text
    answer = line(planner, **fields)
    assert answer.error_code.val != Codes.SUCCESS
    assert words in answer.error_code.message
    assert not answer.solution.joint_trajectory.points


def test_a_line_with_a_payload_that_is_too_heavy_is_refused(planner):
    change = planner.client.set_parameters
    assert line(planner).error_code.val == Codes.SUCCESS
    try:
        assert change("/move_group", payload__mass=60.0).successful
        answer = line(planner)
        assert answer.error_code.val != Codes.SUCCESS
        assert "60 kg at panda_hand_tcp is too heavy" in answer.error_code.message
        assert change("/move_group", effort_share=0.0).successful
        assert line(planner).error_code.val == Codes.SUCCESS
    finally:
        assert change("/move_group", payload__mass=0.0, effort_share=0.9).successful


def with_point(**fields):
    """Return a trajectory of the arm whose second point is changed."""
    message = trajectory(ARM, [START, START, START], [0.0, 1.0, 2.0])
    for name, value in fields.items():
        setattr(message.points[1], name, value)
    return message


def pushing():
    """Return a trajectory with efforts, which need the command interface effort."""
    message = with_point()
    for point in message.points:
        point.effort = [1.0] * 7
    return message


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (with_point(positions=START[:3]), "point 1 has 3 positions for 7 joints"),
        (with_point(positions=[]), "point 1 has no positions for 7 joints"),
        (with_point(positions=[math.nan, *START[1:]]), "nan"),
        (with_point(positions=[1e300, *START[1:]]), "1e+300"),
        (with_point(velocities=[0.0]), "point 0 has no velocities for 7 joints"),
        (trajectory(ARM, [START, START], [1.0, 0.5]), "point 1"),
        (with_point(effort=[1.0] * 7), "point 0 has no effort"),
        (trajectory([*ARM[:6], ARM[0]], [START], [0.0]), "more than once"),
        (trajectory(ARM, [START, START], [0.0, 1.0], [[0.0] * 7, [0.1] * 7]), "at the last point"),
        (pushing(), "points have efforts"),
        (trajectory(ARM, [], []), "no points"),
    ],
)
def test_a_malformed_trajectory_is_refused_and_leaves_the_active_motion(planner, message, words):
    status, result = planner.move(dict(zip(ARM, START, strict=True))).result()
    assert status == SUCCEEDED, result.error_code.message
    planner.arm.rest()
    active = planner.move(ASIDE, max_velocity_scaling_factor=0.1)
    assert active.accepted()
    planner.arm.moving(0.02)
    status, result = planner.execute(message).result()
    assert (status, result.error_code.val) == (ABORTED, Codes.INVALID_MOTION_PLAN)
    assert words in result.error_code.message
    assert not active.done
    assert active.cancel()
    active.result()
    planner.arm.rest()


def test_a_trajectory_that_ends_in_motion_is_executed_where_the_controller_accepts_it(planner):
    start = planner.arm.joints[ARM[0]]
    message = trajectory(ARM[:1], [[start], [start + 0.05]], [0.0, 0.5], [[0.0], [0.1]])
    allowed = "allow_nonzero_velocity_at_trajectory_end"
    change = planner.client.set_parameters
    assert change("/joint_trajectory_controller", **{allowed: True}).successful
    try:
        status, result = planner.execute(message).result()
        assert status == SUCCEEDED, result.error_code.message
    finally:
        assert change("/joint_trajectory_controller", **{allowed: False}).successful
    planner.arm.rest()


WRONG_SCENE = PlanningScene(is_diff=True)
WRONG_SCENE.world.collision_objects = [CollisionObject(id="x", operation=CollisionObject.ADD)]
WRONG_GOALS = [
    ({"group_name": "leg"}, {}, "leg"),
    ({"goal_constraints": []}, {}, ""),
    ({"allowed_planning_time": math.nan}, {}, "allowed_planning_time"),
    ({"max_velocity_scaling_factor": -1.0}, {}, "max_velocity_scaling_factor"),
    ({"goal_constraints": [at({"elbow": 0.0})]}, {}, "elbow"),
    ({"goal_constraints": [at({ARM[0]: math.nan})]}, {}, "nan"),
    ({"start_state": state({ARM[1]: START[1] + 1.0})}, {}, ARM[1]),
    ({"start_state": state({"elbow": 0.0})}, {}, "elbow"),
    ({"pipeline_id": "pilz", "planner_id": "LIN"}, {}, "pilz"),
    ({"planner_id": "LIN", "pipeline_id": INDUSTRIAL, "max_velocity_scaling_factor": 2.0}, {}, "2"),
    ({"planner_id": "PTP", "pipeline_id": INDUSTRIAL, "group_name": "leg"}, {}, "leg"),
    ({"trajectory_constraints": TrajectoryConstraints(constraints=[at(ASIDE)])}, {}, "trajectory"),
    ({}, {"planning_scene_diff": WRONG_SCENE}, ""),
]


@pytest.fixture(scope="module")
def slow_motion(planner):
    """Return a function that begins a slow motion, and one that checks that it goes on."""

    def begin():
        planner.go_home()
        active = planner.move(ASIDE, max_velocity_scaling_factor=0.05)
        assert active.accepted()
        planner.arm.moving(0.02)
        return active

    return begin


def test_wrong_requests_leave_the_motion_under_way(planner, slow_motion):
    """All at once, since each would otherwise wait for the way home."""
    active = slow_motion()
    for fields, options, words in WRONG_GOALS:
        status, result = planner.move(ASIDE, options=options, **fields).result()
        assert status == ABORTED, (fields, options)
        assert words in result.error_code.message, result.error_code.message
        assert not active.done, (fields, result.error_code.message, active.result())
    goal = MoveGroupSequence.Goal()
    goal.request.items = [MotionSequenceItem()]
    planner.fill(goal.request.items[0].req, ASIDE, {"planner_id": "PTP", "group_name": "leg"})
    status, _ = planner.arm.send(goal, MoveGroupSequence, "/sequence_move_group").result()
    assert status == ABORTED
    far = [q + 0.4 for q in START]
    for message in (
        trajectory(ARM, [far, far], [0.0, 1.0]),
        trajectory(ARM, [START, [9.0] * 7], [0.0, 20.0]),
        trajectory(ARM, [START, far], [0.0, 0.001]),
    ):
        status, result = planner.execute(message).result()
        assert status == ABORTED
        assert not active.done, result.error_code.message
    planner.arm.moving(0.02)
    assert active.cancel()
    active.result()
    planner.arm.rest()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"allowed_planning_time": 1e9}, "600 s is used"),
        ({"max_velocity_scaling_factor": 50.0}, "max_velocity_scaling_factor is 50; 1 is used"),
        ({"max_acceleration_scaling_factor": 1e8}, "1 is used"),
        ({"num_planning_attempts": 10**6, "allowed_planning_time": 0.3}, ""),
    ],
)
def test_wishes_above_a_max_are_bounded_with_a_note(planner, fields, words):
    answer = planner.plan(ASIDE, start_state=state(HOME), **fields)
    assert answer.error_code.val == Codes.SUCCESS
    assert words in answer.error_code.message
    times = [p.time_from_start for p in answer.trajectory.joint_trajectory.points]
    full = planner.plan(ASIDE, start_state=state(HOME)).trajectory.joint_trajectory.points
    assert times[-1].sec == full[-1].time_from_start.sec
    if "attempts" not in str(fields) and "time" not in str(fields):
        answer = line(planner, **fields)
        assert answer.error_code.val == Codes.SUCCESS
        assert words in answer.error_code.message
