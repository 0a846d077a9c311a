# SPDX-License-Identifier: Apache-2.0
"""Frames that requests are given in: the robot's own by its kinematics, all others from /tf."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes
from numpy.typing import NDArray

from motion_nodes.errors import MotionError, UnknownFrame
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.transforms import frame_id

Array = NDArray[np.float64]


class Transforms(Protocol):
    """Transforms between frames, as :class:`~motion_nodes.ros.transform_tree.TransformTree`."""

    def update(self) -> None:
        """Take what has come."""

    def pose(self, parent: str, child: str) -> tuple[Array, int | None]:
        """Return ``X_PC``, and the stamp of its oldest part [ns]; raise MotionError for none."""


class RobotFrames:
    """Finds frames relative to the base of a robot's kinematics."""

    def __init__(self, kinematics: Kinematics, tree: Transforms, prefix: str) -> None:
        """Look up the robot's links in ``kinematics``, and all else in ``tree``.

        Args:
            kinematics: of the robot, relative to its base frame.
            tree: of /tf, where the robot's frames stand under ``prefix``.
            prefix: put before the robot's frames there; may be empty.
        """
        self._kinematics = kinematics
        self._tree = tree
        self._prefix = prefix

    def name_of(self, frame: str) -> str:
        """Return a frame's own name: without the prefix if it is the robot's; empty is the base."""
        name = frame.lstrip("/")
        if not name:
            return self._kinematics.base
        own = name.removeprefix(frame_id(self._prefix, ""))
        return own if own in self._kinematics.frame_names else name

    def is_base(self, frame: str) -> bool:
        """Return whether a frame is the base itself; so is an empty name."""
        return self.name_of(frame) == self._kinematics.base

    def is_own(self, frame: str) -> bool:
        """Return whether a frame is one of the robot's."""
        return self.name_of(frame) in self._kinematics.frame_names

    def pose(self, frame: str, q: Array) -> Array:
        """Return ``X_BF``, a frame in the base with the joints at ``q``, shape (4, 4).

        Raises:
            RequestRejected: for a frame that neither the robot nor /tf has, or that hangs on
                nothing.
        """
        name = self.name_of(frame)
        if name in self._kinematics.frame_names:
            return self._kinematics.pose(q, name)
        base = frame_id(self._prefix, self._kinematics.base)
        try:
            self._tree.update()
            return self._tree.pose(base, name)[0]
        except UnknownFrame as error:
            links = UnknownFrame(name, self._kinematics.frame_names, "the robot")
            raise RequestRejected(
                MoveItErrorCodes.FRAME_TRANSFORM_FAILURE, f"{links} On /tf: {error}"
            ) from None
        except MotionError as error:
            raise RequestRejected(MoveItErrorCodes.FRAME_TRANSFORM_FAILURE, str(error)) from None
