# SPDX-License-Identifier: Apache-2.0
"""Poses as transform messages and on /tf, without tf2_ros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from numpy.typing import NDArray
from rclpy.node import Node
from tf2_msgs.msg import TFMessage

from motion_nodes.model.poses import to_quat_xyzw
from motion_nodes.ros.joint_topics import set_stamp

Array = NDArray[np.float64]


def frame_id(prefix: str, frame: str) -> str:
    """Return a frame name with its prefix, such as ``robot_1/base_link``."""
    prefix = prefix.strip("/")
    return f"{prefix}/{frame}" if prefix else frame


def frame_prefix(node: Node, wanted: str) -> str:
    """Return the prefix of a node's frames for a value of its parameter ``tf_frame_prefix``.

    Args:
        node: the node.
        wanted: the parameter; ``~`` stands for the node's namespace.
    """
    return node.get_namespace() if wanted == "~" else wanted


def fill_transform(transform: Any, X: Array, quat_xyzw: Array) -> None:
    """Write a pose to a geometry_msgs/Transform.

    Args:
        transform: the message.
        X: the pose, of which the position is used, shape (4, 4).
        quat_xyzw: its orientation, shape (4,).
    """
    translation, rotation = transform.translation, transform.rotation
    translation.x, translation.y, translation.z = float(X[0, 3]), float(X[1, 3]), float(X[2, 3])
    rotation.x, rotation.y, rotation.z, rotation.w = (float(value) for value in quat_xyzw)


class TransformSender:
    """Publisher of the poses of a fixed list of frames, with a preallocated TFMessage."""

    def __init__(self, publisher: Any, pairs: Sequence[tuple[str, str]]) -> None:
        """Create the message.

        Args:
            publisher: publisher of TFMessage.
            pairs: parent and child of each transform, as full frame names.
        """
        self._publisher = publisher
        self._message = TFMessage()
        for parent, child in pairs:
            transform = TransformStamped(child_frame_id=child)
            transform.header.frame_id = parent
            self._message.transforms.append(transform)

    def send(self, X_PC: Array, nanoseconds: int) -> None:
        """Publish poses.

        Args:
            X_PC: pose of each child in its parent, shape (pairs, 4, 4).
            nanoseconds: time stamp [ns].
        """
        if not self._message.transforms:
            return
        quats = to_quat_xyzw(X_PC)
        for transform, X, quat in zip(self._message.transforms, X_PC, quats, strict=True):
            fill_transform(transform.transform, X, quat)
            set_stamp(transform, nanoseconds)
        self._publisher.publish(self._message)
