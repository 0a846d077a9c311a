# SPDX-License-Identifier: Apache-2.0
"""Cameras of one robot: newest images, with the poses of camera and robot at their stamps.

The newest image of a camera is kept as points until it is used or too old.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CameraInfo, Image, JointState, PointCloud2

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.ros import qos
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, stamp_ns
from motion_nodes.ros.messages.camera_messages import color_of, depth_of, pinhole_of, points_of
from motion_nodes.ros.node import FramedParams, MotionNode, RobotNode
from motion_nodes.ros.parameters import param
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.transforms import TransformTree, frame_id, frame_prefix
from motion_nodes.typing import Array

MATCH_PERIOD = 1.0
"""Period at which the reliability of the publishers is checked [s]."""
COLOR_TOLERANCE = 0.05
"""Max difference between the stamps of a color image and of its depth image [s]."""
SETTLING_TIME = 2.0
"""Intrinsics and transforms of a camera that starts may arrive this long after its images [s]."""
HISTORY = 3.0
"""Duration of the joint state history [s]."""
FUTURE = 0.5
"""Max time by which the stamp of an image may be in the future [s]."""


@dataclass(frozen=True, eq=False)
class View:
    """One image."""

    points: NDArray[np.float32]
    """In the frame [m], shape (n, 3)."""
    frame: str
    stamp: float
    """[s]; 0 if the camera gives none."""
    arrived: float
    """On ``time.monotonic()`` [s]."""
    color: NDArray[np.uint8] | None = None
    """Color of each point's pixel, shape (h, w, 3); None without a color image of its stamp."""


class CameraInput:
    """Reads clouds, or depth images with their camera info."""

    def __init__(
        self, node: MotionNode[Any], topic: str, depth: bool, color_topic: str = ""
    ) -> None:
        """Subscribe.

        Args:
            node: that uses them.
            topic: of the images.
            depth: whether they are depth images.
            color_topic: of color images with the same pixels as the depth images; empty: none.
        """
        self._colors = node.poll(Image, color_topic, qos.NEWEST) if color_topic else None
        self._color: Image | None = None
        self.topic, self._depth = topic, depth
        self._images = node.poll(Image if depth else PointCloud2, topic, qos.NEWEST_RELIABLE)
        self._infos = None
        if depth:
            beside = topic.rpartition("/")[0]
            name = f"{beside}/camera_info" if beside else "camera_info"
            self._infos = node.poll(CameraInfo, name, qos.NEWEST)
        self._info: CameraInfo | None = None
        self._projection: DepthProjection | None = None
        self.pending: View | None = None
        """The newest image, until it is used."""
        self.fault = ""
        """Why the last image was not used; empty if it was."""
        self.used = 0
        """Number of images that were used."""
        self._used_at: float | None = None
        self._begin = time.monotonic()
        self._matched_at = -math.inf
        self._first: float | None = None

    @property
    def age(self) -> float:
        """Time since the last image that was used, or since the start [s]."""
        return time.monotonic() - (self._used_at or self._begin)

    @property
    def settling(self) -> bool:
        """Whether no image was used so far, because the camera has just started."""
        begun = self._first is None or time.monotonic() - self._first < SETTLING_TIME
        return begun and not self.used

    def restart(self) -> None:
        """Restart the age."""
        self._begin, self._used_at, self.pending = time.monotonic(), None, None

    def done(self) -> None:
        """Mark the pending image as used."""
        self.pending, self.fault, self._used_at = None, "", time.monotonic()
        self.used += 1

    def reject(self, why: str) -> None:
        """Drop the pending image."""
        self.pending, self.fault = None, why

    def update(self) -> None:
        """Read the newest image; one that waits for its transforms is not replaced.

        Otherwise no image would be used where transforms arrive after the next image.

        Raises:
            InvalidCommand: the newest image has an invalid layout.
        """
        if self._infos is not None:
            self._info = self._infos.newest() or self._info
        if time.monotonic() - self._matched_at > MATCH_PERIOD:
            self._matched_at = time.monotonic()
            self._images.match_publishers()
        if self._colors is not None:
            self._color = self._colors.newest() or self._color
        if self.pending is not None:
            return
        message = self._images.newest()
        if message is None:
            return
        if self._first is None:
            self._first = time.monotonic()
        points = self._points(message)
        stamp = 1e-9 * stamp_ns(message)
        color = self._color_at(stamp, len(points))
        self.pending = View(points, message.header.frame_id, stamp, time.monotonic(), color)

    def _color_at(self, stamp: float, count: int) -> NDArray[np.uint8] | None:
        """Return the color image of a depth image; None if there is none of its time and size.

        Raises:
            InvalidCommand: the newest color image has an invalid layout.
        """
        message = self._color
        if message is None or abs(1e-9 * stamp_ns(message) - stamp) > COLOR_TOLERANCE:
            return None
        image = color_of(message)
        return image if image.shape[0] * image.shape[1] == count else None

    def _points(self, message: Any) -> NDArray[np.float32]:
        if not self._depth:
            return points_of(message)
        if self._info is None:
            raise InvalidCommand("no camera_info was received")
        camera = pinhole_of(self._info)
        if self._projection is None or self._projection.camera != camera:
            self._projection = DepthProjection(camera)
        return self._projection.points(depth_of(message))


class NotYet(MotionError):
    """A transform or joint state of the requested time has not arrived."""


class JointStateHistory:
    """Joint positions of the last seconds."""

    def __init__(self) -> None:
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class CameraParams(FramedParams):
    """Parameters of nodes that read the cameras of a robot."""

    point_clouds: tuple[str, ...] = param(
        (), doc="Topics of clouds (sensor_msgs/PointCloud2), whose frame's origin is the sensor.",
        read_only=True,
    )  # fmt: skip
    depth_images: tuple[str, ...] = param(
        (),
        doc="Topics of depth images (sensor_msgs/Image); camera_info in the namespace of each "
        "contains the intrinsics.",
        read_only=True,
    )
    color_images: tuple[str, ...] = param(
        (),
        doc="Topics of color images (sensor_msgs/Image, rgb8 or bgr8) with the same pixels as the "
        "depth images, in their order; an empty name: none.",
        read_only=True,
    )
    max_age: float = param(
        1.0, doc="Images older than this are dropped.", unit="s", gt=0.0, le=60.0
    )
    transform_timeout: float = param(
        0.3, doc="Time for which an image waits for transforms and joint states of its stamp.",
        unit="s", ge=0.0, le=10.0,
    )  # fmt: skip
    transform_tolerance: float = param(
        0.1, doc="Max difference between the stamps of an image and of a moving transform.",
        unit="s", gt=0.0, le=10.0,
    )  # fmt: skip
    camera_timeout: float = param(
        2.0, doc="Time without images after which a camera counts as stopped.", unit="s", gt=0.0,
        le=3600.0,
    )  # fmt: skip


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
        self.kinematics.warm_up(())
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
