# SPDX-License-Identifier: Apache-2.0
"""The trail of a mobile base: its past positions as a line."""

from __future__ import annotations

from collections import deque

import numpy as np
import viser

from motion_nodes.typing import Array

SPACING = 0.02
"""Min distance between two points [m]."""
MAX_POINTS = 600
"""Max number of points, 12 m at ``SPACING``; the oldest are removed."""
JUMP = 0.5
"""A displacement between two updates above this [m] is a teleport: the trail is cleared."""
HEIGHT = 0.004
"""Height of the line above the base's origin [m], so that the floor does not hide it."""


class TrailPoints:
    """The points of a trail, with a min spacing and a max number."""

    def __init__(self) -> None:
        """Start empty."""
        self._points: deque[Array] = deque(maxlen=MAX_POINTS)

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self._points)

    def clear(self) -> None:
        """Remove all points."""
        self._points.clear()

    def add(self, p_WB: Array) -> bool:
        """Add a position of the base.

        Args:
            p_WB: position in the world [m], shape (3,).

        Returns:
            Whether the trail changed.
        """
        if self._points:
            moved = float(np.linalg.norm(p_WB - self._points[-1]))
            if moved < SPACING:
                return False
            if moved > JUMP:
                self._points.clear()
        self._points.append(np.array(p_WB, dtype=np.float64))
        return True

    def segments(self) -> Array:
        """Return the line segments in the world [m], shape (k, 2, 3); k may be 0."""
        if len(self._points) < 2:
            return np.zeros((0, 2, 3))
        points = np.array(self._points)
        return np.stack([points[:-1], points[1:]], axis=1)


class Trail:
    """The trail of one base in the scene.

    Args:
        scene: the viser scene.
        path: path of its node.
        rgb: colour of the line, 0 to 255 each.
    """

    def __init__(self, scene: viser.SceneApi, path: str, rgb: tuple[int, int, int]) -> None:
        """Start empty."""
        self.points = TrailPoints()
        self._scene, self._path, self.rgb = scene, path, rgb
        self._node: viser.LineSegmentsHandle | None = None

    def draw(self, segments: Array) -> None:
        """Send the line; ``segments``: see :meth:`TrailPoints.segments`."""
        if len(segments) == 0:
            if self._node is not None:
                self._node.remove()
                self._node = None
            return
        raised = np.array(segments, dtype=np.float32)
        raised[:, :, 2] += HEIGHT
        if self._node is not None:
            self._node.points = raised
            return
        self._node = self._scene.add_line_segments(
            self._path, raised, colors=self.rgb, thickness=3.0, thickness_units="screen"
        )
