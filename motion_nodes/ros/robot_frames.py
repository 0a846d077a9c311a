# SPDX-License-Identifier: Apache-2.0
"""Frames of requests: the robot's links by forward kinematics, frames of a scene, and /tf."""

from __future__ import annotations

import copy
from typing import Any, Protocol

from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scene import Scene, SceneFrame, find_frame
from motion_nodes.errors import MotionError, UnknownFrame
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.transforms import TransformTree, frame_id, frame_prefix
from motion_nodes.typing import Array


class Transforms(Protocol):
    """Transforms between frames, as :class:`~motion_nodes.ros.transforms.TransformTree`."""

    def update(self) -> None:
        """Process received transforms."""

    def destroy(self) -> None:
        """Destroy the subscriptions."""

    def pose(self, parent: str, child: str) -> tuple[Array, int | None]:
        """Return ``X_PC``, shape (4, 4), and the oldest stamp in it [ns].

        Raises:
            MotionError: the frames are unknown or not connected.
        """


class RobotFrames:
    """Lookup of frames in the base frame of a robot."""

    def __init__(self, kinematics: Kinematics, tree: Transforms, prefix: str) -> None:
        """Create the lookup.

        Args:
            kinematics: forward kinematics of the robot's links in its base frame.
            tree: transforms of /tf, for all other frames.
            prefix: prefix of the robot's frames on /tf; may be empty.
        """
        self.kinematics, self.tree = kinematics, tree
        self._prefix = prefix
        self._scene: Scene | None = None

    @classmethod
    def of(cls, node: RobotNode[Any]) -> RobotFrames:
        """Return the lookup of a node with parameter ``tf_frame_prefix``; see :meth:`destroy`.

        Args:
            node: the node of the robot; the kinematics of all its joints are compiled.
        """
        prefix = frame_prefix(node, node.params.tf_frame_prefix)
        return cls.of_robot(node.robot, TransformTree(node), prefix)

    @classmethod
    def of_robot(cls, robot: Robot, tree: Transforms, prefix: str) -> RobotFrames:
        """Return the lookup of a robot, whose kinematics are compiled; arguments as above."""
        kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        kinematics.warm_up()
        return cls(kinematics, tree, prefix)

    def destroy(self) -> None:
        """Destroy the subscriptions of /tf."""
        self.tree.destroy()

    def in_scene(self, scene: Scene) -> RobotFrames:
        """Return a lookup that also finds the objects of a scene and their subframes.

        Args:
            scene: with poses in the robot's base frame.
        """
        frames = copy.copy(self)
        frames._scene = scene
        return frames

    def scene_frame(self, frame: str) -> SceneFrame | None:
        """Return a frame of the scene; None if there is no such frame, or it is a link."""
        name = self.name_of(frame)
        if self._scene is None or name in self.kinematics.frame_names:
            return None
        return find_frame(self._scene.objects, self._scene.attached, name)

    def full_name(self, link: str) -> str:
        """Return the name of a link of the robot on /tf."""
        return frame_id(self._prefix, link)

    def name_of(self, frame: str) -> str:
        """Return a frame name without the robot's prefix; empty stands for the base frame."""
        name = frame.lstrip("/")
        if not name:
            return self.kinematics.base
        own = name.removeprefix(frame_id(self._prefix, ""))
        return own if own in self.kinematics.frame_names else name

    def is_base(self, frame: str) -> bool:
        """Return whether a frame is the base frame; an empty name is."""
        return self.name_of(frame) == self.kinematics.base

    def is_own(self, frame: str) -> bool:
        """Return whether a frame is a link of the robot."""
        return self.name_of(frame) in self.kinematics.frame_names

    def pose(self, frame: str, q: Array) -> Array:
        """Return the pose ``X_BF`` of a frame in the base frame, shape (4, 4).

        Args:
            frame: name of the frame.
            q: joint positions [rad or m], shape (n,).

        Raises:
            RequestRejected: the frame is unknown to the robot, the scene and /tf, or not
                connected to the base frame.
        """
        name = self.name_of(frame)
        if name in self.kinematics.frame_names:
            return self.kinematics.pose(q, name)
        found = self.scene_frame(frame)
        if found is not None:
            return found.X if found.link is None else self.kinematics.pose(q, found.link) @ found.X
        base = self.full_name(self.kinematics.base)
        try:
            self.tree.update()
            return self.tree.pose(base, name)[0]
        except UnknownFrame as error:
            links = UnknownFrame(name, self.kinematics.frame_names, "the robot")
            raise RequestRejected(
                MoveItErrorCodes.FRAME_TRANSFORM_FAILURE, f"{links} On /tf: {error}"
            ) from None
        except MotionError as error:
            raise RequestRejected(MoveItErrorCodes.FRAME_TRANSFORM_FAILURE, str(error)) from None
