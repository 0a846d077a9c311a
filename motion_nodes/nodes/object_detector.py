# SPDX-License-Identifier: Apache-2.0
"""Object detector: detects the objects of tasks in depth images and point clouds.

The loop reads the newest image of each camera, with the poses of camera and robot at its stamp; a
thread searches the points of all cameras together. Points of the robot and of attached objects are
ignored. An object that is occluded by the robot, or close to it, is reported with its last detected
pose and the stamp of that detection.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from geometry_msgs.msg import Vector3
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.colors import RGB, color_name
from motion_nodes.core.robot.tree import Cylinder, Sphere
from motion_nodes.core.scene.scene import AttachedBody, Scene
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.perception.image_detection import (
    COLORS,
    ImageRegion,
    checked_regions,
    image_detector,
)
from motion_nodes.extras.perception.object_detection import (
    Detection,
    ObjectDetector,
    ObjectNames,
    extents,
    hidden,
    parse_models,
    points_on,
)
from motion_nodes.extras.perception.settings import DetectorSettings
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.parameters import core_params, param, settings_from
from motion_nodes.ros.robot_cameras import CameraInput, CameraParams, RobotCameras, View
from motion_nodes.typing import Array

MIN_SHARE = 0.5
"""Min share of the pixels of an object that lie in a described region, times its score."""
SHOWN_FOR = 1.0
"""Time for which RViz shows an object that is no longer reported [s]."""
Objects = dict[str, tuple[float, Detection]]
"""Objects by name, each with the time of its last detection [s]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(DetectorSettings)
class DetectorParams(CameraParams):
    """Parameters of the object detector."""

    update_rate: float = param(
        5.0, doc="Max rate at which images are searched for objects.", unit="Hz", gt=0.0, le=100.0,
        read_only=True,
    )  # fmt: skip
    detection_frame: str = param(
        "",
        doc="Frame of the objects and of the region, z upwards, such as odom for a moving base; "
        "empty: the robot's base frame.",
        read_only=True,
    )
    models: tuple[str, ...] = param(
        (), doc="Objects of known name and size, at most one of each: "
        "NAME:=box:X,Y,Z, NAME:=cylinder:RADIUS,LENGTH or NAME:=sphere:RADIUS in m. Others are "
        "named object_1, object_2 ...", read_only=True,
    )  # fmt: skip
    descriptions: tuple[str, ...] = param(
        (),
        doc="Texts such as 'red cup', each of which names the object that the image detector finds "
        "by it in the color images: red_cup.",
    )
    image_detector: str = param(
        COLORS,
        doc="Detector of described objects: colors, or the name that another package registered.",
        read_only=True,
    )
    robot_padding: float = param(
        0.03, doc="Distance from the spheres of the robot and its load within which points are "
        "ignored.", unit="m", ge=0.0, le=0.5,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class CameraView:
    """The last image of one camera."""

    stamp: float
    """[s]"""
    points: NDArray[np.float32]
    """Points in the camera frame [m], shape (n, 3)."""
    X_DC: Array
    """Pose of the camera in the detection frame, shape (4, 4)."""
    spheres: Array
    """Spheres of the robot at the stamp, in the detection frame [m], shape (s, 4)."""
    color: NDArray[np.uint8] | None = None
    """Color of the pixel of each point, shape (h, w, 3); None: not known."""

    @property
    def detected_points(self) -> Array:
        """The points in the detection frame [m], shape (n, 3)."""
        return self.points.astype(np.float64) @ self.X_DC[:3, :3].T + self.eye

    @property
    def eye(self) -> Array:
        """Position of the camera [m], shape (3,)."""
        return self.X_DC[:3, 3]


class ObjectDetectorNode(RobotNode[DetectorParams]):
    """Detects objects in the images of one robot's cameras."""

    params_type = DetectorParams

    @classmethod
    def handles_images(cls) -> bool:
        """Return True: it receives the images of the robot's cameras."""
        return True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("object_detector", ros_args=ros_args)
        self._inputs: RobotCameras | None = None

    def check(self, params: DetectorParams) -> str | None:
        """Validate the settings and the models."""
        try:
            settings_from(params, DetectorSettings)
            parse_models(params.models)
            image_detector(params.image_detector)
        except InvalidConfig as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Create the detector and the endpoints."""
        params = self.params
        self._detector = ObjectDetector(settings_from(params, DetectorSettings))
        self._models = parse_models(params.models)
        self._image_detector = image_detector(params.image_detector)
        inputs = self._inputs = RobotCameras(self, params.detection_frame)
        self._kinematics, self._poses = inputs.kinematics, inputs.poses
        self._checker, self._state = inputs.checker, inputs.state
        self._attached: dict[str, AttachedBody] = {}
        self._out = self.advertise(MarkerArray, "~/objects")
        self._seen: dict[str, CameraView] = {}
        self._found: Objects = {}
        self._names = ObjectNames(self._models)
        self._unsearched = False
        self._thread = ThreadPoolExecutor(1, "detector")
        self._search: Future[Objects] | None = None
        self._duration = 0.0

    def release(self) -> None:
        """Destroy the subscriptions."""
        if self._inputs is not None:
            self._thread.shutdown()
            self._inputs.destroy()
        self._inputs = None

    def activate(self) -> None:
        """Start without objects."""
        self._forget()

    def tick(self, dt: float) -> None:
        """Search the newest images, and publish the detected objects."""
        inputs = self._inputs
        if inputs is None:
            return
        inputs.update()
        self._update_attached(inputs.follower.world.scene)
        new = [inputs.read(camera, self._keep) for camera in inputs.cameras]
        self._unsearched |= any(new)
        search = self._search
        if search is not None and search.done():
            self._search = None
            self._found = search.result()
            self._out.publish(self._message())
        if self._unsearched and self._search is None:
            recent = [s for s in self._seen.values() if self.now() - s.stamp <= self.params.max_age]
            self._unsearched = False
            if recent:
                given = (recent, self._carried(), self._names, self._found)
                self._search = self._thread.submit(self._searched, *given)

    def parameters_changed(self, params: DetectorParams) -> None:
        """Apply new settings from the next image on."""
        self._detector.settings = settings_from(params, DetectorSettings)

    def time_jumped(self, before: float, after: float) -> None:
        """Discard all images, which may be outdated."""
        self._forget()

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown."""
        return "" if self._inputs is None else self._inputs.waiting_for()

    def diagnose(self, report: Report) -> None:
        """Report cameras and objects."""
        if self._inputs is not None:
            self._inputs.diagnose(report, "used")
        report.value("objects", ", ".join(sorted(self._found)) or self._detector.reason)
        report.value("time per detection [ms]", 1e3 * self._duration)

    # ---- inside

    def _forget(self) -> None:
        self._seen, self._found, self._names = {}, {}, ObjectNames(self._models)
        self._search = None  # its result would be outdated
        if self._inputs is not None:
            self._inputs.restart()

    def _update_attached(self, scene: Scene) -> None:
        """Read the attached objects."""
        if scene.attached == self._attached:
            return
        try:
            self._checker.set_scene(Scene(attached=scene.attached))
            self._attached = dict(scene.attached)
        except MotionError as error:
            self.warn("scene", f"attached objects are not filtered from the images: {error}")

    def _keep(self, camera: CameraInput, view: View, stamp: float) -> None:
        """Store the points of an image for the next search."""
        X_DC, X_DB = self._poses.camera_at(view.frame, stamp), self._poses.base_at(stamp)
        q = self._poses.history.at(stamp, self.params.transform_tolerance)
        spheres = self._checker.sphere_positions(q)
        spheres[:, :3] = spheres[:, :3] @ X_DB[:3, :3].T + X_DB[:3, 3]
        spheres[:, 3] += self.params.robot_padding
        self._seen[camera.topic] = CameraView(stamp, view.points, X_DC, spheres, view.color)

    def _searched(
        self,
        views: Sequence[CameraView],
        carried: Mapping[str, Array],
        names: ObjectNames,
        before: Objects,
    ) -> Objects:
        """Return the objects in the points of all cameras; in the thread."""
        begin, newest = time.monotonic(), max(views, key=lambda view: view.stamp)
        detector, eyes = self._detector, [view.eye for view in views]
        with np.errstate(invalid="ignore"):  # of points that are not finite, which are left out
            parts = [detector.relevant(view.detected_points, view.spheres) for view in views]
        whole = [
            each
            for each in detector.detect(np.concatenate(parts))
            if not hidden(each.shape, each.X_WO, eyes, newest.spheres)
        ]
        # An object of a merged cloud gets the stamp of the oldest image.
        stamp = min(view.stamp for view in views)
        colored = [view for view in views if view.color is not None]
        described: dict[str, Detection] = {}
        if colored:
            whole, described = self._seen_in_color(colored, whole)
        named = names.named(whole, stamp, carried, described)
        found = {name: (stamp, each) for name, each in named.items()}
        for name, (at, each) in before.items():
            moved = replace(each, X_WO=carried.get(name, each.X_WO))
            if name not in found and (
                name in carried or hidden(moved.shape, moved.X_WO, eyes, newest.spheres)
            ):
                found[name] = (at, moved)
        self._duration = time.monotonic() - begin
        return found

    def _seen_in_color(
        self, views: Sequence[CameraView], whole: Sequence[Detection]
    ) -> tuple[list[Detection], dict[str, Detection]]:
        """Return objects with their colors, and those that a description names; in the thread."""
        clouds = [(view, view.detected_points) for view in views]
        with np.errstate(invalid="ignore"):
            masks = [[points_on(each, points) for view, points in clouds] for each in whole]
        colors = [
            np.concatenate([
                view.color.reshape(-1, 3)[mask] for view, mask in zip(views, seen, strict=True)
                if view.color is not None
            ])
            for seen in masks
        ]  # fmt: skip
        found = [
            replace(each, color=color_name(pixels / 255.0))
            for each, pixels in zip(whole, colors, strict=True)
        ]
        named: dict[str, Detection] = {}
        for text in filter(None, self.params.descriptions):
            best, score = -1, 0.0
            for k, view in enumerate(views):
                for region in self._regions_of(view, text)[:1]:
                    mask = region.mask.reshape(-1)
                    shares = [
                        float(mask[seen[k]].mean()) * region.score if seen[k].any() else 0.0
                        for seen in masks
                    ]
                    if shares and max(shares) > score:
                        best, score = int(np.argmax(shares)), max(shares)
            name = "_".join(text.lower().split())
            if score >= MIN_SHARE and all(found[best] is not each for each in named.values()):
                named[name] = found[best]
        return found, named

    def _regions_of(self, view: CameraView, text: str) -> Sequence[ImageRegion]:
        """Return what the image detector finds; nothing if it fails, with a warning."""
        assert view.color is not None
        name = self.params.image_detector
        try:
            found = self._image_detector.detect(view.color, text)
            return checked_regions(found, view.color.shape, name)
        except Exception as error:  # of other packages
            self.warn("image detector", f"image detector '{name}', '{text}': {error}")
            return ()

    def _carried(self) -> dict[str, Array]:
        """Return the poses of attached objects in the detection frame, shape (4, 4) each."""
        if not self._attached or not self._state.received:
            return {}
        q, X_DB = self._state.position, self._poses.base_at(self.now())
        return {
            name: X_DB @ self._kinematics.pose(q, body.link) @ body.X_LO
            for name, body in self._attached.items()
        }

    def _message(self) -> MarkerArray:
        message = MarkerArray()
        for name, (stamp, each) in self._found.items():
            marker = Marker(ns=name, pose=pose_message(each.X_WO))
            marker.type = (
                Marker.SPHERE if isinstance(each.shape, Sphere)
                else Marker.CYLINDER if isinstance(each.shape, Cylinder)
                else Marker.CUBE
            )  # fmt: skip
            size = extents(each.shape).tolist()
            marker.scale = Vector3(x=size[0], y=size[1], z=size[2])
            marker.header.frame_id = self._poses.frame
            set_stamp(marker, round(1e9 * stamp))
            red, green, blue = RGB.get(each.color, (0.9, 0.6, 0.2))
            marker.color = ColorRGBA(r=red, g=green, b=blue, a=0.8)
            marker.text = each.color
            marker.lifetime.sec = round(SHOWN_FOR)
            message.markers.append(marker)
        return message
