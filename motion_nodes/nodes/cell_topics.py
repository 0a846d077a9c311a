# SPDX-License-Identifier: Apache-2.0
"""Topics of a simulated world: objects of planning scenes in; sensors, contacts and poses out.

Sensors are depth cameras, rendered in a thread, and laser scanners. Bodies are the union of the
robots' planning scenes, with the robot's namespace as prefix of their names: a thread reads the
scenes, the loop applies the changes.
"""

from __future__ import annotations

import array
import threading
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np
from rclpy.time import Time
from sensor_msgs.msg import CameraInfo, Image, LaserScan, PointCloud2
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.placement import Placement
from motion_nodes.core.robot.tree import Box, Mesh, Sphere
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.core.scene.mesh_preparation import MeshPreparation, all_parts, large_meshes
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import InvalidConfig, MotionError, UnknownFrame
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import MountedCamera
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.scene_bodies import (
    ContactLog,
    SceneBody,
    bodies_of,
    body_name,
    load_hulls,
)
from motion_nodes.extras.sim.sensors import (
    CameraSettings,
    SimulatedCamera,
    SimulatedLaser,
    Snapshot,
    snapshot,
)
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.repeated_cycles import next_due
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.camera_messages import (
    cloud_message,
    color_message,
    depth_message,
    info_message,
)
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.names import under
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.parameters import settings_from
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.ros.transforms import TransformSender, frame_id
from motion_nodes.typing import Array


class _Outputs:
    """Publishers of one camera."""

    def __init__(self, node: MotionNode[Any], camera: MountedCamera) -> None:
        topic = under(camera.namespace, f"{camera.name}/depth")
        self.frame = frame_id(camera.namespace, f"{camera.name}_depth_optical_frame")
        self.link = frame_id(camera.namespace, camera.link)
        # Of the same pixels as the depth image.
        self._color = node.advertise(
            Image, under(camera.namespace, f"{camera.name}/color/image_raw")
        )
        self._image = node.advertise(Image, f"{topic}/image_rect_raw")
        self._info = node.advertise(CameraInfo, f"{topic}/camera_info")
        self._points = node.advertise(PointCloud2, f"{topic}/points")

    def send(self, camera: SimulatedCamera, seen: Snapshot, settings: CameraSettings,
             nanoseconds: int) -> None:  # fmt: skip
        depth, color = camera.render(seen, settings)
        stamp = Time(nanoseconds=nanoseconds).to_msg()
        if self._color.get_subscription_count():
            self._color.publish(color_message(color, self.frame, stamp))
        self._info.publish(info_message(settings.pinhole, self.frame, stamp))
        self._image.publish(depth_message(depth, self.frame, stamp))
        if self._points.get_subscription_count():
            points = DepthProjection(settings.pinhole).points(depth, beyond=float("nan"))
            self._points.publish(cloud_message(points, self.frame, stamp))


