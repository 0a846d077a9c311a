# SPDX-License-Identifier: Apache-2.0
"""Poses and paths in the plane, from and to messages."""

from __future__ import annotations

import math
from typing import Any

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path

from motion_nodes.base_navigation.planar_path import PlanarPath
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.errors import InvalidCommand
from motion_nodes.model.bounds import EARTH_LENGTH
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.message_bounds import check_bounds

UNIT = 0.01
"""How far from 1 the length of an orientation may be."""


def pose2_from(pose: Any, what: str = "pose") -> Pose2:
    """Return a geometry_msgs/Pose seen from above: place and heading of its x axis.

    Raises:
        InvalidCommand: numbers that are not finite, or an orientation that is no rotation.
    """
    p, q = pose.position, pose.orientation
    if not all(map(math.isfinite, (p.x, p.y, q.x, q.y, q.z, q.w))):
        raise InvalidCommand(
            f"{what}: position ({p.x}, {p.y}), orientation ({q.x}, {q.y}, {q.z}, {q.w}) must be "
            "finite numbers"
        )
    check_bounds(pose, what, EARTH_LENGTH)
    length = math.sqrt(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w)
    if abs(length - 1.0) > UNIT:
        raise InvalidCommand(
            f"{what}: orientation ({q.x}, {q.y}, {q.z}, {q.w}) is no unit quaternion (length "
            f"{length:.3g}); a heading of 0 is (0, 0, 0, 1)"
        )
    # Of a length of its own on both sides, so that a rounded quaternion is as good.
    sine, cosine = 2.0 * (q.w * q.z + q.x * q.y), q.w * q.w + q.x * q.x - q.y * q.y - q.z * q.z
    yaw = math.atan2(sine, cosine)
    return Pose2(p.x, p.y, yaw)


def pose2_of(X: Any) -> Pose2:
    """Return the projection of a pose, shape (4, 4), to the ground plane."""
    return Pose2(float(X[0, 3]), float(X[1, 3]), math.atan2(float(X[1, 0]), float(X[0, 0])))


def frame_of(message: Any, what: str) -> str:
    """Return the frame of a stamped message.

    Raises:
        InvalidCommand: it names none.
    """
    frame = str(message.header.frame_id).lstrip("/")
    if not frame:
        raise InvalidCommand(f"{what} has no frame; header.frame_id must say which, such as odom")
    return frame


def poses_from(path: Any) -> tuple[str, list[Pose2]]:
    """Return the frame and the poses of a nav_msgs/Path.

    Raises:
        InvalidCommand: no pose, none that can be used, or poses in several frames; says which.
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
    """Return a geometry_msgs/Twist in the plane."""
    return Twist2(twist.linear.x, twist.linear.y, twist.angular.z)


def fill_pose(message: Any, pose: Pose2) -> None:
    """Write a pose into a geometry_msgs/Pose."""
    message.position.x, message.position.y = pose.x, pose.y
    message.orientation.z = math.sin(0.5 * pose.yaw)
    message.orientation.w = math.cos(0.5 * pose.yaw)


def stamped_pose(pose: Pose2, frame: str, nanoseconds: int) -> PoseStamped:
    """Return a pose as a message."""
    message = PoseStamped()
    message.header.frame_id = frame
    set_stamp(message, nanoseconds)
    fill_pose(message.pose, pose)
    return message


def path_message(path: PlanarPath, frame: str, nanoseconds: int) -> Path:
    """Return a path as a message."""
    message = Path()
    message.header.frame_id = frame
    set_stamp(message, nanoseconds)
    message.poses = [stamped_pose(Pose2(*row), frame, nanoseconds) for row in path.poses().tolist()]
    return message
