# SPDX-License-Identifier: Apache-2.0
"""Plans as moveit_msgs: trajectories, error codes, displayed paths."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from moveit_msgs.msg import DisplayTrajectory, MoveItErrorCodes, RobotState, RobotTrajectory
from numpy.typing import NDArray
from trajectory_msgs.msg import JointTrajectoryPoint

from motion_nodes.core.planning.planning_problem import PlanStatus
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.ros.messages.moveit_messages import RequestRejected, fill_robot_state

Codes = MoveItErrorCodes

MIN_SCALING = 1e-6
"""Min scaling factor; with smaller ones the numbers of a motion overflow."""

PLAN_CODES = {
    PlanStatus.SOLVED: Codes.SUCCESS,
    PlanStatus.NO_GOAL: Codes.INVALID_GOAL_CONSTRAINTS,
    PlanStatus.START_IN_COLLISION: Codes.START_STATE_IN_COLLISION,
    PlanStatus.START_OUTSIDE_LIMITS: Codes.START_STATE_INVALID,
    PlanStatus.START_VIOLATES_CONSTRAINTS: Codes.START_STATE_VIOLATES_PATH_CONSTRAINTS,
    PlanStatus.GOAL_VIOLATES_CONSTRAINTS: Codes.GOAL_VIOLATES_PATH_CONSTRAINTS,
    PlanStatus.GOAL_IN_COLLISION: Codes.GOAL_IN_COLLISION,
    PlanStatus.GOAL_OUTSIDE_LIMITS: Codes.GOAL_STATE_INVALID,
    PlanStatus.GOAL_UNREACHABLE: Codes.NO_IK_SOLUTION,
    PlanStatus.TIMED_OUT: Codes.TIMED_OUT,
    PlanStatus.ITERATION_LIMIT: Codes.PLANNING_FAILED,
    PlanStatus.CANCELLED: Codes.PREEMPTED,
    PlanStatus.BLOCKED: Codes.PLANNING_FAILED,
    PlanStatus.INVALID_PATH: Codes.INVALID_MOTION_PLAN,
}
"""MoveIt's error code for each planning status."""


def trajectory_message(trajectory: JointTrajectory, frame: str = "") -> RobotTrajectory:
    """Return a trajectory as a message.

    Args:
        trajectory: the trajectory.
        frame: the robot's base frame, for the header.
    """
    message = RobotTrajectory()
    joints = message.joint_trajectory
    joints.joint_names, joints.header.frame_id = list(trajectory.joint_names), frame
    q, v, a = (
        [array("d") for _ in trajectory.times] if rows is None else _rows(rows)
        for rows in (trajectory.positions, trajectory.velocities, trajectory.accelerations)
    )
    nanoseconds = np.rint(1e9 * np.maximum(trajectory.times, 0.0)).astype(np.int64).tolist()
    joints.points = list(map(_point, q, v, a, nanoseconds))
    return message


def _rows(values: NDArray[np.float64]) -> list[array[float]]:
    """Return the rows of an array in the form of message fields."""
    every, width = array("d", np.ascontiguousarray(values, np.float64).tobytes()), values.shape[1]
    return [every[i : i + width] for i in range(0, len(every), width)]


def _point(
    position: array[float], velocity: array[float], acceleration: array[float], nanoseconds: int
) -> JointTrajectoryPoint:
    """Return a point of a trajectory.

    The fields of a generated message are set directly: its constructor creates each of them first,
    which takes four times as long, and a response has hundreds of points.
    """
    time = Duration.__new__(Duration)
    time._check_fields = False
    time._sec, time._nanosec = divmod(nanoseconds, 1_000_000_000)
    point = JointTrajectoryPoint.__new__(JointTrajectoryPoint)
    point._check_fields = False
    point._positions, point._velocities, point._accelerations = position, velocity, acceleration
    point._effort, point._time_from_start = array("d"), time
    return point


def state_message(joints: Mapping[str, float], stamp: Any, frame: str) -> RobotState:
    """Return joint positions [rad or m] as a robot state."""
    state = RobotState()
    fill_robot_state(state, joints)
    state.joint_state.header.stamp, state.joint_state.header.frame_id = stamp, frame
    return state


def display_message(
    robot: str, start: RobotState, trajectories: Sequence[RobotTrajectory]
) -> DisplayTrajectory:
    """Return the message that RViz displays as a planned path."""
    return DisplayTrajectory(model_id=robot, trajectory_start=start, trajectory=list(trajectories))


def scaling(value: float, what: str) -> float:
    """Return a velocity or acceleration scaling factor; 0 stands for 1, as in MoveIt.

    Args:
        value: the factor.
        what: its name, for errors.

    Raises:
        RequestRejected: it is neither 0 nor in [MIN_SCALING, 1].
    """
    if not (value == 0.0 or MIN_SCALING <= value <= 1.0):
        raise RequestRejected(
            Codes.INVALID_MOTION_PLAN,
            f"{what} is {value}; allowed is {MIN_SCALING:g} to 1, or 0 for 1",
        )
    return value or 1.0


def planning_time(value: float, default: float) -> float:
    """Return the planning timeout [s].

    Args:
        value: ``allowed_planning_time`` of a request; 0 stands for the default.
        default: default timeout [s].

    Raises:
        RequestRejected: it is negative or not finite.
    """
    if not math.isfinite(value) or value < 0.0:
        raise RequestRejected(
            Codes.PLANNING_FAILED,
            f"allowed_planning_time is {value} s; give a positive time, or 0 for {default:g} s",
        )
    return value or default
