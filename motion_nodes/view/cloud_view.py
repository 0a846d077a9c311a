# SPDX-License-Identifier: Apache-2.0
"""A point cloud of a sensor on the page."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import viser
from numpy.typing import NDArray

from motion_nodes.model.poses import to_quat_wxyz
from motion_nodes.typing import Array

MAX_POINTS = 20_000
"""Max number of points drawn; of larger clouds every n-th point is drawn."""
POINT_SIZE = 0.01
"""Diameter of a point [m]."""
COLOUR_RANGE = 2.0, 98.0
"""Percentiles of the heights between which colours change."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points of a sensor."""

    topic: str
    """Topic of the sensor."""
    points: NDArray[np.float32]
    """In the frame of the sensor [m], shape (n, 3), finite."""
    rgb: NDArray[np.uint8]
    """Colours, shape (n, 3)."""
    X_WF: Array
    """Pose of that frame in the world, shape (4, 4)."""


def thinned_cloud(
    topic: str, points: NDArray[np.float32], rgb: NDArray[np.uint8] | None, X_WF: Array
) -> Cloud:
    """Return a cloud of at most ``MAX_POINTS`` finite points.

    Args:
        topic: topic of the sensor.
        points: in its frame [m], shape (n, 3); NaN and infinite ones are omitted.
        rgb: colours, shape (n, 3); None: by height, from blue to red.
        X_WF: pose of the frame in the world, shape (4, 4).
    """
    seen = np.flatnonzero(np.isfinite(points).all(axis=1))
    seen = seen[:: -(-len(seen) // MAX_POINTS) or 1]
    kept = np.ascontiguousarray(points[seen])
    if rgb is None:
        return Cloud(topic, kept, colours_of_heights(kept @ X_WF[2, :3] + X_WF[2, 3]), X_WF)
    return Cloud(topic, kept, rgb[seen], X_WF)


def colours_of_heights(z: Array) -> NDArray[np.uint8]:
    """Return colours from blue (low) to red (high), shape (n, 3), of heights [m], shape (n,)."""
    if not len(z):
        return np.empty((0, 3), np.uint8)
    low, high = np.percentile(z, COLOUR_RANGE)
    share = np.clip((z - low) / max(high - low, 1e-6), 0.0, 1.0)
    # The hues between blue, at 4 sixths of the colour circle, and red, at 0.
    sixths = 4.0 * (1.0 - share)[:, None] + (0.0, 4.0, 2.0)
    rgb = np.clip(np.abs(sixths % 6.0 - 3.0) - 1.0, 0.0, 1.0)
    return np.asarray(np.round(255.0 * rgb), np.uint8)


class CloudView:
    """Accepts clouds from any thread and draws them on the drawing thread.

    Args:
        scene: the viser scene.
        path: name of the node.
    """

    def __init__(self, scene: viser.SceneApi, path: str) -> None:
        """Start empty."""
        self._scene, self._path = scene, path
        self._lock = threading.Lock()
        self._newest: Cloud | None = None
        self._topic = ""
        self._node: viser.PointCloudHandle | None = None

    @property
    def drawn(self) -> int:
        """Number of points drawn."""
        return 0 if self._node is None else len(self._node.points)

    def set_cloud(self, cloud: Cloud) -> None:
        """Replace the cloud."""
        with self._lock:
            self._newest = cloud

    def draw(self, topic: str) -> None:
        """Send changes since the last call.

        Args:
            topic: topic of the cloud to show; others are removed.
        """
        with self._lock:
            cloud, self._newest = self._newest, None
        if topic != self._topic or not topic:
            self._topic = topic
            if self._node is not None:
                self._node.remove()
                self._node = None
        if cloud is None or cloud.topic != topic:
            return
        wxyz, position = to_quat_wxyz(cloud.X_WF[:3, :3]), cloud.X_WF[:3, 3]
        self._node = self._scene.add_point_cloud(
            self._path, cloud.points, cloud.rgb, point_size=POINT_SIZE, point_shape="circle",
            wxyz=wxyz, position=position,
        )  # fmt: skip
