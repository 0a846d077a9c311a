# SPDX-License-Identifier: Apache-2.0
"""The line that a driving base leaves behind it."""

from __future__ import annotations

from collections import deque

import numpy as np
import viser

from motion_nodes.model.tree import Array

SPACING = 0.02
"""A new point is set when the base has moved this far [m]."""
MAX_POINTS = 600
"""The oldest point goes when there are more: 12 m at the spacing above."""
JUMP = 0.5
"""A base that moves this far between two updates was put there: the line starts anew [m]."""
HEIGHT = 0.004
"""Above the base's own height, so that the floor does not swallow the line [m]."""


class TrailPoints:
    """The points of a trail, thinned by distance and bounded in number."""

    def __init__(self) -> None:
        """Start empty."""
        self._points: deque[Array] = deque(maxlen=MAX_POINTS)

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self._points)

    def clear(self) -> None:
        """Forget all points."""
        self._points.clear()

    def add(self, p_WB: Array) -> bool:
        """Take a position of the base [m], shape (3,); return whether the line changed."""
        if self._points:
            moved = float(np.linalg.norm(p_WB - self._points[-1]))
            if moved < SPACING:
                return False
            if moved > JUMP:
                self._points.clear()
        self._points.append(np.array(p_WB, dtype=np.float64))
        return True

    def segments(self) -> Array:
        """Return the pieces of the line, shape (k, 2, 3); k may be 0."""
        if len(self._points) < 2:
            return np.zeros((0, 2, 3))
        points = np.array(self._points)
        return np.stack([points[:-1], points[1:]], axis=1)


class Trail:
    """The trail of one base in the scene.

    Args:
        scene: the scene to add to.
        path: name of its node.
        rgb: colour of the line.
    """

    def __init__(self, scene: viser.SceneApi, path: str, rgb: tuple[int, int, int]) -> None:
        """Start with no line."""
        self.points = TrailPoints()
        self._scene, self._path, self._rgb = scene, path, rgb
        self._node: viser.LineSegmentsHandle | None = None

    def draw(self, segments: Array) -> None:
        """Send the line: pieces as ``TrailPoints.segments`` gives them, shape (k, 2, 3)."""
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
            self._path, raised, colors=self._rgb, thickness=3.0, thickness_units="screen"
        )
