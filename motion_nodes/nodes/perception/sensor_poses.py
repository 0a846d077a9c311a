# SPDX-License-Identifier: Apache-2.0
"""Poses of cameras and of the robot at the time of an image."""

from __future__ import annotations

from collections import deque

import numpy as np

from motion_nodes.errors import MotionError
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.ros.transforms import frame_id
from motion_nodes.typing import Array

HISTORY = 3.0
"""Duration of the joint state history [s]."""


class NotYet(MotionError):
    """A transform or joint state of the requested time has not arrived."""


class JointStateHistory:
    """Joint positions of the last seconds."""

    def __init__(self) -> None:
        """Start empty."""
        self._samples: deque[tuple[float, Array]] = deque()

    def add(self, stamp: float, positions: Array) -> None:
        """Add the newest sample; time that runs backwards clears the others."""
        if self._samples and stamp < self._samples[-1][0]:
            self._samples.clear()
        if not self._samples or stamp > self._samples[-1][0]:
            self._samples.append((stamp, positions.copy()))
        while self._samples[-1][0] - self._samples[0][0] > HISTORY:
            self._samples.popleft()

    def at(self, stamp: float, tolerance: float) -> Array:
        """Return interpolated positions at a time [s], shape (n,).

        Raises:
            NotYet: the newest sample is older.
            MotionError: all samples are newer.
        """
        if not self._samples:
            raise NotYet("no joint_states were received")
        later = next((k for k, (t, _) in enumerate(self._samples) if t >= stamp), None)
        if later is None:
            newest, positions = self._samples[-1]
            if stamp - newest > 0.2 * tolerance:
                raise NotYet(f"the newest joint_states are {stamp - newest:.2f} s older")
            return positions
        end, q_end = self._samples[later]
        if later == 0:
            if end - stamp > tolerance:
                raise MotionError(f"it is {end - stamp:.2f} s older than the oldest joint_states")
            return q_end
        begin, q_begin = self._samples[later - 1]
        return q_begin + (stamp - begin) / (end - begin) * (q_end - q_begin)


class SensorPoses:
    """Poses in the map."""

    def __init__(
        self, kinematics: Kinematics, tree: TransformTree, prefix: str, map_frame: str
    ) -> None:
        """Create the lookup.

        Args:
            kinematics: forward kinematics of all links in the robot's base frame.
            tree: /tf.
            prefix: prefix of the robot's frames.
            map_frame: full name of the map's frame; empty: the base frame.
        """
        self._kinematics, self._tree = kinematics, tree
        self._frames = RobotFrames(kinematics, tree, prefix)
        self._base = frame_id(prefix, kinematics.base)
        self._map = "" if map_frame == self._base else map_frame
        self.history = JointStateHistory()
        self.tolerance = 0.1
        """Max difference of stamps [s]."""

    @property
    def frame(self) -> str:
        """Full name of the map's frame."""
        return self._map or self._base

    @property
    def frame_is_base(self) -> bool:
        """Whether the map's frame is that of the base, which does not move in it."""
        return not self._map

    def base_at(self, stamp: float) -> Array:
        """Return the pose of the robot's base frame in the map, shape (4, 4).

        Raises:
            MotionError: it is unknown, or not yet known (:class:`NotYet`).
        """
        return self._moving(self._map, self._base, stamp) if self._map else np.eye(4)

    def camera_at(self, frame: str, stamp: float) -> Array:
        """Return the pose of a camera's frame in the map, shape (4, 4).

        A camera that is fixed to a link moves with the measured joints.

        Raises:
            MotionError: it is unknown, or not yet known (:class:`NotYet`).
        """
        if not frame:
            raise MotionError("the image has no frame_id")
        name = frame.lstrip("/")
        found = self._tree.fixed_to(name, self._frames.is_own)
        if found is None:
            return self._moving(self.frame, name, stamp)
        link, X_LC = found
        own = self._frames.name_of(link)
        if own == self._kinematics.base:
            return self.base_at(stamp) @ X_LC
        q = self.history.at(stamp, self.tolerance)
        return self.base_at(stamp) @ self._kinematics.pose(q, own) @ X_LC

    def _moving(self, parent: str, child: str, stamp: float) -> Array:
        X, at = self._tree.pose(parent, child)
        if at is None:
            return X
        late = stamp - 1e-9 * at
        if late > self.tolerance:
            raise NotYet(f"the transform from '{parent}' to '{child}' is {late:.2f} s older")
        if -late > HISTORY:
            raise MotionError(f"the transform from '{parent}' to '{child}' is {-late:.2f} s newer")
        return X
