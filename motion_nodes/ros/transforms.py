# SPDX-License-Identifier: Apache-2.0
"""Poses as messages and /tf, without tf2_ros."""

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
    """Return a frame's name in the transform tree, such as ``robot_1/base_link``."""
    prefix = prefix.strip("/")
    return f"{prefix}/{frame}" if prefix else frame


def frame_prefix(node: Node, wanted: str) -> str:
    """Return what stands before a node's frames where its ``tf_frame_prefix`` is ``wanted``."""
    return node.get_namespace() if wanted == "~" else wanted


def fill_transform(transform: Any, X: Array, quat_xyzw: Array) -> None:
    """Write a pose into a geometry_msgs/Transform."""
    translation, rotation = transform.translation, transform.rotation
    translation.x, translation.y, translation.z = float(X[0, 3]), float(X[1, 3]), float(X[2, 3])
    rotation.x, rotation.y, rotation.z, rotation.w = (float(value) for value in quat_xyzw)


class TransformSender:
    """Sends the poses of a fixed list of frames in one TFMessage that is built once."""

    def __init__(self, publisher: Any, pairs: Sequence[tuple[str, str]]) -> None:
        """Prepare for (parent, child) pairs of full frame names."""
        self._publisher = publisher
        self._message = TFMessage()
        for parent, child in pairs:
            transform = TransformStamped(child_frame_id=child)
            transform.header.frame_id = parent
            self._message.transforms.append(transform)

    def send(self, X_PC: Array, nanoseconds: int) -> None:
        """Publish the pose of each child in its parent, shape (pairs, 4, 4)."""
        if not self._message.transforms:
            return
        quats = to_quat_xyzw(X_PC)
        for transform, X, quat in zip(self._message.transforms, X_PC, quats, strict=True):
            fill_transform(transform.transform, X, quat)
            set_stamp(transform, nanoseconds)
        self._publisher.publish(self._message)
