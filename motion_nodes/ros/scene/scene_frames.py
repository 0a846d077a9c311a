# SPDX-License-Identifier: Apache-2.0
"""Reference frames of planning scene messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidCommand, UnknownFrame
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.tree import frozen
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.scene.scene_update import SceneDraft
from motion_nodes.ros.transforms import transform_pose
from motion_nodes.scene.subframes import find_frame
from motion_nodes.typing import Array

_IDENTITY = frozen(np.eye(4))


class SceneFrames:
    """Lookup of frames in the planning frame, which is the robot's base frame.

    The order is: the robot's links, objects of the scene and their subframes, fixed frames of scene
    messages, /tf.
    """

    def __init__(
        self, kinematics: Kinematics, frames: RobotFrames, positions: Callable[[], Array]
    ) -> None:
        """Create the lookup.

        Args:
            kinematics: forward kinematics of the robot's links in its base frame.
            frames: the robot's links and /tf.
            positions: returns the positions of all joints [rad or m], shape (n,); raises
                MotionError if they are unknown.
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
        """Return a lookup for fixed joint positions [rad or m], shape (n,)."""
        return SceneFrames(self._kinematics, self._frames, lambda: positions)

    def own(self, name: str) -> str:
        """Return a frame name without the prefix of the robot's frames on /tf."""
        return self._frames.name_of(name)

    def link(self, name: str) -> str:
        """Return the name of a link without its prefix on /tf.

        Raises:
            UnknownFrame: there is no such link; lists the known ones.
        """
        own = self.own(name) if name else ""
        if own not in self._kinematics.frame_names:
            raise UnknownFrame(own, self._kinematics.frame_names, "the robot")
        return own

    def link_pose(self, link: str) -> Array:
        """Return the current pose ``X_BL`` of a link in the planning frame, shape (4, 4).

        Raises:
            MotionError: the joint positions are unknown.
        """
        if link == self.base:
            return _IDENTITY
        return frozen(self._kinematics.pose(self._positions(), link))

    def pose(self, frame: str, draft: SceneDraft) -> Array:
        """Return the pose ``X_BF`` of any frame in the planning frame, shape (4, 4).

        Args:
            frame: name of the frame.
            draft: the scene, whose objects are frames too.

        Raises:
            MotionError: there is no such frame, or its pose is unknown.
        """
        name = self.own(frame)
        if name in self._kinematics.frame_names:
            return self.link_pose(name)
        found = find_frame(draft.objects, draft.attached, name)
        if found is not None:
            return found.X if found.link is None else frozen(self.link_pose(found.link) @ found.X)
        if name in self._fixed:
            return self._fixed[name]
        return frozen(self._frames.pose(frame, np.zeros(len(self._kinematics.joint_names))))

    def fix(self, transforms: Iterable[Any]) -> list[str]:
        """Set the fixed frames of a scene message.

        Args:
            transforms: TransformStamped of each frame, in the planning frame.

        Returns:
            Warnings about frames that are ignored.
        """
        warnings = []
        for stamped in transforms:
            name = stamped.child_frame_id.lstrip("/")
            try:
                if self.own(stamped.header.frame_id) != self.base:
                    raise InvalidCommand(
                        f"its parent is '{stamped.header.frame_id}', not the planning frame "
                        f"'{self.base}'"
                    )
                self._fixed[name] = frozen(transform_pose(stamped))
            except InvalidCommand as error:
                warnings.append(f"fixed frame '{name}' is ignored: {error}")
        return warnings
