# SPDX-License-Identifier: Apache-2.0
"""Frames that messages of the planning scene are given in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidCommand, MotionError, UnknownFrame
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.tree import Array, frozen
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.scene_update import SceneDraft

_HERE = frozen(np.eye(4))


class SceneFrames:
    """Finds frames in the planning frame, which is the robot's base.

    Looked up in this order: the robot's links, objects of the scene, frames that a scene message
    fixed, /tf.
    """

    def __init__(
        self, kinematics: Kinematics, frames: RobotFrames, positions: Callable[[], Array]
    ) -> None:
        """Look up frames for one robot.

        Args:
            kinematics: of the robot, relative to its base frame.
            frames: the robot's links and /tf.
            positions: returns where all joints are, shape (n,); raises MotionError when that is
                not known.
        """
        self._kinematics = kinematics
        self._frames = frames
        self._positions = positions
        self._fixed: dict[str, Array] = {}

    @property
    def base(self) -> str:
        """The planning frame."""
        return self._kinematics.base

    def standing(self, positions: Array) -> SceneFrames:
        """Return the same for a robot whose joints are somewhere, shape (n,)."""
        return SceneFrames(self._kinematics, self._frames, lambda: positions)

    def own(self, name: str) -> str:
        """Return a frame's own name, without the prefix that the robot's have on /tf."""
        return self._frames.name_of(name)

    def link(self, name: str) -> str:
        """Return a link's own name, without the prefix that it has on /tf.

        Raises:
            UnknownFrame: lists the links there are.
        """
        own = self.own(name) if name else ""
        if own not in self._kinematics.frame_names:
            raise UnknownFrame(own, self._kinematics.frame_names, "the robot")
        return own

    def link_pose(self, link: str) -> Array:
        """Return ``X_BL`` of a link where the robot is now, shape (4, 4).

        Raises:
            MotionError: where the robot is, is not known.
        """
        if link == self.base:
            return _HERE
        return frozen(self._kinematics.pose(self._positions(), link))

    def pose(self, frame: str, draft: SceneDraft) -> Array:
        """Return ``X_BF`` of any frame, shape (4, 4).

        Raises:
            MotionError: says that there is no such frame, or why its place is not known.
        """
        name = self.own(frame)
        if name in self._kinematics.frame_names:
            return self.link_pose(name)
        if name in draft.objects:
            return draft.objects[name].X_WO
        if name in draft.attached:
            body = draft.attached[name]
            return frozen(self.link_pose(body.link) @ body.X_LO)
        if name in self._fixed:
            return self._fixed[name]
        return frozen(self._frames.pose(frame, np.zeros(len(self._kinematics.joint_names))))

    def fix(self, transforms: Iterable[Any]) -> list[str]:
        """Take frames that a scene message fixes in the planning frame; return what was wrong."""
        problems = []
        for stamped in transforms:
            name = stamped.child_frame_id.lstrip("/")
            t, r = stamped.transform.translation, stamped.transform.rotation
            try:
                if self.own(stamped.header.frame_id) != self.base:
                    raise InvalidCommand(
                        f"it is given in '{stamped.header.frame_id}', which is not the planning "
                        f"frame '{self.base}'"
                    )
                X = from_xyz_quat((t.x, t.y, t.z), (r.x, r.y, r.z, r.w))
            except (MotionError, ValueError) as error:
                problems.append(f"fixed frame '{name}' is not used: {error}")
            else:
                self._fixed[name] = frozen(X)
        return problems
