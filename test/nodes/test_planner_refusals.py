# SPDX-License-Identifier: Apache-2.0
"""Requests that the planner refuses in words: motions without end, malformed trajectories."""

import math

import pytest
from joint_client import ABORTED, ARM, FRANKA, HOME, SUCCEEDED, trajectory
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetCartesianPath
from planner_client import Planner, state

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.ros.messages.moveit_messages import pose_message

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


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (with_point(positions=START[:3]), "point 1 has 3 positions for 7 joints"),
        (with_point(positions=[]), "point 1 has no positions for 7 joints"),
        (with_point(positions=[math.nan, *START[1:]]), "nan"),
        (with_point(positions=[1e300, *START[1:]]), "1e+300"),
        (with_point(velocities=[0.0]), "point 0 has no velocities for 7 joints"),
        (trajectory(ARM, [START, START], [1.0, 0.5]), "point 1"),
        (trajectory([*ARM[:6], ARM[0]], [START], [0.0]), "more than once"),
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
