# SPDX-License-Identifier: Apache-2.0
"""The geometry of a link as points and volume elements, to which spheres are fitted.

Meshes of robots may be hollow, open, inverted, or consist of many parts. A closed mesh is therefore
not required: the surface is sampled, and the enclosed volume is solid.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Mesh, Shape, Sphere, frozen
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.errors import InvalidDescription
from motion_nodes.typing import Array

_FACETS = 48  # facets of a round shape; its chords are 0.2 % of the radius inside
_GREATEST_GRID = 1_500_000  # max number of grid cells
_MOST_SAMPLES = 40_000  # approximate max number of surface samples
_THIN = 0.125  # height by longest side of triangles that are sampled in rows


class LinkGeometry:
    """Surface and volume of a link, in the link's frame; spacing scales with the link's size."""

    corners: Array
    """Corners of all triangles of the surface [m], shape (t, 3, 3)."""
    spacing: float
    """Edge of a volume element; every surface point is within this distance of a sample [m]."""
    balls: Array | None = None
    """The geometry itself if it consists of spheres: centres and radii [m], shape (n, 4)."""

    def __init__(self, corners: Array, spacing: float | None = None) -> None:
        """Create the geometry.

        Args:
            corners: triangles in the link's frame [m], shape (t, 3, 3).
            spacing: desired distance of samples [m]; default: 1/32 of the largest extent.

        Raises:
            InvalidDescription: there are no triangles.
        """
        if not len(corners):
            raise InvalidDescription("a geometry without triangles cannot be covered by spheres.")
        self.corners = frozen(corners)
        low, high = self.bounds
        extent = np.maximum(high - low, 1e-9)
        desired = spacing or float(extent.max()) / 32.0
        # Bounds the size of grid and samples.
        a, b, c = (self.corners[:, k] for k in range(3))
        area = 0.5 * float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())
        desired = max(desired, math.sqrt(area / _MOST_SAMPLES) / 0.4)
        while np.prod(extent / desired + 5.0) > _GREATEST_GRID:
            desired *= 1.2
        self.spacing = desired

    @classmethod
    def of_shapes(
        cls, shapes: Iterable[Shape], find_mesh: Callable[[str], Path], spacing: float | None = None
    ) -> LinkGeometry | None:
        """Return the geometry of a URDF's shapes; None if there are none.

        Args:
            shapes: collision shapes or visuals of one link.
            find_mesh: returns the file of a mesh's ``filename``.
            spacing: see the constructor.

        Raises:
            InvalidDescription: a mesh cannot be found or read.
        """
        shapes = list(shapes)
        pieces = [triangles_of(shape, find_mesh) for shape in shapes]
        if not pieces:
            return None
        made = cls(np.concatenate(pieces), spacing)
        balls = [(*x.X_LG[:3, 3], x.geometry.radius) for x in shapes
                 if isinstance(x.geometry, Sphere)]  # fmt: skip
        made.balls = frozen(np.array(balls)) if len(balls) == len(shapes) else None
        return made

    @classmethod
    def of_link(cls, robot: Robot, link: str, spacing: float | None = None) -> LinkGeometry | None:
        """Return the collision geometry of a robot's link; None if it has none.

        Raises:
            UnknownFrame: there is no such link.
            InvalidDescription: a mesh cannot be found or read.
        """
        return cls.of_shapes(robot.tree.link(link).collisions, robot.mesh_path, spacing)

    def finer(self, spacing: float) -> LinkGeometry:
        """Return the same geometry with samples no farther apart than ``spacing`` [m]."""
        return self if self.spacing <= spacing else LinkGeometry(self.corners, spacing)

    @functools.cached_property
    def bounds(self) -> Array:
        """Min and max corner of the bounding box of the surface [m], shape (2, 3)."""
        points = self.corners.reshape(-1, 3)
        return frozen(np.stack((points.min(axis=0), points.max(axis=0))))

    @functools.cached_property
    def dense(self) -> Array:
        """Dense points [m], shape (d, 3); max distance of other points: 0.29 of the spacing."""
        return frozen(dense_points(self.corners, 0.5 * self.spacing))

    @functools.cached_property
    def surface(self) -> Array:
        """Samples of the outer surface [m], shape (s, 3), without internal walls."""
        from scipy import ndimage

        points = self.dense
        # 0.29 of the spacing to a dense point, 0.69 from there to the sample of its cell.
        cells = np.floor(points / (0.4 * self.spacing)).astype(np.int64)
        points = points[_first_of_each(cells)]
        solid, first = self._grid
        core = ndimage.binary_erosion(solid, iterations=2)
        inner = core[tuple(np.rint((points - first) / self.spacing).astype(int).T)]
        return frozen(points[~inner])

    @functools.cached_property
    def _grid(self) -> tuple[NDArray[np.bool_], Array]:
        """Solid cells, and the centre of the first cell."""
        from scipy import ndimage

        low = self.bounds[0] - 2.5 * self.spacing
        shape = np.ceil((self.bounds[1] - low) / self.spacing).astype(int) + 4
        points = self.dense
        shell = np.zeros(shape, bool)
        shell[tuple(np.floor((points - low) / self.spacing).astype(int).T)] = True
        # Closing before filling also closes small holes of real meshes.
        closed = ndimage.binary_dilation(shell, np.ones((3, 3, 3), bool))
        filled = ndimage.binary_fill_holes(closed)
        solid = ndimage.binary_erosion(filled, np.ones((3, 3, 3), bool)) | shell
        enclosed = _enclosed(shell)
        if solid.sum() - shell.sum() < 0.2 * (enclosed & ~shell).sum():
            solid |= enclosed  # a shell with an open end, such as a cover or a tube
        return solid, low + 0.5 * self.spacing

    @functools.cached_property
    def elements(self) -> Array:
        """Centres of the solid volume elements [m], shape (v, 3)."""
        solid, first = self._grid
        return frozen(first + self.spacing * np.argwhere(solid))

    @functools.cached_property
    def middle_axes(self) -> Array:
        """Centres of the solid elements with locally max depth [m], shape (a, 3).

        They approximate the medial axis, which contains the centres of maximal inscribed balls.
        """
        from scipy import ndimage

        solid, first = self._grid
        depth = ndimage.distance_transform_edt(solid)
        deepest = solid & (depth >= ndimage.maximum_filter(depth, 3) - 0.25)
        return frozen(first + self.spacing * np.argwhere(deepest))

    @property
    def volume(self) -> float:
        """Volume of the solid elements [m^3]; elements cut by the surface count half."""
        return float(self._weights.sum()) * self.spacing**3

    @functools.cached_property
    def _weights(self) -> Array:
        """1 for an element inside, 1/2 for one at the surface, shape (v,)."""
        # Only the neighbourhood of each element is searched: most are deep inside.
        near = 0.5 * self.spacing
        distance = self._samples_tree.query(self.elements, distance_upper_bound=near)[0]
        return frozen(np.where(np.isfinite(distance), 0.5, 1.0))

    def depth(self, points: Array) -> Array:
        """Return the depth of points inside the surface, negative outside [m], shape (m,).

        Exact up to ``spacing``: the distance is that to the closest sample of the surface.
        """
        distance = np.asarray(self._samples_tree.query(points)[0], dtype=np.float64)
        return np.where(self.is_solid(points), distance, -distance)

    def distance_outside(self, points: Array) -> Array:
        """Return the distance of points outside from the surface [m], 0 inside, shape (m,)."""
        distance = np.zeros(len(points))
        beyond = ~self.is_solid(points)
        distance[beyond] = self._samples_tree.query(points[beyond])[0]
        return distance

    def touched_by(self, points: Array, within: float) -> bool:
        """Return whether any point [m] is inside, or within a distance of the surface."""
        low, high = self.bounds
        near = points[((points > low - within) & (points < high + within)).all(axis=1)]
        if not len(near):
            return False
        if self.is_solid(near).any():
            return True
        distance = self._samples_tree.query(near, distance_upper_bound=within)[0]
        return bool(np.isfinite(distance).any())

    def is_solid(self, points: Array) -> NDArray[np.bool_]:
        """Return whether points lie in a solid element, shape (m,)."""
        solid, first = self._grid
        place = np.rint((points - first) / self.spacing).astype(int)
        within = ((place >= 0) & (place < solid.shape)).all(axis=1)
        found = np.zeros(len(points), bool)
        found[within] = solid[tuple(place[within].T)]
        return found

    @functools.cached_property
    def _near(self) -> dict[float, tuple[Array, Array]]:
        """Results of :meth:`around` by reach."""
        return {}

    def around(self, reach: float) -> tuple[Array, Array]:
        """Return the free volume elements near the geometry, and their distances.

        Args:
            reach: max distance [m].

        Returns:
            Centres [m], shape (e, 3), and distances from the solid elements [m], shape (e,).
        """
        from scipy import ndimage

        if reach in self._near:
            return self._near[reach]
        solid, first = self._grid
        margin = math.ceil(reach / self.spacing) + 1
        free = ~np.pad(solid, margin)
        distance = self.spacing * ndimage.distance_transform_edt(free)
        near = free & (distance <= reach)
        places = first + self.spacing * (np.argwhere(near) - margin)
        self._near[reach] = frozen(places), frozen(distance[near])
        return self._near[reach]

    @functools.cached_property
    def _samples_tree(self) -> Any:
        """Points of the surface and of the closed ends of open parts, which bound the depth."""
        from scipy import ndimage
        from scipy.spatial import cKDTree

        solid, first = self._grid
        edge = solid & ~ndimage.binary_erosion(solid)
        places = first + self.spacing * np.argwhere(edge)
        # Balancing takes as long as the building itself, and saves nothing in the queries.
        tree = functools.partial(cKDTree, balanced_tree=False, compact_nodes=False)
        surface = tree(self.surface)
        apart = np.isinf(surface.query(places, distance_upper_bound=1.5 * self.spacing)[0])
        return tree(np.concatenate((self.surface, places[apart]))) if apart.any() else surface


def _enclosed(shell: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the cells with a shell in at least five of six directions, at any distance."""
    sides = np.zeros(shell.shape, np.int8)
    for axis in range(3):
        sides += np.maximum.accumulate(shell, axis=axis)
        sides += np.flip(np.maximum.accumulate(np.flip(shell, axis), axis=axis), axis)
    return sides >= 5


