# SPDX-License-Identifier: Apache-2.0
"""Cameras of one robot: newest images, with the poses of camera and robot at their stamps."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np
from sensor_msgs.msg import JointState

from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.nodes.perception.camera_input import CameraInput, View
from motion_nodes.nodes.perception.camera_params import CameraParams
from motion_nodes.nodes.perception.sensor_poses import NotYet, SensorPoses
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.ros.transforms import frame_prefix
from motion_nodes.scene.checker import CollisionChecker

FUTURE = 0.5
"""Max time by which the stamp of an image may be in the future [s]."""


class RobotCameras:
    """Reads the cameras, transforms, joint states and planning scene of one robot; in its loop."""

    def __init__(self, node: RobotNode[CameraParams], frame: str) -> None:
        """Subscribe.

        Args:
            node: with the cameras; its parameters are CameraParams.
            frame: full name of the frame of poses; empty: the robot's base frame.
        """
        self._node, params, robot = node, node.params, node.robot
        self.kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        self.kinematics.warm_up()
        prefix = frame_prefix(node, params.tf_frame_prefix)
        self._tree = TransformTree(node)
        self.poses = SensorPoses(self.kinematics, self._tree, prefix, frame)
        self.checker = CollisionChecker(robot, robot.joint_names)
        """Spheres of the robot and its load."""
        self.state = JointStateReader(
            node.poll_bytes(JointState, "joint_states", qos.STATES),
            robot.joint_names,
            limits=robot.limits,
        )
        frames = RobotFrames(self.kinematics, self._tree, prefix)
        self.follower = SceneFollower(node, robot, self.kinematics, frames)
        self.cameras = [
            *(CameraInput(node, topic, depth=False) for topic in params.point_clouds if topic),
            *(
                CameraInput(node, topic, depth=True, color_topic=color)
                for topic, color in itertools.zip_longest(
                    params.depth_images, params.color_images, fillvalue=""
                )
                if topic
            ),
        ]

    def destroy(self) -> None:
        """Destroy the subscriptions."""
        self.follower.destroy()
        self._tree.destroy()

    def restart(self) -> None:
        """Discard pending images, and restart the ages of the cameras."""
        for camera in self.cameras:
            camera.restart()

    def update(self) -> None:
        """Read transforms, joint states and the planning scene."""
        self._tree.update()
        if self.state.update():
            self.poses.history.add(1e-9 * self.state.stamp_ns, self.state.position)
        self.follower.update()

    def read(self, camera: CameraInput, use: Callable[[CameraInput, View, float], None]) -> bool:
        """Read the newest image of a camera and use it; return whether it was used.

        It is held until its transforms arrive, or dropped with a warning.

        Args:
            camera: to read.
            use: receives camera, image and its stamp [s]; raises MotionError where the image
                cannot be used, and NotYet where it cannot be used yet.
        """
        try:
            camera.update()
        except InvalidCommand as error:
            self._drop(camera, str(error))
        view = camera.pending
        if view is None:
            return False
        now, params = self._node.now(), self._node.params
        stamp = view.stamp or now
        self.poses.tolerance = params.transform_tolerance
        try:
            if now - stamp > params.max_age:
                raise MotionError(f"its stamp is {now - stamp:.1f} s old")
            if stamp - now > FUTURE:
                raise MotionError(f"its stamp is {stamp - now:.1f} s in the future")
            use(camera, view, stamp)
        except NotYet as error:
            if time.monotonic() - view.arrived > params.transform_timeout:
                self._drop(camera, str(error))
            return False
        except MotionError as error:
            self._drop(camera, str(error))
            return False
        camera.done()
        return True

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown; empty if it is known."""
        return "" if self.state.received else self.state.fault(np.inf)

    def diagnose(self, report: Report, used: str) -> None:
        """Report stopped cameras and dropped images.

        Args:
            report: of the node.
            used: word for the use of an image, such as "mapped".
        """
        if not self.cameras:
            report.note("WARN", "no cameras: set point_clouds or depth_images")
        for camera in self.cameras:
            if camera.age > self._node.params.camera_timeout:
                why = f" ({camera.fault})" if camera.fault else ""
                begun = "no image" if not camera.used else f"no image {used}"
                report.note("WARN", f"{camera.topic}: {begun} for {camera.age:.1f} s{why}")
            elif camera.fault:
                report.note("WARN", f"{camera.topic}: last image dropped: {camera.fault}")
            report.value(f"images of {camera.topic}", camera.used)

    def _drop(self, camera: CameraInput, why: str) -> None:
        camera.reject(why)
        if not camera.settling:
            self._node.warn(camera.topic, f"image of {camera.topic} dropped: {why}")
