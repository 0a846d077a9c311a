# SPDX-License-Identifier: Apache-2.0
"""Trajectories and tolerances of the core from messages."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.tolerances import ToleranceRequest
from motion_nodes.errors import InvalidCommand
from motion_nodes.model.bounds import (
    ACCELERATION,
    DURATION,
    JOINT_POSITION,
    POINTS,
    VELOCITY,
    check_numbers,
)
from motion_nodes.ros.messages.cdr import LITTLE_ENDIAN, CdrReader, InvalidMessage
from motion_nodes.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.trajectory.trajectory_checks import check_point_count, joint_order

Array = NDArray[np.float64]


BOUNDS = {
    "positions": JOINT_POSITION,
    "velocities": VELOCITY,
    "accelerations": ACCELERATION,
}
"""Bounds of the values of each channel."""

MAX_BYTES = 32_000_000
"""Max size of a serialized trajectory: 100 000 points of twelve joints in three channels."""

CHUNK = 500
"""Number of points that are converted or freed at once, while the GIL is held."""


def seconds(duration: Any) -> float:
    """Return a builtin_interfaces Duration or Time [s]."""
    return float(duration.sec) + 1e-9 * float(duration.nanosec)


def fill_seconds(duration: Any, value: float) -> None:
    """Set a builtin_interfaces Duration or Time; negative values become 0.

    Args:
        duration: the message.
        value: [s].
    """
    # Rounded down, so that the nanoseconds never reach a full second.
    fraction, whole = math.modf(max(value, 0.0))
    duration.sec, duration.nanosec = int(whole), int(fraction * 1e9)


def size_fault(data: bytes) -> str:
    """Return why a serialized JointTrajectory is too large to be deserialized; empty if it is not.

    rclpy holds the GIL meanwhile, so a very large message would stall all loops of the process.
    """
    if len(data) > MAX_BYTES:
        return f"the message has {len(data)} bytes; allowed are {MAX_BYTES}"
    if not data.startswith(LITTLE_ENDIAN):
        return ""
    reader = CdrReader(data)
    try:
        reader.stamp_ns()
        reader.skip_string()
        reader.texts()
        reader.count(POINTS)
    except InvalidMessage as error:
        return str(error)
    except (struct.error, ValueError):
        return "the message is truncated"
    return ""


def trajectory_from(message: Any, joint_names: Sequence[str]) -> JointTrajectory:
    """Return the trajectory in a trajectory_msgs/JointTrajectory.

    Args:
        message: a trajectory of some or all of the controller's joints, in any order.
        joint_names: the controller's joints.

    Raises:
        InvalidCommand: an invalid trajectory; names joint and point.
        UnknownJoint: a joint that the controller does not have.
    """
    joint_order(message.joint_names, joint_names)
    points = message.points
    check_point_count(len(points))
    if len(message.joint_names) and not points[0].positions:
        raise InvalidCommand("point 0 has no positions; velocities alone are not supported")
    names = tuple(message.joint_names)
    times = np.array([seconds(point.time_from_start) for point in points])
    check_numbers(times, DURATION, "time_from_start of point")
    positions = _channel(points, "positions", names)
    assert positions is not None
    return JointTrajectory(
        names,
        times,
        positions,
        _channel(points, "velocities", names),
        _channel(points, "accelerations", names),
    )


def _channel(points: Sequence[Any], channel: str, names: tuple[str, ...]) -> Array | None:
    """Return one channel of all points, shape (m, n); None if no point has it."""
    rows = [getattr(point, channel) for point in points]
    if not any(len(row) for row in rows):
        return None
    for i, row in enumerate(rows):
        if len(row) != len(names):
            had = "no" if len(row) == 0 else str(len(row))
            raise InvalidCommand(
                f"point {i} has {had} {channel} for {len(names)} joints ({', '.join(names)}); "
                "give one for each joint, at all points or at none"
            )
    # In chunks, so that a control loop in another thread can run in between.
    chunks = [np.array(rows[i : i + CHUNK], dtype=np.float64) for i in range(0, len(rows), CHUNK)]
    values = np.concatenate(chunks)
    check_numbers(values, BOUNDS[channel], channel, names)
    return values


def drop_points(message: Any) -> None:
    """Free the points of a message, in chunks.

    Python frees a long list at once while it holds the GIL, which would delay control loops in
    other threads.
    """
    while message.points:
        del message.points[-CHUNK:]


def tolerance_requests(messages: Sequence[Any]) -> list[ToleranceRequest]:
    """Return the tolerance requests in a list of control_msgs/JointTolerance."""
    return [ToleranceRequest(m.name, float(m.position), float(m.velocity)) for m in messages]