def triangles_of(shape: Shape, find_mesh: Callable[[str], Path]) -> Array:
    """Return a shape's surface as triangles in the link's frame [m], shape (t, 3, 3).

    Raises:
        InvalidDescription: its mesh cannot be found or read.
    """
    geometry = shape.geometry
    if isinstance(geometry, Mesh):
        mesh = read_mesh(find_mesh(geometry.filename), geometry.scale)
        corners = mesh.vertices[mesh.triangles]
    elif isinstance(geometry, Box):
        corners = _box(geometry.size)
    elif isinstance(geometry, Cylinder):
        corners = _turned([(0.0, -0.5), (1.0, -0.5), (1.0, 0.5), (0.0, 0.5)])
        corners = corners * (geometry.radius, geometry.radius, geometry.length)
    else:
        assert isinstance(geometry, Sphere)
        angles = np.linspace(-0.5 * math.pi, 0.5 * math.pi, _FACETS // 2 + 1)
        corners = geometry.radius * _turned([(math.cos(a), math.sin(a)) for a in angles])
    return np.asarray(corners @ shape.X_LG[:3, :3].T + shape.X_LG[:3, 3], dtype=np.float64)


def _box(size: Sequence[float]) -> Array:
    signs = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    faces = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]
    triangles = [(a, b, c) for a, b, c, _ in faces] + [(a, c, d) for a, _, c, d in faces]
    return np.asarray(signs[np.array(triangles)] * np.asarray(size), dtype=np.float64)


