# SPDX-License-Identifier: Apache-2.0
"""Topics of the simulated depth cameras; their images are rendered in a separate thread.

Topics of the simulated laser scanners.
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

from motion_nodes.core.robot.placement import Placement
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.sensors import (
    CameraSettings,
    MountedCamera,
    SimulatedCamera,
    SimulatedLaser,
    Snapshot,
    snapshot,
)
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.messages.camera_messages import (
    cloud_message,
    color_message,
    depth_message,
    info_message,
)
from motion_nodes.ros.names import under
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.parameters import settings_from
from motion_nodes.ros.transforms import TransformSender, frame_id


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
        self._rendered_at = -1.0
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
        period, now = 1.0 / self._node.params.camera_rate, self._world.time
        if 0.0 <= now - self._rendered_at < period or self._pending is not None:
            return
        self._rendered_at = now
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
        self._world = world
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
        self._due = [0.0] * len(self._lasers)
        self._count = 0

    def tick(self, nanoseconds: int) -> None:
        """Publish the scans that are due; in the loop.

        Args:
            nanoseconds: stamp of the state [ns].
        """
        now = self._world.time
        for i, (laser, out, message) in enumerate(self._lasers):
            period = 1.0 / laser.scanner.rate
            # After a reset, time begins again.
            if now < self._due[i] and self._due[i] - now <= period:
                continue
            self._due[i] = now + period
            message.header.stamp = Time(nanoseconds=nanoseconds).to_msg()
            message.ranges = array.array("f", laser.scan().tobytes())
            out.publish(message)
            self._count += 1

    def diagnose(self, report: Report) -> None:
        """Report the number of scans."""
        report.value("laser scans", self._count)
