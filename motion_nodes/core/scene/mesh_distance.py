# SPDX-License-Identifier: Apache-2.0
"""Triangle meshes as solids: hulls, closedness, and exact signed distances in plain NumPy.

Distances have directions. The formulas are those of the generated code
(:mod:`motion_nodes.kernels.formulas.shapes`).
"""

from __future__ import annotations

import functools
import weakref

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.scene.shapes import Solid, TriangleMesh, type_of
from motion_nodes.core.scene.triangle_surfaces import WindingNumber, nearest_on_triangles
from motion_nodes.core.scene.voxels import Voxels, box_distance
from motion_nodes.kernels.formulas import shapes
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.typing import Array

_CHUNK = 2_000_000  # max point-triangle pairs per batch: about 200 MB


class Surface:
    """The surface of a mesh: its own triangles, or those of its convex hull."""

    def __init__(self, mesh: TriangleMesh) -> None:
        self.corners, self.planes = _corners_of(mesh)
        self.closed = self.planes is not None or _is_closed(mesh)

    corners: Array
    """Corners of each triangle [m], shape (t, 3, 3)."""
    planes: Array | None
    """For a convex solid: outward normal and offset of each face, shape (f, 4); n x <= d."""
    closed: bool
    """Whether it encloses a volume: each edge is shared by two triangles."""

    @functools.cached_property
    def _winding(self) -> WindingNumber:
        return WindingNumber(self.corners)

    def inside(self, points: Array) -> NDArray[np.bool_]:
        """Return which points are inside, shape (m,)."""
        if not self.closed:
            return np.zeros(len(points), np.bool_)
        if self.planes is not None:
            beyond = points @ self.planes[:, :3].T - self.planes[:, 3]
            return np.asarray(beyond.max(axis=1) < 0.0)
        return self._winding.encloses(points)

    def inside_grid(self, x: Array, y: Array, z: Array) -> NDArray[np.bool_]:
        """Return which points of a grid are inside, shape (len(x), len(y), len(z)).

        The winding number of a point is the sum of the signed crossings of the surface above it,
        computed once per vertical line.

        Args:
            x: coordinates of the grid points along x, ascending [m].
            y: the same along y.
            z: the same along z.
        """
        if not self.closed:
            return np.zeros((len(x), len(y), len(z)), bool)
        # The offset avoids lines through corners and edges, which cross two triangles or none.
        X, Y = np.meshgrid(_beside(x), _beside(y), indexing="ij")
        lines = np.stack((X.ravel(), Y.ravel()), axis=1)
        a, b, c = (self.corners[:, k, :2] for k in range(3))
        area = _cross(b - a, c - a)
        kept = area != 0.0
        a, b, c, area, heights = a[kept], b[kept], c[kept], area[kept], self.corners[kept, :, 2]
        steps = np.zeros((len(lines), len(z) + 1))
        for part in _parts(len(lines), len(area)):
            p = lines[part, None]
            weights = np.stack(
                (
                    _cross(c - b, p - b) / area,
                    _cross(a - c, p - c) / area,
                    _cross(b - a, p - a) / area,
                )
            )
            line, triangle = np.nonzero((weights >= 0.0).all(axis=0))
            height = (weights[:, line, triangle].T * heights[triangle]).sum(axis=1)
            below = np.searchsorted(z, height)
            np.add.at(steps, (line + part.start, below), np.sign(area[triangle]))
        above = steps[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        return np.asarray((np.abs(above) > 0.5).reshape(len(x), len(y), len(z)))

    def near_grid(self, x: Array, y: Array, z: Array, *, distance: float) -> NDArray[np.bool_]:
        """Return which points of a grid are closer than a distance [m] to the surface.

        Each triangle is compared with the grid points next to it only.

        Args:
            x: coordinates of the grid points along x, ascending [m].
            y: the same along y.
            z: the same along z.
            distance: the distance [m].

        Returns:
            Shape (len(x), len(y), len(z)).
        """
        axes, near = (x, y, z), np.zeros((len(x), len(y), len(z)), bool)
        low, high = self.corners.min(axis=1) - distance, self.corners.max(axis=1) + distance
        first = np.stack([np.searchsorted(axis, low[:, k]) for k, axis in enumerate(axes)])
        last = np.stack([np.searchsorted(axis, high[:, k], "right") for k, axis in enumerate(axes)])
        counts = (last - first).clip(0)
        pairs = counts.prod(axis=0)
        ends = pairs.cumsum()
        for begin in range(0, int(pairs.sum()), _CHUNK // 4):
            number = np.arange(begin, min(begin + _CHUNK // 4, int(ends[-1])))
            triangle = np.searchsorted(ends, number, "right")
            number -= (ends - pairs)[triangle]
            number, k = np.divmod(number, counts[2, triangle])
            i, j = np.divmod(number, counts[1, triangle])
            i, j, k = np.stack((i, j, k)) + first[:, triangle]
            points = np.stack((x[i], y[j], z[k]), axis=1)
            away = nearest_on_triangles(self.corners[triangle], points) - points
            close = np.linalg.norm(away, axis=1) < distance
            near[i[close], j[close], k[close]] = True
        return near

    def nearest(self, points: Array) -> tuple[Array, Array]:
        """Return the closest point of the surface, and the normal of its triangle, (m, 3) each."""
        nearest, normals = np.full_like(points, np.nan), np.full_like(points, np.nan)
        a, b, c = (self.corners[:, k] for k in range(3))
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        for part in _parts(len(points), len(self.corners)):
            candidates = nearest_on_triangles(self.corners, points[part, None])
            squared = ((candidates - points[part, None]) ** 2).sum(axis=2)
            best = squared.argmin(axis=1)
            nearest[part] = candidates[np.arange(len(best)), best]
            normals[part] = normal[best]
        return nearest, normals


def _cross(u: Array, v: Array) -> Array:
    """Return the cross products of vectors in the plane."""
    return np.asarray(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0])


def _beside(ticks: Array) -> Array:
    """Return the coordinates of a grid with a small offset."""
    return np.asarray(ticks + 1.7e-7 * np.sqrt(2.0 + np.arange(len(ticks))) * np.ptp(ticks))


def surface_of(mesh: TriangleMesh) -> Surface:
    """Return the surface of a mesh (cached)."""
    known = _surfaces.get(mesh)
    if known is None:
        known = _surfaces[mesh] = Surface(mesh)
    return known


_surfaces: weakref.WeakKeyDictionary[TriangleMesh, Surface] = weakref.WeakKeyDictionary()


def mesh_distance(mesh: TriangleMesh, points: Array) -> tuple[Array, Array]:
    """Return signed distances (m,) and directions (m, 3) of points; see ``signed_distance``.

    Distances to a surface that is not closed are never negative.
    """
    surface = surface_of(mesh)
    nearest, normals = surface.nearest(points)
    inside = surface.inside(points)
    offset = np.where(inside[:, None], nearest - points, points - nearest)
    length = np.linalg.norm(offset, axis=1)
    apart = length[:, None] > 0.0
    direction = np.where(apart, offset / np.where(apart, length[:, None], 1.0), normals)
    finite = np.isfinite(points).all(axis=1)
    return np.where(finite, np.where(inside, -length, length), np.nan), direction


def _parts(points: int, triangles: int) -> list[slice]:
    step = max(1, _CHUNK // max(1, triangles))
    return [slice(start, min(points, start + step)) for start in range(0, points, step)]


def _corners_of(mesh: TriangleMesh) -> tuple[Array, Array | None]:
    if not mesh.convex:
        return mesh.vertices[mesh.triangles], None
    # Imported on demand: the import takes almost 1 s, and few worlds have a convex mesh.
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(mesh.vertices)
    except QhullError:  # flat or too small for a hull: use the triangles
        return mesh.vertices[mesh.triangles], None
    corners = mesh.vertices[hull.simplices].copy()
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    turned = np.einsum("ti,ti->t", normals, hull.equations[:, :3]) < 0.0
    corners[turned] = corners[turned][:, [0, 2, 1]]
    kept = np.linalg.norm(normals, axis=1) > 0.0
    equations = np.unique(hull.equations.round(12), axis=0)
    return corners[kept], np.column_stack((equations[:, :3], -equations[:, 3]))


def _is_closed(mesh: TriangleMesh) -> bool:
    """Return whether each edge is used once in each of its two directions.

    Coincident corners are merged, because files often repeat them for each triangle.
    """
    _, index = np.unique(mesh.vertices.round(9), axis=0, return_inverse=True)
    faces = index.reshape(-1)[mesh.triangles]
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    forward, counts = np.unique(edges, axis=0, return_counts=True)
    backward = np.unique(edges[:, ::-1], axis=0)
    return bool((counts == 1).all() and np.array_equal(forward, backward))


def signed_distance(solid: Solid, points: Array) -> tuple[Array, Array]:
    """Return the signed distances of points to the surface of a solid, and their gradients.

    Args:
        solid: a shape.
        points: in the shape's frame [m], shape (m, 3).

    Returns:
        Distances, negative inside [m], shape (m,); unit vectors along which they increase, shape
        (m, 3). NaN for a point that is not finite.
    """
    if isinstance(solid, TriangleMesh):
        return mesh_distance(solid, points)
    if isinstance(solid, Voxels):
        return box_distance(solid.boxes, points)
    kind = type_of(solid)
    sizes = kind.padded_sizes(solid)
    found = shapes.signed_distance(NUMPY, kind.shape, list(points.T), sizes)
    direction = np.empty((len(points), 3))
    for k in range(3):
        direction[:, k] = found.direction[k]
    return np.asarray(found.value - kind.rounding(solid)), direction
