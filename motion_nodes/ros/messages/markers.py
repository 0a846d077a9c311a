# SPDX-License-Identifier: Apache-2.0
"""Markers of paths, search trees and spheres, for RViz and Foxglove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.typing import Array

Colour = tuple[float, float, float, float]

PATH: Colour = (0.1, 0.7, 0.2, 1.0)
WAYPOINTS: Colour = (0.9, 0.5, 0.1, 1.0)
TREE: Colour = (0.3, 0.4, 0.9, 0.5)
VOXELS: Colour = (0.35, 0.55, 0.75, 0.9)
SPHERES: Colour = (0.9, 0.8, 0.2, 0.4)
AXES: tuple[Colour, ...] = ((0.9, 0.1, 0.1, 1.0), (0.1, 0.8, 0.1, 1.0), (0.1, 0.2, 0.9, 1.0))


class Markers:
    """A MarkerArray under construction; all markers have the same frame and stamp."""

    def __init__(self, frame: str, stamp: Any) -> None:
        self._frame = frame
        self._stamp = stamp
        self._count = 0
        self.message = MarkerArray()
        clear = Marker(action=Marker.DELETEALL)
        clear.header.frame_id, clear.header.stamp = frame, stamp
        self.message.markers.append(clear)

    def line(self, name: str, points: Array) -> None:
        """Add a line strip through points [m], shape (m, 3)."""
        marker = self._add(name, Marker.LINE_STRIP, PATH, 0.004)
        marker.points = _points(points)

    def dots(
        self, name: str, points: Array, colour: Colour = WAYPOINTS, size: float = 0.01
    ) -> None:
        """Add a sphere of diameter ``size`` [m] at each point [m], shape (m, 3)."""
        marker = self._add(name, Marker.SPHERE_LIST, colour, size)
        marker.points = _points(points)

    def cubes(self, name: str, points: Array, size: float) -> None:
        """Add a cube of an edge ``size`` [m] at each point [m], shape (m, 3)."""
        if len(points):
            self._add(name, Marker.CUBE_LIST, VOXELS, size).points = _points(points)

    def tree(self, name: str, points: Array, parents: Sequence[int]) -> None:
        """Add a search tree.

        Args:
            name: namespace of the marker.
            points: positions of the nodes [m], shape (m, 3).
            parents: index of each node's parent, negative for a root.
        """
        pairs = [(i, parent) for i, parent in enumerate(parents) if parent >= 0]
        marker = self._add(name, Marker.LINE_LIST, TREE, 0.001)
        marker.points = _points(points[np.array(pairs, dtype=np.intp).reshape(-1)])

    def spheres(self, name: str, centres: Array, radii: Array, colour: Colour = SPHERES) -> None:
        """Add spheres with centres [m], shape (m, 3), and radii [m], shape (m,)."""
        for centre, radius in zip(centres.tolist(), radii.tolist(), strict=True):
            marker = self._add(name, Marker.SPHERE, colour, 2.0 * radius)
            marker.scale.y = marker.scale.z = 2.0 * radius
            position = marker.pose.position
            position.x, position.y, position.z = centre

    def arrow(self, name: str, start: Array, end: Array, colour: Colour) -> None:
        """Add an arrow between two points [m], shape (3,) each."""
        marker = self._add(name, Marker.ARROW, colour, 0.01)
        marker.scale.y = 0.02
        marker.points = _points(np.array([start, end]))

    def axes(self, name: str, X: Array, length: float) -> None:
        """Add the axes of a pose, shape (4, 4), of a length [m]: x red, y green, z blue."""
        for axis, colour in enumerate(AXES):
            marker = self._add(name, Marker.LINE_LIST, colour, 0.006)
            marker.points = _points(np.array([X[:3, 3], X[:3, 3] + length * X[:3, axis]]))

    def _add(self, name: str, kind: int, colour: Colour, size: float) -> Marker:
        marker = Marker(ns=name, id=self._count, type=kind, action=Marker.ADD)
        self._count += 1
        marker.header.frame_id, marker.header.stamp = self._frame, self._stamp
        r, g, b, a = colour
        marker.color = ColorRGBA(r=r, g=g, b=b, a=a)
        marker.scale.x = size
        if kind in (Marker.SPHERE_LIST, Marker.CUBE_LIST):
            marker.scale.y = marker.scale.z = size
        self.message.markers.append(marker)
        return marker


def _points(points: Array) -> list[Point]:
    return [Point(x=x, y=y, z=z) for x, y, z in points.tolist()]
