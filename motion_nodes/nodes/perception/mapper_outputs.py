# SPDX-License-Identifier: Apache-2.0
"""Publishers of the mapper: the octomap for the planning scene and others, and displays of RViz."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from moveit_msgs.msg import PlanningScene
from octomap_msgs.msg import Octomap
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import MarkerArray

from motion_nodes.ros import qos
from motion_nodes.ros.messages.depth_messages import cloud_message
from motion_nodes.ros.messages.markers import Markers
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.scene.octomaps import octomap_message
from motion_nodes.scene.voxels import Voxels

MARKER_PERIOD = 0.5
"""Min time between two messages of markers [s]."""


class MapperOutputs:
    """Publishers of the map."""

    def __init__(self, node: MotionNode[Any], frame: str, resolution: float) -> None:
        """Create the publishers.

        Args:
            node: the mapper.
            frame: of the map.
            resolution: edge of a voxel [m].
        """
        self._node, self._frame, self._resolution = node, frame, resolution
        self._scene = node.advertise(PlanningScene, "planning_scene", qos.SCENES)
        self._binary = node.advertise(Octomap, "~/octomap_binary", qos.LATCHED)
        self._full = node.advertise(Octomap, "~/octomap_full", qos.LATCHED)
        self._points = node.advertise(PointCloud2, "~/occupied_points", qos.LATCHED)
        self._markers = node.advertise(MarkerArray, "~/markers", qos.LATCHED)
        self._markers_at = -np.inf
        self._unshown: Voxels | None = None
        self._to_show = False

    def message(self, solid: Voxels | None, binary: bool = True) -> Octomap:
        """Return the map as a message."""
        stamp = self._node.get_clock().now().to_msg()
        return octomap_message(solid, self._frame, stamp, self._resolution, binary)

    def publish(self, solid: Voxels | None) -> None:
        """Publish a map; None if nothing is occupied."""
        scene = PlanningScene(is_diff=True)
        scene.robot_state.is_diff = True
        octomap = scene.world.octomap
        octomap.octomap = self.message(solid)
        octomap.header.frame_id = self._frame
        octomap.header.stamp = octomap.octomap.header.stamp
        octomap.origin.orientation.w = 1.0
        self._scene.publish(scene)
        self._binary.publish(octomap.octomap)
        if self._full.get_subscription_count():
            self._full.publish(self.message(solid, binary=False))
        if self._points.get_subscription_count():
            centres = _centres(solid).astype(np.float32)
            self._points.publish(cloud_message(centres, self._frame, octomap.header.stamp))
        self._unshown, self._to_show = solid, True

    def show(self) -> None:
        """Publish the markers if there are subscribers."""
        now = time.monotonic()
        if not self._to_show or now - self._markers_at < MARKER_PERIOD:
            return
        if not self._markers.get_subscription_count():
            return
        self._markers_at, self._to_show = now, False
        markers = Markers(self._frame, self._node.get_clock().now().to_msg())
        markers.cubes("occupied", _centres(self._unshown), self._resolution)
        self._markers.publish(markers.message)

    def hide(self) -> None:
        """Delete the markers."""
        stamp = self._node.get_clock().now().to_msg()
        self._markers.publish(Markers(self._frame, stamp).message)


def _centres(solid: Voxels | None) -> np.ndarray:
    if solid is None:
        return np.empty((0, 3))
    return np.asarray((solid.cells + 0.5) * solid.resolution, np.float64)