class CameraTopics:
    """Publishes images of all cameras at a rate in simulated time."""

    def __init__(
        self,
        node: MotionNode[Any],
        world: MujocoWorld,
        cameras: Sequence[MountedCamera],
        names: dict[str, str],
        places: Sequence[Placement],
    ) -> None:
        """Create the publishers; call :meth:`start` on activation.

        Args:
            node: the simulation.
            world: the cell.
            cameras: of the robots.
            names: name in the cell of the robot of each namespace.
            places: the robots.

        Raises:
            InvalidConfig: there is no such robot or link.
        """
        self._node, self._world = node, world
        for camera in cameras:
            if camera.namespace not in names:
                raise InvalidConfig(
                    f"camera '{camera.name}': there is no robot with the namespace "
                    f"'{camera.namespace}'; robots: {', '.join(p.word for p in places)}"
                )
        self._cameras = [
            (SimulatedCamera(world, names[camera.namespace], camera), _Outputs(node, camera))
            for camera in cameras
        ]
        self._static = TransformSender(
            node.advertise(TFMessage, "/tf_static", qos.TF_STATIC),
            [(out.link, out.frame) for _, out in self._cameras],
        )
        self._wake = threading.Event()
        self._pending: tuple[Snapshot, int] | None = None
        self._thread: threading.Thread | None = None
        self._running = False
        self._due = 0  # stamp of the next image [ns]
        self._count = 0

    def start(self) -> None:
        """Publish the frames and start the thread."""
        X = np.array([camera.camera.X_LO for camera, _ in self._cameras])
        self._static.send(X, self._node.now_ns())
        self._running = True
        # A state that was handed over when the thread ended would block all later ones.
        self._pending = None
        self._thread = threading.Thread(target=self._work, name="cameras", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._running = False
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def tick(self, nanoseconds: int) -> None:
        """Hand over the state of the world if an image is due; in the loop.

        Args:
            nanoseconds: stamp of the state [ns].
        """
        period = round(1e9 / self._node.params.camera_rate)
        # After a reset, time begins again.
        waits = self._due - period <= nanoseconds < self._due
        if waits or self._pending is not None:
            return
        self._due = next_due(self._due, nanoseconds, period)
        self._pending = (snapshot(self._world), nanoseconds)
        self._wake.set()

    def diagnose(self, report: Report) -> None:
        """Report the number of images."""
        report.value("camera images", self._count)

    def _work(self) -> None:
        while self._running:
            self._wake.wait()
            self._wake.clear()
            pending = self._pending
            if pending is None or not self._running:
                continue
            try:
                settings = settings_from(self._node.params, CameraSettings, "camera_")
                for camera, outputs in self._cameras:
                    outputs.send(camera, pending[0], settings, pending[1])
                self._count += 1
            except Exception:
                self._node.warn("cameras", f"no image:\n{traceback.format_exc()}")
            self._pending = None


class LaserTopics:
    """Publishes the scans of all scanners of a cell, each at its rate in simulated time."""

    def __init__(
        self, node: MotionNode[Any], world: MujocoWorld, robots: dict[str, Placement]
    ) -> None:
        """Create the publishers.

        Args:
            node: the simulation.
            world: the cell.
            robots: by name in the cell.
        """
        self._lasers: list[tuple[SimulatedLaser, Any, LaserScan]] = []
        for placement in world.placements:
            space = robots[placement.name].namespace
            for scanner in placement.robot.description.laser_scanners:
                out = node.advertise(LaserScan, under(space, scanner.topic), qos.STREAM)
                message = LaserScan(
                    angle_min=scanner.angle_min,
                    angle_max=scanner.angle_max,
                    angle_increment=(scanner.angle_max - scanner.angle_min) / (scanner.rays - 1),
                    scan_time=1.0 / scanner.rate,
                    range_min=scanner.range_min,
                    range_max=scanner.range_max,
                )
                message.header.frame_id = frame_id(space, scanner.link)
                laser = SimulatedLaser(world, placement.name, scanner)
                self._lasers.append((laser, out, message))
        self._due = [0] * len(self._lasers)  # stamp of the next scan of each [ns]
        self._count = 0

    def tick(self, nanoseconds: int) -> None:
        """Publish the scans that are due; in the loop.

        Args:
            nanoseconds: stamp of the state [ns].
        """
        for i, (laser, out, message) in enumerate(self._lasers):
            period = round(1e9 / laser.scanner.rate)
            # After a reset, time begins again.
            if self._due[i] - period <= nanoseconds < self._due[i]:
                continue
            self._due[i] = next_due(self._due[i], nanoseconds, period)
            message.header.stamp = Time(nanoseconds=nanoseconds).to_msg()
            message.ranges = array.array("f", laser.scan().tobytes())
            out.publish(message)
            self._count += 1

    def diagnose(self, report: Report) -> None:
        """Report the number of scans."""
        report.value("laser scans", self._count)


PERIOD = 0.02
"""Period of scene updates [s]."""
REVIVE_TICKS = 10
"""Cycles between two attempts to enable contacts of bodies that robots penetrated."""
MAX_LISTED = 5
"""Max number of bodies without contacts in a report."""
MAX_CONTACTS_LISTED = 8
"""Max number of pairs in a report."""
WHEELED_PERIOD = 5
"""Cycles between two checks with wheeled robots, whose wheels are always in contact."""
FRAME = "world"


class _NoTransforms:
    """Replacement of /tf: monitored scenes only use frames of the robot."""

    def update(self) -> None:
        """Do nothing."""

    def destroy(self) -> None:
        """Do nothing."""

    def pose(self, parent: str, child: str) -> tuple[Array, int | None]:
        """Raise."""
        raise UnknownFrame(child, (), parent)


class SceneFollowing:
    """Updates the bodies of a cell from the planning scenes of its robots."""

    def __init__(
        self,
        node: MotionNode[Any],
        cell: MujocoWorld,
        robots: Sequence[tuple[Placement, RobotPlacement]],
    ) -> None:
        """Subscribe; call :meth:`start` on activation.

        Args:
            node: the simulation.
            cell: with the bodies, which change only in the node's loop.
            robots: of the cell; only the scenes of arms are used.
        """
        self._node, self._cell = node, cell
        self._followed = [
            (place, placed, _follower(node, place, placed))
            for place, placed in robots
            if any(group.tip is not None for group in placed.robot.groups.values())
        ]
        self._scenes: list[Scene] = [Scene()] * len(self._followed)
        self._meshes = MeshPreparation()
        self._waiting = False
        """Whether bodies are left out because their meshes are being prepared."""
        self._pending: dict[str, SceneBody] | None = None
        """All bodies, until the loop has applied them."""
        self._faults: dict[str, str] = {}
        self._ticks = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the updates."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, name="scene-bodies", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the updates; bodies are kept."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def destroy(self) -> None:
        """Stop and unsubscribe."""
        self.stop()
        self._meshes.close()
        for _, _, follower in self._followed:
            follower.destroy()

    def tick(self) -> None:
        """Apply changes; in the node's loop."""
        bodies, self._pending = self._pending, None
        if bodies is not None:
            try:
                self._cell.set_bodies(bodies)
            except (MotionError, ValueError) as error:
                self._node.warn("scene bodies", f"scene bodies are not up to date: {error}")
        elif self._faults:
            self._ticks += 1
            if self._ticks % REVIVE_TICKS:
                return
            self._cell.revive_bodies()
        else:
            return
        faults = self._cell.body_faults
        for name, reason in faults.items():
            if self._faults.get(name) != reason:
                self._node.warn(f"body {name}", f"body '{name}' has no contacts: {reason}")
        self._faults = faults

    def diagnose(self, report: Report) -> None:
        """Report the number of bodies, and those without contacts."""
        faults = self._faults
        report.value("scene bodies", len(self._cell.bodies))
        report.value("scene bodies without contacts", len(faults))
        for name, reason in list(faults.items())[:MAX_LISTED]:
            report.note("WARN", f"body '{name}' has no contacts: {reason}")

    def _work(self) -> None:
        while not self._stop.wait(PERIOD):
            try:
                self._update()
            except Exception:
                text = traceback.format_exc()
                self._node.warn("scene bodies", f"scene bodies are not up to date:\n{text}")

    def _update(self) -> None:
        """Read the scenes; changed bodies replace those that the loop has not applied yet."""
        scenes = [follower.scene for _, _, follower in self._followed]
        unchanged = all(a is b for a, b in zip(scenes, self._scenes, strict=True))
        if unchanged and not self._waiting:
            return
        ready = self._meshes.ready(
            large_meshes(part for scene in scenes for part in all_parts(scene))
        )
        if unchanged and not ready:
            return
        bodies: dict[str, SceneBody] = {}
        for (place, placed, _), scene in zip(self._followed, scenes, strict=True):
            bodies |= bodies_of(scene, placed, place.namespace)
            # Objects of the simulation are already simulated.
            for name in self._cell.objects:
                bodies.pop(body_name(place.namespace, name), None)
        if not ready:
            bodies = {name: body for name, body in bodies.items() if self._prepared(body)}
        for body in bodies.values():
            load_hulls(body)
        self._scenes, self._pending, self._waiting = scenes, bodies, not ready

    def _prepared(self, body: SceneBody) -> bool:
        """Return whether the meshes of a body can be simulated without a delay."""
        return self._meshes.ready(large_meshes(body.parts))


def _follower(node: MotionNode[Any], place: Placement, placed: RobotPlacement) -> SceneFollower:
    robot = placed.robot
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    kinematics.warm_up(())
    frames = RobotFrames(kinematics, _NoTransforms(), "")
    return SceneFollower(node, robot, kinematics, frames, place.namespace)


class ContactReport:
    """Records and reports unexpected contacts of a cell."""

    def __init__(self, cell: MujocoWorld) -> None:
        self._cell = cell
        self._log = ContactLog()
        rolling = any(placement.robot.kind != "arm" for placement in cell.placements)
        self._period, self._ticks = WHEELED_PERIOD if rolling else 1, 0
        self._reported = -1.0
        self._time = 0.0

    def tick(self) -> None:
        """Record the contacts of the last physics step."""
        self._ticks += 1
        if self._ticks % self._period:
            return
        time = self._cell.time
        if time < self._time:
            self._log.clear()
            self._reported = -1.0
        self._time = time
        self._log.add(time, self._cell.contacts())

    def diagnose(self, report: Report) -> None:
        """Report contacts since the last report, and a summary since the start or a reset."""
        records = dict(self._log.records)
        recent = [pair for pair, record in records.items() if record.last > self._reported]
        self._reported = self._time
        for a, b in list(recent)[:MAX_CONTACTS_LISTED]:
            report.note("WARN", f"contact: {a} with {b}")
        depth = max((r.depth for r in records.values()), default=0.0)
        force = max((r.force for r in records.values()), default=0.0)
        report.value("contacts", sum(r.episodes for r in records.values()))
        report.value("contact depth max [m]", depth)
        report.value("contact force max [N]", force)
        pairs = sorted(records.items(), key=lambda item: -item[1].depth)[:MAX_CONTACTS_LISTED]
        report.value(
            "contact pairs",
            "; ".join(
                f"{a} - {b}: {r.episodes} x, {1e3 * r.depth:.2f} mm, {r.force:.0f} N"
                for (a, b), r in pairs
            ),
        )


class ObjectMarkers:
    """Publishes ``~/objects``."""

    def __init__(self, node: MotionNode[Any], world: MujocoWorld) -> None:
        self._world = world
        self._out = node.advertise(MarkerArray, "~/objects")
        self._message = MarkerArray(markers=[self._marker(name) for name in world.objects])

    def publish(self, nanoseconds: int) -> None:
        """Publish the poses at a time [ns]."""
        for marker in self._message.markers:
            marker.pose = pose_message(self._world.object_pose(marker.ns))
            set_stamp(marker, nanoseconds)
        self._out.publish(self._message)

    def _marker(self, name: str) -> Marker:
        marker, shape = Marker(ns=name), self._world.free_body(name).geometry
        marker.header.frame_id = FRAME
        if isinstance(shape, Mesh):
            marker.type, size = Marker.MESH_RESOURCE, shape.scale
            marker.mesh_resource = f"file://{shape.filename}"
        elif isinstance(shape, Box):
            marker.type, size = Marker.CUBE, shape.size
        elif isinstance(shape, Sphere):
            marker.type, size = Marker.SPHERE, (2.0 * shape.radius,) * 3
        else:
            marker.type = Marker.CYLINDER
            size = (2.0 * shape.radius, 2.0 * shape.radius, shape.length)
        marker.scale.x, marker.scale.y, marker.scale.z = size
        color = self._world.free_body(name).rgba
        marker.color.r, marker.color.g, marker.color.b, marker.color.a = color
        return marker
