# SPDX-License-Identifier: Apache-2.0
"""Orientation tolerances, and messages of plans: codes, trajectories, request fields."""

import math

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from moveit_msgs.msg import MotionPlanRequest, MoveItErrorCodes, RobotTrajectory
from rclpy.serialization import serialize_message
from scipy.spatial.transform import Rotation
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.core.planning.planning_problem import PlanStatus
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.ros.clients.trajectory_execution import CONTROLLER_CODES
from motion_nodes.ros.messages.constraints import rotation_vector_bounds
from motion_nodes.ros.messages.message_bounds import check_bounds
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.plan_messages import (
    PLAN_CODES,
    planning_time,
    scaling,
    trajectory_message,
)

Codes = MoveItErrorCodes


# ---- orientation tolerances


@pytest.mark.parametrize(
    "tolerances",
    [
        (1e-3, 1e-3, 1e-3),
        (0.1, 0.1, 0.1),
        (0.5, 0.3, 0.8),
        (0.05, 0.05, math.pi),
        (math.pi, 0.1, 0.1),
        (1.5, 1.5, 1.5),
    ],
)
def test_euler_tolerances_are_kept_by_the_bounds_of_the_rotation_vector(tolerances):
    bounds = rotation_vector_bounds(tolerances, True)
    finite = [b for b in bounds if math.isfinite(b)]
    assert [math.isinf(b) for b in bounds] == [t >= math.pi for t in tolerances]
    rng = np.random.default_rng(3)
    reach = [math.pi if math.isinf(b) else b for b in bounds]
    vectors = rng.uniform(-1.0, 1.0, (4000, 3)) * reach
    vectors = vectors[np.linalg.norm(vectors, axis=1) <= math.pi]
    angles = np.abs(Rotation.from_rotvec(vectors).as_euler("XYZ"))
    asked = np.array([math.inf if t >= math.pi else t for t in tolerances])
    assert (angles <= asked * 1.005).all()
    share = min(b / t for b, t in zip(bounds, tolerances, strict=True) if math.isfinite(b))
    assert share > 0.99 or max(finite) > 0.01
    assert share >= 0.35, "bounds not too tight"


def test_bounds_of_a_rotation_vector_are_taken_as_they_are():
    assert rotation_vector_bounds((0.1, 0.2, 3.2), False) == (0.1, 0.2, math.inf)
    assert min(rotation_vector_bounds((0.0, 0.0, 0.0), True)) > 0.0


# ---- messages out


def test_each_status_has_a_code():
    assert set(PLAN_CODES) == set(PlanStatus)
    only = [status for status, code in PLAN_CODES.items() if code == Codes.SUCCESS]
    assert only == [PlanStatus.SOLVED]


def test_each_code_of_the_controller_has_one_of_moveit():
    result = FollowJointTrajectory.Result
    names = ("SUCCESSFUL", "INVALID_GOAL", "INVALID_JOINTS", "OLD_HEADER_TIMESTAMP",
             "PATH_TOLERANCE_VIOLATED", "GOAL_TOLERANCE_VIOLATED")  # fmt: skip
    assert set(CONTROLLER_CODES) == {getattr(result, name) for name in names}


def test_trajectories_keep_their_numbers():
    times = np.array([0.0, 0.1, 1.0 - 1e-12, 2.000000001])
    rows = np.arange(8.0).reshape(4, 2)
    trajectory = JointTrajectory(("a", "b"), times, rows, rows + 1.0, rows + 2.0)
    message = trajectory_message(trajectory, "base")
    joints = message.joint_trajectory
    assert joints.header.frame_id == "base"
    assert list(joints.joint_names) == ["a", "b"]
    read = [p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in joints.points]
    assert read == pytest.approx(times, abs=2e-9)
    assert np.array([p.positions for p in joints.points]) == pytest.approx(rows)
    assert np.array([p.velocities for p in joints.points]) == pytest.approx(rows + 1.0)
    assert np.array([p.accelerations for p in joints.points]) == pytest.approx(rows + 2.0)


@pytest.mark.parametrize("derivatives", [0, 2])
def test_trajectories_are_those_of_the_setters(derivatives):
    """Messages equal those filled by setters, and can be modified afterwards."""
    times, rows = np.array([0.0, 1.25]), np.arange(4.0).reshape(2, 2)
    further = [rows + 1.0 + k for k in range(derivatives)]
    made = trajectory_message(JointTrajectory(("a", "b"), times, rows, *further))
    wanted = RobotTrajectory()
    wanted.joint_trajectory.joint_names = ["a", "b"]
    for i, (sec, nanosec) in enumerate(((0, 0), (1, 250_000_000))):
        point = JointTrajectoryPoint(time_from_start=Duration(sec=sec, nanosec=nanosec))
        fields = ("positions", "velocities", "accelerations")
        for field, values in zip(fields, (rows, *further), strict=False):
            setattr(point, field, values[i].tolist())
        wanted.joint_trajectory.points.append(point)
    assert made == wanted
    assert serialize_message(made) == serialize_message(wanted)
    assert repr(made) == repr(wanted)
    made.joint_trajectory.points[0].effort = [1.0, 2.0]
    assert made != wanted


def _scaled(velocity, acceleration):
    return MotionPlanRequest(
        max_velocity_scaling_factor=velocity, max_acceleration_scaling_factor=acceleration
    )


def test_numbers_of_a_request_whose_zero_means_the_default():
    notes = []
    assert scaling(_scaled(0.0, 0.0), notes) == scaling(_scaled(1.0, 1.0), notes) == (1.0, 1.0)
    assert planning_time(0.0, 5.0, notes) == 5.0
    assert planning_time(0.5, 5.0, notes) == 0.5
    assert not notes
    for bad in (-0.1, math.nan, math.inf, 1e-7):
        for pair in ((bad, 1.0), (1.0, bad)):
            with pytest.raises(RequestRejected):
                scaling(_scaled(*pair), notes)
    for bad in (-0.1, math.nan, math.inf):
        with pytest.raises(RequestRejected, match="allowed_planning_time"):
            planning_time(bad, 5.0, notes)


@pytest.mark.parametrize("huge", [1.0 + 1e-9, 2.0, 1e6, 1e300])
def test_numbers_above_their_max_are_bounded_with_a_note(huge):
    notes = []
    assert scaling(_scaled(0.25, huge), notes) == (0.25, 1.0)
    (note,) = notes
    assert "max_acceleration_scaling_factor" in note
    assert "1 is used" in note
    with pytest.raises(RequestRejected):
        scaling(_scaled(0.25, huge), notes, strict=True)
    notes.clear()
    time = planning_time(600.0 * huge, 5.0, notes)
    assert time == 600.0
    assert "600 s is used" in notes[0]
    if huge <= 1e9:
        check_bounds(MotionPlanRequest(allowed_planning_time=huge))