def _turned(outline: Sequence[tuple[float, float]]) -> Array:
    """Return the surface of revolution of an outline of radius and height about z."""
    angles = np.linspace(0.0, 2.0 * math.pi, _FACETS + 1)
    rings = np.array([[(r * np.cos(a), r * np.sin(a), z) for a in angles] for r, z in outline])
    a, b = rings[:-1, :-1], rings[:-1, 1:]
    c, d = rings[1:, 1:], rings[1:, :-1]
    corners = np.concatenate((np.stack((a, b, c), axis=2), np.stack((a, c, d), axis=2)))
    corners = corners.reshape(-1, 3, 3)
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    return np.asarray(corners[area > 1e-12], dtype=np.float64)


def dense_points(corners: Array, edge: float) -> Array:
    """Return points of triangles; the max distance of any other point is ``edge / sqrt(3)``.

    Args:
        corners: shape (t, 3, 3) [m].
        edge: max edge of the subdivided triangles [m].
    """
    sides = np.linalg.norm(corners - corners[:, [1, 2, 0]], axis=2)
    longest = sides.max(axis=1)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    heights = np.linalg.norm(normals, axis=1) / np.maximum(longest, 1e-300)
    thin = heights < _THIN * longest
    pieces = [_points_of_slivers(corners[thin], sides[thin], heights[thin], edge / 2.0)]
    corners, cuts = corners[~thin], np.maximum(1, np.ceil(longest[~thin] / edge)).astype(int)
    for n in np.unique(cuts):
        i, j = np.triu_indices(n + 1)
        weights = np.stack((i, j - i, n - j), axis=1) / n
        pieces.append((weights @ corners[cuts == n]).reshape(-1, 3))
    return np.concatenate(pieces)


def _points_of_slivers(corners: Array, sides: Array, heights: Array, step: float) -> Array:
    """Return points in rows along the longest sides; max distance of other points: ``1.12 step``.

    Both angles at the longest side are acute, so each row is at least as long as the row above it.
    """
    turned = (sides.argmax(axis=1)[:, None] + np.arange(3)) % 3
    corners = np.take_along_axis(corners, turned[:, :, None], axis=1)
    counts = np.stack((sides.max(axis=1, initial=0.0), heights), axis=1) / step
    counts = np.maximum(1, np.ceil(counts)).astype(int)
    pieces = [np.zeros((0, 3))]
    for n, m in np.unique(counts, axis=0):
        grids = np.meshgrid(np.arange(n + 1) / n, np.arange(m + 1) / m)
        u, v = (grid.ravel() for grid in grids)
        weights = np.stack(((1 - v) * (1 - u), (1 - v) * u, v), axis=1)
        chosen = corners[(counts == (n, m)).all(axis=1)]
        pieces.append((weights @ chosen).reshape(-1, 3))
    return np.concatenate(pieces)


def _first_of_each(cells: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the index of the first occurrence of each row."""
    cells = cells - cells.min(axis=0)
    key = cells @ np.array([1, 1 << 20, 1 << 40])  # sorting one number is faster than sorting a row
    return np.unique(key, return_index=True)[1]
