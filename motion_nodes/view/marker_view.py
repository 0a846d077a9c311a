# SPDX-License-Identifier: Apache-2.0
"""Visualization markers of other programs, such as a planner's search tree."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import viser

from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

MAX_POINTS = 20_000
"""Max number of points of one drawing; further ones are not drawn."""


@dataclass(frozen=True)
class Drawing:
    """Lines or points of one colour, in the robot's scene frame.

    Raises:
        InvalidCommand: wrong shape of the points, or points that are not finite.
    """

    points: Array
    """Both ends of each line [m], shape (2 m, 3), or the points [m], shape (m, 3)."""
    rgb: tuple[int, int, int]
    """Colour, 0 to 255 each."""
    lines: bool = True
    """Whether to draw lines or points."""
    size: float = 2.0
    """Width of lines [pixels], or diameter of points [m]."""

    def __post_init__(self) -> None:
        """Check the points."""
        points = np.asarray(self.points)
        if points.ndim != 2 or points.shape[1] != 3 or (self.lines and len(points) % 2):
            rows = "(2 m, 3), two rows per line" if self.lines else "(m, 3)"
            raise InvalidCommand(
                f"the points of a drawing have shape {points.shape}; expected {rows}.",
                field="points",
            )
        if not np.isfinite(points).all():
            raise InvalidCommand("the points of a drawing are not finite.", field="points")


class MarkerView:
    """Accepts drawings from any thread and draws them on the drawing thread.

    Args:
        scene: the viser scene.
        path: name of the parent node.
    """

    def __init__(self, scene: viser.SceneApi, path: str) -> None:
        """Start empty."""
        self._scene, self._path = scene, path
        self._lock = threading.Lock()
        self._newest: tuple[Drawing, ...] | None = None
        self.nodes: list[viser.SceneNodeHandle] = []
        self._shown = True

    def set_drawings(self, drawings: Sequence[Drawing]) -> None:
        """Replace all drawings."""
        with self._lock:
            self._newest = tuple(drawings)

    def draw(self, shown: bool) -> None:
        """Send changes; while hidden, sending is deferred until shown."""
        if shown:
            with self._lock:
                drawings, self._newest = self._newest, None
            if drawings is not None:
                self._replace(drawings)
        if shown != self._shown:
            self._shown = shown
            for node in self.nodes:
                node.visible = shown

    def _replace(self, drawings: tuple[Drawing, ...]) -> None:
        for node in self.nodes:
            node.remove()
        self.nodes = []
        for number, drawing in enumerate(drawings):
            points = np.asarray(drawing.points, dtype=np.float32)[:MAX_POINTS]
            path = f"{self._path}/{number}"
            if not len(points):
                continue
            if drawing.lines:
                self.nodes.append(
                    self._scene.add_line_segments(
                        path, points.reshape(-1, 2, 3), colors=drawing.rgb,
                        thickness=drawing.size, thickness_units="screen",
                    )
                )  # fmt: skip
            else:
                self.nodes.append(
                    self._scene.add_point_cloud(
                        path, points, drawing.rgb, point_size=drawing.size, point_shape="circle"
                    )
                )
