# SPDX-License-Identifier: Apache-2.0
"""What /tf and /tf_static say: the newest pose of any frame in any other, without tf2_ros."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tf2_msgs.msg import TFMessage

from motion_nodes.errors import BadCommand, UnknownFrame
from motion_nodes.model.poses import from_xyz_quat, inverse
from motion_nodes.ros import qos
from motion_nodes.ros.node import MotionNode

Array = NDArray[np.float64]

LONGEST_CHAIN = 1000
"""Frames from a leaf to the root; more than that is a loop."""


class TransformTree:
    """Frames and their newest poses in their parents."""

    def __init__(self) -> None:
        """Begin without frames."""
        self._X_PC: dict[str, tuple[str, Array]] = {}

    @property
    def frames(self) -> tuple[str, ...]:
        """All frames heard of, sorted."""
        parents = {parent for parent, _ in self._X_PC.values()}
        return tuple(sorted(parents | set(self._X_PC)))

    def take(self, transforms: Iterable[Any]) -> None:
        """Take geometry_msgs/TransformStamped; what is no pose is passed over."""
        for message in transforms:
            parent, child = message.header.frame_id.lstrip("/"), message.child_frame_id.lstrip("/")
            t, r = message.transform.translation, message.transform.rotation
            try:
                X = from_xyz_quat((t.x, t.y, t.z), (r.x, r.y, r.z, r.w))
            except ValueError:
                continue
            if not parent or not child or parent == child or not np.isfinite(X).all():
                continue
            self._X_PC[child] = (parent, X)

    def pose(self, frame: str, of: str) -> Array:
        """Return ``X_FO``, the newest pose of frame ``of`` in ``frame``, shape (4, 4).

        Raises:
            UnknownFrame: for a frame that nobody has told of; lists those there are.
            BadCommand: when the two do not hang together.
        """
        if frame == of:
            return np.eye(4)
        up, down = self._to_root(frame), self._to_root(of)
        common = next((name for name in up if name in down), None)
        if common is None:
            raise BadCommand(
                f"/tf connects frame '{frame}' with '{list(up)[-1]}' and '{of}' with "
                f"'{list(down)[-1]}', but not the two with each other"
            )
        return inverse(up[common]) @ down[common]

    def _to_root(self, frame: str) -> dict[str, Array]:
        """Return X_AF for each ancestor A of a frame, itself first."""
        if frame not in self._X_PC and frame not in self.frames:
            raise UnknownFrame(frame, self.frames, "/tf")
        found, X = {frame: np.eye(4)}, np.eye(4)
        at = frame
        while at in self._X_PC and len(found) < LONGEST_CHAIN:
            at, X_PC = self._X_PC[at]
            if at in found:
                raise BadCommand(f"/tf goes round in a circle at frame '{at}'")
            X = X_PC @ X
            found[at] = X
        return found


class TransformListener:
    """A tree that hears /tf and /tf_static for a node."""

    def __init__(self, node: MotionNode[Any]) -> None:
        """Subscribe; the subscriptions end with the node's configuration."""
        self.tree = TransformTree()
        self._lock = threading.Lock()
        self._static = node.poll(TFMessage, "/tf_static", qos.TF_STATIC)
        self._moving = node.poll(TFMessage, "/tf", qos.TF)

    def update(self) -> TransformTree:
        """Take what came and return the tree; any thread may call this."""
        with self._lock:
            for subscription in (self._static, self._moving):
                for message in subscription.all():
                    self.tree.take(message.transforms)
        return self.tree
