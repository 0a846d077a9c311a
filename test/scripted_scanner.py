# SPDX-License-Identifier: Apache-2.0
"""Sensors of a scripted base that see a wall and a pole, or publish invalid data."""

import math
from typing import Any

import numpy as np
from base_navigation.obstacle_scenes import Scene
from builtin_interfaces.msg import Time
from ros_client import RosClient
from scripted_base import ScriptedBase
from sensor_msgs.msg import LaserScan, PointCloud2

from motion_nodes.core.navigation.footprint import into_base
from motion_nodes.ros.messages.camera_messages import cloud_message

BAD_SCANS: list[tuple[str, dict[str, Any]]] = [
    ("millimetres", {"ranges": lambda m: [1e3 * r for r in m.ranges]}),
    ("is blind", {"ranges": [math.nan] * 360}),
    ("0 ranges", {"ranges": []}),
    ("angle_increment", {"angle_increment": 1.0}),
    ("'moon'", {"frame_id": "moon"}),
    ("no frame_id", {"frame_id": ""}),
    ("old by its stamp", {"stamp": lambda m: Time(sec=m.header.stamp.sec - 60)}),
    ("in the future", {"stamp": lambda m: Time(sec=m.header.stamp.sec + 60)}),
    ("on the base itself", {"ranges": [0.03] * 360}),
]
"""Reasons for which scans are rejected, and the fields that cause them."""


class Scanner:
    """A scanner at the base frame that sees a wall across the base's path, and a camera."""

    def __init__(self, client: RosClient, base: ScriptedBase, navigator: str) -> None:
        self.wall = 1.0
        """Distance x of the wall in the odometry frame [m]."""
        self.pole: float | None = None
        """Distance x of a pole that the camera sees [m]; None: no camera."""
        self.changes: dict[str, Any] = {}
        """Invalid fields of the scans."""
        self._client, self._base, self._node = client, base, navigator
        self._out = client.publisher(LaserScan, "/scan")
        self._cloud: Any = None

    def show(self) -> None:
        """Publish the present view."""
        pose, stamp = self._base.pose, self._client.node.get_clock().now().to_msg()
        angles = np.arange(360) * math.tau / 360
        scene = Scene(boxes=np.array([(self.wall, -2.0, self.wall + 0.1, 2.0)]))
        message = LaserScan(angle_increment=math.tau / 360, range_min=0.02, range_max=10.0)
        message.header.frame_id, message.header.stamp = "base_link", stamp
        message.ranges = scene.ranges(pose.x, pose.y, pose.yaw + angles).tolist()
        for name, value in self.changes.items():
            part = message.header if hasattr(message.header, name) else message
            setattr(part, name, value(message) if callable(value) else value)
        self._out.publish(message)
        if self.pole is not None:
            xy = into_base(np.full((30, 2), (self.pole, 0.0)), pose)
            points = np.column_stack((xy, np.linspace(0.0, 0.5, 30))).astype(np.float32)
            if self._cloud is None:
                self._cloud = self._client.publisher(PointCloud2, "/cloud")
            self._cloud.publish(cloud_message(points, "base_link", stamp))

    def until(self, condition: Any, what: str) -> None:
        """Publish until a condition is true."""
        self._client.repeat(self.show, condition, what)

    def diagnosed(self, text: str) -> bool:
        """Return whether the newest report of the navigator contains a text."""
        status = self._client.diagnostics(self._node)
        return status is not None and text in status.message
