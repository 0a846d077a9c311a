# SPDX-License-Identifier: Apache-2.0
"""Poses as transform messages and on /tf, without tf2_ros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rclpy.node import Node

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.poses import from_xyz_quat, to_quat_xyzw
from motion_nodes.ros.messages.message_bounds import check_bounds
from motion_nodes.ros.messages.transform_buffer import TransformBuffer
from motion_nodes.typing import Array


def frame_id(prefix: str, frame: str) -> str:
    """Return a frame name with its prefix, such as ``robot_1/base_link``."""
    prefix = prefix.strip("/")
    return f"{prefix}/{frame}" if prefix else frame


def frame_prefix(node: Node, desired: str) -> str:
    """Return the prefix of a node's frames for a value of its parameter ``tf_frame_prefix``.

    Args:
        node: the node.
        desired: the parameter; each ``~`` in it stands for the node's namespace.
    """
    return desired.replace("~", node.get_namespace()).replace("//", "/")


def transform_pose(stamped: Any) -> Array:
    """Return the pose ``X_PC`` of a TransformStamped, shape (4, 4).

    Raises:
        InvalidCommand: values that are not finite or beyond their bounds, or no rotation.
    """
    check_bounds(stamped)
    t, q = stamped.transform.translation, stamped.transform.rotation
    try:
        X_PC = from_xyz_quat((t.x, t.y, t.z), (q.x, q.y, q.z, q.w))
    except ValueError as error:
        raise InvalidCommand(str(error)) from None
    if not np.isfinite(X_PC).all():
        raise InvalidCommand(f"the transform of '{stamped.child_frame_id}' is not finite")
    return X_PC


class TransformSender:
    """Publisher of the poses of a fixed list of frames, with a preallocated message."""

    def __init__(self, publisher: Any, pairs: Sequence[tuple[str, str]]) -> None:
        """Create the message.

        Args:
            publisher: publisher of TFMessage.
            pairs: parent and child of each transform, as full frame names.
        """
        self._publisher = publisher
        self._message = TransformBuffer(pairs) if pairs else None

    def send(self, X_PC: Array, nanoseconds: int) -> None:
        """Publish poses.

        Args:
            X_PC: pose of each child in its parent, shape (pairs, 4, 4).
            nanoseconds: time stamp [ns].
        """
        if self._message is not None:
            quats = to_quat_xyzw(X_PC)
            data = self._message.bytes(X_PC[:, :3, 3], quats, nanoseconds)
            self._publisher.publish(data)

    def send_last(self, nanoseconds: int) -> None:
        """Publish the last poses with another time stamp [ns]."""
        if self._message is not None:
            self._publisher.publish(self._message.restamped(nanoseconds))
