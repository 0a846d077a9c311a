# SPDX-License-Identifier: Apache-2.0
"""Lines and dots that another program wants to be seen, such as a search tree."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import viser

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.tree import Array

MOST_POINTS = 20_000
"""Of one drawing; the others are left out."""


@dataclass(frozen=True)
class Drawing:
    """Lines or dots of one colour, in the robot's scene frame.

    Raises:
        InvalidCommand: for points of a wrong shape, or that are not finite.
    """

    points: Array
    """Both ends of each line, shape (2 m, 3), or the dots, shape (m, 3) [m]."""
    rgb: tuple[int, int, int]
    lines: bool = True
    size: float = 2.0
    """Width of lines [pixels], or diameter of dots [m]."""

    def __post_init__(self) -> None:
        """Check the points."""
        points = np.asarray(self.points)
        if points.ndim != 2 or points.shape[1] != 3 or (self.lines and len(points) % 2):
            raise InvalidCommand(f"a drawing has points of shape {points.shape}; (m, 3) is needed.")
        if not np.isfinite(points).all():
            raise InvalidCommand("a drawing has points that are not finite.")


class MarkerView:
    """Takes drawings from any thread and draws them on the drawing thread.

    Args:
        scene: the viser scene.
        path: name of the node to draw below.
    """

    def __init__(self, scene: viser.SceneApi, path: str) -> None:
        """Start empty."""
        self._scene, self._path = scene, path
        self._lock = threading.Lock()
        self._newest: tuple[Drawing, ...] | None = None
        self.nodes: list[viser.SceneNodeHandle] = []
        self._shown = True

    def take(self, drawings: Sequence[Drawing]) -> None:
        """Take what is to be seen from now on."""
        with self._lock:
            self._newest = tuple(drawings)

    def draw(self, shown: bool) -> None:
        """Send what changed since the last time; what is hidden is sent once it is shown."""
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
            points = np.asarray(drawing.points, dtype=np.float32)[:MOST_POINTS]
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
