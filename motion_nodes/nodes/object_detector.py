# SPDX-License-Identifier: Apache-2.0
"""Object detector: depth cameras to the objects of tasks.

The loop takes the newest image of each camera, with the poses of camera and robot at its stamp; a
thread searches the points of all cameras together. The robot and what it carries are left out. An
object that the robot hides, or is close to, is reported as it was seen last, with the stamp of that
time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from geometry_msgs.msg import Vector3
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.tree import Array, Cylinder, Sphere
from motion_nodes.nodes.perception.camera_input import CameraInput, View
from motion_nodes.nodes.perception.detector_params import DetectorParams
from motion_nodes.nodes.perception.sensor_poses import NotYet, SensorPoses
from motion_nodes.perception.detector_settings import DetectorSettings
from motion_nodes.perception.hidden_objects import hidden
from motion_nodes.perception.object_detector import Detection, ObjectDetector
from motion_nodes.perception.object_names import ObjectNames, parse_models
from motion_nodes.perception.shape_fits import extents
from motion_nodes.ros import qos
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.ros.robot_node import RobotNode
from motion_nodes.ros.run import run_node
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.transform_tree import TransformTree
from motion_nodes.ros.transforms import frame_prefix
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import AttachedBody, Scene

FUTURE = 0.5
"""Max time by which the stamp of an image may be in the future [s]."""
SHOWN_FOR = 1.0
"""Time for which RViz shows an object that is no longer reported [s]."""


@dataclass(frozen=True, eq=False)
class CameraView:
    """What one camera saw last."""

    stamp: float
    """[s]"""
    points: NDArray[np.float32]
    """In its frame [m], shape (n, 3)."""
    X_DC: Array
    """Its pose in the detection frame, shape (4, 4)."""
    spheres: Array
    """Those of the robot then, in the detection frame [m], shape (s, 4)."""

    @property
    def eye(self) -> Array:
        """Position of the camera [m], shape (3,)."""
        return self.X_DC[:3, 3]


Objects = dict[str, tuple[float, Detection]]
"""By name, each with the time when it was seen [s]."""


class ObjectDetectorNode(RobotNode[DetectorParams]):
    """Reports the objects that the cameras of one robot see."""

    params_type = DetectorParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("object_detector", ros_args=ros_args)
        self._follower: SceneFollower | None = None
        self._tree: TransformTree | None = None

    def check(self, params: DetectorParams) -> str | None:
        """Validate the settings and the models."""
        try:
            settings_from(params, DetectorSettings)
            parse_models(params.models)
        except InvalidConfig as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Create the detector and the endpoints."""
        params, robot = self.params, self.robot
        self._detector = ObjectDetector(settings_from(params, DetectorSettings))
        self._models = parse_models(params.models)
        kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        kinematics.warm_up()
        self._kinematics = kinematics
        prefix = frame_prefix(self, params.tf_frame_prefix)
        tree = self._tree = TransformTree(self)
        self._poses = SensorPoses(kinematics, tree, prefix, params.detection_frame)
        self._checker = CollisionChecker(robot, robot.joint_names)
        self._attached: dict[str, AttachedBody] = {}
        self._state = JointStateReader(
            self.poll_bytes(JointState, "joint_states", qos.STATES), robot.joint_names
        )
        frames = RobotFrames(kinematics, tree, prefix)
        self._follower = SceneFollower(self, robot, kinematics, frames)
        self._cameras = [
            *(CameraInput(self, topic, depth=False) for topic in params.point_clouds if topic),
            *(CameraInput(self, topic, depth=True) for topic in params.depth_images if topic),
        ]
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
        if self._follower is not None:
            self._thread.shutdown()
        for part in (self._follower, self._tree):
            if part is not None:
                part.destroy()
        self._follower = self._tree = None

    def activate(self) -> None:
        """Begin without objects."""
        self._forget()

    def tick(self, dt: float) -> None:
        """Search the newest images, and publish what is there."""
        follower, tree = self._follower, self._tree
        if follower is None or tree is None:
            return
        tree.update()
        if self._state.update():
            self._poses.history.add(1e-9 * self._state.stamp_ns, self._state.position)
        follower.update()
        self._update_attached(follower.world.scene)
        new = [self._take(camera) for camera in self._cameras]
        self._unsearched |= any(new)
        if self._search is not None and self._search.done():
            self._found, self._search = self._search.result(), None
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
        """Forget all images, which may be outdated."""
        self._forget()

    def waiting_for(self) -> str:
        """Return why the robot's state is unknown."""
        return "" if self._state.received else self._state.fault(np.inf)

    def diagnose(self, report: Report) -> None:
        """Report cameras and objects."""
        if not self._cameras:
            report.note("WARN", "no cameras: set point_clouds or depth_images")
        for camera in self._cameras:
            if camera.age > self.params.camera_timeout:
                why = f" ({camera.fault})" if camera.fault else ""
                report.note("WARN", f"{camera.topic}: no image used for {camera.age:.1f} s{why}")
            elif camera.fault:
                report.note("WARN", f"{camera.topic}: last image dropped: {camera.fault}")
        report.value("objects", ", ".join(sorted(self._found)) or self._detector.reason)
        report.value("time per detection [ms]", 1e3 * self._duration)

    # ---- inside

    def _forget(self) -> None:
        self._seen, self._found, self._names = {}, {}, ObjectNames(self._models)
        self._search = None  # its result would be outdated
        for camera in self._cameras:
            camera.restart()

    def _update_attached(self, scene: Scene) -> None:
        """Take over what the robot carries."""
        if scene.attached == self._attached:
            return
        try:
            self._checker.set_scene(Scene(attached=scene.attached))
            self._attached = dict(scene.attached)
        except MotionError as error:
            self.warn("scene", f"what is attached to the robot is detected, too: {error}")

    def _take(self, camera: CameraInput) -> bool:
        """Read the newest image of a camera; return whether there are new points."""
        camera.update()
        view = camera.pending
        if view is None:
            return False
        try:
            self._seen[camera.topic] = self._seen_in(view)
        except NotYet as error:
            if time.monotonic() - view.arrived > self.params.transform_timeout:
                self._drop(camera, str(error))
            return False
        except MotionError as error:
            self._drop(camera, str(error))
            return False
        camera.done()
        return True

    def _seen_in(self, view: View) -> CameraView:
        """Return what an image shows.

        Raises:
            MotionError: its stamp or frame is not usable, or not yet (:class:`NotYet`).
        """
        now = self.now()
        stamp = view.stamp or now
        if now - stamp > self.params.max_age:
            raise MotionError(f"its stamp is {now - stamp:.1f} s old")
        if stamp - now > FUTURE:
            raise MotionError(f"its stamp is {stamp - now:.1f} s in the future")
        self._poses.tolerance = self.params.transform_tolerance
        X_DC, X_DB = self._poses.camera_at(view.frame, stamp), self._poses.base_at(stamp)
        q = self._poses.history.at(stamp, self.params.transform_tolerance)
        spheres = self._checker.sphere_positions(q)
        spheres[:, :3] = spheres[:, :3] @ X_DB[:3, :3].T + X_DB[:3, 3]
        spheres[:, 3] += self.params.robot_padding
        return CameraView(stamp, view.points, X_DC, spheres)

    def _searched(
        self,
        views: Sequence[CameraView],
        carried: Mapping[str, Array],
        names: ObjectNames,
        before: Objects,
    ) -> Objects:
        """Return the objects in the points of all cameras; in the thread.

        Args:
            views: of the cameras.
            carried: poses of what the robot holds, shape (4, 4) each.
            names: of objects.
            before: objects that were found before.
        """
        begin, newest = time.monotonic(), max(views, key=lambda view: view.stamp)
        detector, eyes = self._detector, [view.eye for view in views]
        parts = [
            detector.relevant(
                view.points.astype(np.float64) @ view.X_DC[:3, :3].T + view.eye, view.spheres
            )
            for view in views
        ]
        whole = [
            each
            for each in detector.detect(np.concatenate(parts))
            if not hidden(each.shape, each.X_WO, eyes, newest.spheres)
        ]
        # An object of a merged cloud is as old as the oldest of its images.
        stamp = min(view.stamp for view in views)
        found = {n: (stamp, e) for n, e in names.named(whole, stamp, carried).items()}
        for name, (at, each) in before.items():
            moved = replace(each, X_WO=carried.get(name, each.X_WO))
            if name not in found and (
                name in carried or hidden(moved.shape, moved.X_WO, eyes, newest.spheres)
            ):
                found[name] = (at, moved)
        self._duration = time.monotonic() - begin
        return found

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
            marker.color.r, marker.color.g, marker.color.b, marker.color.a = 0.9, 0.6, 0.2, 0.8
            marker.lifetime.sec = round(SHOWN_FOR)
            message.markers.append(marker)
        return message

    def _drop(self, camera: CameraInput, why: str) -> None:
        camera.reject(why)
        self.warn(camera.topic, f"image of {camera.topic} dropped: {why}")


def main() -> None:
    """Run the node as a process of its own."""
    run_node(ObjectDetectorNode)
