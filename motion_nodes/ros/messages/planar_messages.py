# SPDX-License-Identifier: Apache-2.0
"""Planar poses, twists and paths from and to messages."""

from __future__ import annotations

import math
from typing import Any

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.robot.bounds import EARTH_LENGTH
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.message_bounds import check_bounds

UNIT_TOLERANCE = 0.01
"""Max deviation of a quaternion's norm from 1."""


def pose2_from(pose: Any, what: str = "pose") -> Pose2:
    """Return the projection of a geometry_msgs/Pose onto the plane: position and yaw.

    Args:
        pose: the pose.
        what: its name, for errors.

    Raises:
        InvalidCommand: values that are not finite or beyond their bounds, or an orientation that is
            not a unit quaternion.
    """
    p, q = pose.position, pose.orientation
    if not all(map(math.isfinite, (p.x, p.y, q.x, q.y, q.z, q.w))):
        raise InvalidCommand(
            f"{what}: position ({p.x}, {p.y}), orientation ({q.x}, {q.y}, {q.z}, {q.w}) must be "
            "finite numbers",
            field=what,
        )
    check_bounds(pose, what, EARTH_LENGTH)
    length = math.sqrt(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w)
    if abs(length - 1.0) > UNIT_TOLERANCE:
        raise InvalidCommand(
            f"{what}: orientation ({q.x}, {q.y}, {q.z}, {q.w}) is not a unit quaternion (norm "
            f"{length:.3g}); a yaw of 0 is (0, 0, 0, 1)",
            field=what,
        )
    # Homogeneous in the norm, so the quaternion need not be normalized.
    sine, cosine = 2.0 * (q.w * q.z + q.x * q.y), q.w * q.w + q.x * q.x - q.y * q.y - q.z * q.z
    yaw = math.atan2(sine, cosine)
    return Pose2(p.x, p.y, yaw)


def pose2_of(X: Any) -> Pose2:
    """Return the projection of a pose, shape (4, 4), to the ground plane."""
    return Pose2(float(X[0, 3]), float(X[1, 3]), math.atan2(float(X[1, 0]), float(X[0, 0])))


def frame_of(message: Any, what: str) -> str:
    """Return the frame of a stamped message.

    Args:
        message: the message.
        what: its name, for errors.

    Raises:
        InvalidCommand: the frame is empty.
    """
    frame = str(message.header.frame_id).lstrip("/")
    if not frame:
        raise InvalidCommand(f"{what} has no frame; set header.frame_id, such as odom", field=what)
    return frame


def poses_from(path: Any) -> tuple[str, list[Pose2]]:
    """Return the frame and the poses of a nav_msgs/Path.

    Raises:
        InvalidCommand: no poses, an invalid pose, or poses in different frames; names the pose.
    """
    if not path.poses:
        raise InvalidCommand("the path has no poses")
    frame = frame_of(path if path.header.frame_id else path.poses[0], "the path")
    poses = []
    for i, stamped in enumerate(path.poses):
        own = str(stamped.header.frame_id).lstrip("/")
        if own not in ("", frame):
            raise InvalidCommand(f"pose {i} of the path is in frame '{own}', the path in '{frame}'")
        poses.append(pose2_from(stamped.pose, f"pose {i} of the path"))
    return frame, poses


def twist2_from(twist: Any) -> Twist2:
    """Return the planar part of a geometry_msgs/Twist."""
    return Twist2(twist.linear.x, twist.linear.y, twist.angular.z)


def fill_pose(message: Any, pose: Pose2) -> None:
    """Write a planar pose to a geometry_msgs/Pose."""
    message.position.x, message.position.y = pose.x, pose.y
    message.orientation.z = math.sin(0.5 * pose.yaw)
    message.orientation.w = math.cos(0.5 * pose.yaw)


def stamped_pose(pose: Pose2, frame: str, nanoseconds: int) -> PoseStamped:
    """Return a planar pose as a message with frame and stamp [ns]."""
    message = PoseStamped()
    message.header.frame_id = frame
    set_stamp(message, nanoseconds)
    fill_pose(message.pose, pose)
    return message


def path_message(path: PlanarPath, frame: str, nanoseconds: int) -> Path:
    """Return a path as a message with frame and stamp [ns]."""
    message = Path()
    message.header.frame_id = frame
    set_stamp(message, nanoseconds)
    message.poses = [stamped_pose(Pose2(*row), frame, nanoseconds) for row in path.poses().tolist()]
    return message
