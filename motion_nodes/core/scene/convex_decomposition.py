# SPDX-License-Identifier: Apache-2.0
"""Convex hulls that contain a mesh: one for a convex mesh, several for any other.

Each connected part of a mesh is cut by axis-aligned planes; each piece's hull contains its part of
the solid, because the corners of cut faces are on the surface. The piece with the max excess is cut
first, where the hulls of both halves are smallest, until the excess is below a tolerance or the max
number of hulls is reached.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.scene.mesh_cache import entry_of, stored_arrays
from motion_nodes.core.scene.shapes import TriangleMesh
from motion_nodes.core.scene.triangle_surfaces import WindingNumber, nearest_on_triangles
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

TOLERANCE = 2e-3
"""Max excess of hulls beyond the surface [m]."""
PARTS = 32
"""Max number of hulls per mesh."""
_SAMPLES = 4000
"""Number of surface samples for distances."""
_NEAREST = 6
"""Number of samples whose triangles are compared."""
_TOGETHER = 32
"""Number of points per batch whose exact distances are computed."""
_RELATIVE = 0.01
"""Tolerance of the excess relative to the size of a mesh; the greater tolerance applies."""
_SHARES = (0.25, 0.5, 0.75)
"""Fractions at which a part may be cut along each axis."""
_VOLUME_POINTS = 400
"""Max number of points by which cuts are compared."""
_MOST_COMPARED = 2_000_000
"""Max product of the numbers of corners and triangles of a mesh that is tested for convexity."""
_MOST_REPEATED = 50_000
"""Max product of the same numbers up to which results are computed anew, in less than 1 ms."""
_FLAT = 1e-6
"""Max height of corners above a face of a convex mesh, relative to its size."""
_THIN = 1e-9
"""Thinner parts are dropped [m]."""


class _Part(NamedTuple):
    triangles: Array
    """Shape (t, 3, 3)."""
    cell: Array
    """Planes of previous cuts: min and max, shape (2, 3); infinite without a cut."""


def hull_corners(points: Array) -> Array:
    """Return the corners of the convex hull [m], (k, 3); all points if they are coplanar."""
    # Imported on demand: the import takes almost 1 s, and many robots have no mesh.
    from scipy.spatial import ConvexHull, QhullError

    different = np.unique(points, axis=0)
    try:
        return np.asarray(different[ConvexHull(different).vertices])
    except (QhullError, ValueError):
        return different


def solid_corners(mesh: TriangleMesh) -> Array:
    """Return points whose convex hull is that of a mesh [m], shape (k, 3), few or no others."""
    if not _is_large(mesh):
        return _solid_corners(mesh)
    return stored_arrays(entry_of("corners", mesh, __file__), lambda: [_solid_corners(mesh)])[0]


def _solid_corners(mesh: TriangleMesh) -> Array:
    if is_convex(mesh):
        return np.unique(mesh.vertices[mesh.triangles.ravel()], axis=0)
    return hull_corners(mesh.vertices)


def is_convex(mesh: TriangleMesh) -> bool:
    """Return whether a mesh is closed and has no corner outside any of its faces.

    False for a mesh with more than ``_MOST_COMPARED`` corners times triangles.
    """
    count = len(mesh.triangles)
    if len(mesh.vertices) * count > _MOST_COMPARED:
        return False
    corners, same = np.unique(mesh.vertices.round(9), axis=0, return_inverse=True)
    faces = same.reshape(-1)[mesh.triangles]
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    if (np.unique(edges, axis=0, return_counts=True)[1] != 2).any():
        return False
    a, b, c = (corners[faces[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    lengths = np.linalg.norm(normals, axis=1)
    flat = lengths <= 0.0  # degenerate triangles are ignored
    normals[~flat] /= lengths[~flat, None]
    heights = corners @ normals.T - np.einsum("ti,ti->t", a, normals)
    heights *= np.where(heights.mean(axis=0) > 0.0, -1.0, 1.0)
    return bool(heights[:, ~flat].max() <= _FLAT * float(np.ptp(corners, axis=0).max()))


def signed_volumes(triangles: Array) -> Array:
    """Return the volumes of tetrahedra of triangles and the origin.

    Their sum is the volume of the solid that the triangles enclose.

    Args:
        triangles: corners [m], shape (t, 3, 3).

    Returns:
        Volumes [m^3], shape (t,); positive if counterclockwise as seen from outside.
    """
    a, b, c = (triangles[:, k] for k in range(3))
    return np.asarray(np.einsum("ti,ti->t", a, np.cross(b, c)) / 6.0)


def fills_its_hull(mesh: TriangleMesh) -> bool:
    """Return whether a mesh encloses the volume of its convex hull (cached on disk if large)."""
    if not _is_large(mesh):
        return _fills_its_hull(mesh)
    key = entry_of("fills-hull", mesh, __file__)
    return bool(stored_arrays(key, lambda: [np.array([[_fills_its_hull(mesh)]])])[0][0, 0])


def _is_large(mesh: TriangleMesh) -> bool:
    return len(mesh.vertices) * len(mesh.triangles) > _MOST_REPEATED


def _fills_its_hull(mesh: TriangleMesh) -> bool:
    if is_convex(mesh):
        return True
    from scipy.spatial import ConvexHull, QhullError

    volume = abs(float(signed_volumes(mesh.vertices[mesh.triangles]).sum()))
    try:
        hull = float(ConvexHull(mesh.vertices).volume)
    except (QhullError, ValueError):
        return False
    return abs(volume - hull) < 1e-6 * hull


def convex_parts(
    mesh: TriangleMesh, tolerance: float = TOLERANCE, parts: int = PARTS
) -> list[Array]:
    """Return corners of convex hulls that together contain a mesh and its inside.

    The result is cached on disk, because large meshes take seconds.

    Args:
        mesh: the mesh; need not be closed.
        tolerance: desired max excess of hulls beyond the surface [m].
        parts: max number of hulls; if reached, the tolerance is exceeded.

    Returns:
        Corners [m], shape (c, 3) each.
    """
    key = parts_entry(mesh, tolerance, parts)
    return stored_arrays(key, lambda: _decomposed(mesh, tolerance, parts))


def parts_entry(mesh: TriangleMesh, tolerance: float = TOLERANCE, parts: int = PARTS) -> str:
    """Return the disk cache key of the convex parts of a mesh."""
    return entry_of("hulls", mesh, __file__, options=(tolerance, parts))


def _decomposed(mesh: TriangleMesh, tolerance: float, parts: int) -> list[Array]:
    triangles = mesh.vertices[mesh.triangles]
    surface = _MeasuredSurface(triangles)
    limit = max(tolerance, _RELATIVE * float(np.ptp(mesh.vertices, axis=0).max()))
    numbers = itertools.count()
    uncut = np.array([[-np.inf] * 3, [np.inf] * 3])
    wholes = (_Part(triangles[rows], uncut) for rows in _components(mesh, parts))
    heap = [(-_excess(whole, surface), next(numbers), whole) for whole in wholes]
    heapq.heapify(heap)
    while len(heap) < parts and -heap[0][0] > limit:
        worst = heapq.heappop(heap)
        halves = _halves(worst[2])
        if len(halves) < 2:
            heapq.heappush(heap, (0.0, *worst[1:]))
            continue
        for half in halves:
            heapq.heappush(heap, (-_excess(half, surface), next(numbers), half))
    return [hull_corners(part.triangles.reshape(-1, 3)) for _, _, part in heap]


def _components(mesh: TriangleMesh, most: int) -> list[NDArray[np.intp]]:
    """Return the triangles of each connected part of a mesh; of the whole if there are too many.

    Files connect triangles by shared corners, or repeat all corners for each triangle.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    same = np.unique(mesh.vertices.round(9), axis=0, return_inverse=True)[1].reshape(-1)
    for faces in (mesh.triangles, same[mesh.triangles]):
        a, b = faces[:, :2].reshape(-1), faces[:, 1:].reshape(-1)
        shape = (len(mesh.vertices), len(mesh.vertices))
        label = connected_components(coo_matrix((np.ones(len(a)), (a, b)), shape), directed=False)[
            1
        ]
        parts = np.unique(label[faces[:, 0]], return_inverse=True)[1].reshape(-1)
        count = int(parts.max()) + 1
        if count <= min(most, len(faces) // 4):
            return [np.flatnonzero(parts == k) for k in range(count)]
    return [np.arange(len(mesh.triangles))]


def _halves(part: _Part) -> list[_Part]:
    """Return the two parts of the best cut; one if it cannot be cut."""
    points = part.triangles.reshape(-1, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    longest = float((high - low).max())
    best, least = [part], np.inf
    for axis, share in itertools.product(range(3), _SHARES):
        if high[axis] - low[axis] < max(_THIN, 0.1 * longest):
            continue
        at = float(low[axis] + share * (high[axis] - low[axis]))
        halves = [
            _Part(_clipped(part.triangles, axis, at, side), _cell(part.cell, axis, at, side))
            for side in (1.0, -1.0)
        ]
        if any(not len(half.triangles) for half in halves):
            continue
        # Among equal cuts, the one that shortens the part most.
        size = sum(map(_volume, halves)) * (1.0 + 1e-3 * (share - 0.5) ** 2)
        size *= 1.0 - 1e-3 * (high[axis] - low[axis]) / longest
        if size < least:
            best, least = halves, size
    return best


def _cell(cell: Array, axis: int, at: float, side: float) -> Array:
    halved = cell.copy()
    halved[0 if side > 0.0 else 1, axis] = at
    return halved


def _clipped(triangles: Array, axis: int, at: float, side: float) -> Array:
    """Return triangles clipped by a plane."""
    heights = side * (triangles[:, :, axis] - at)
    # Triangles that only touch the plane belong to the other side, or share their edges.
    beyond = heights.max(axis=1) > _THIN
    triangles, heights = triangles[beyond], heights[beyond]
    inside = (heights >= 0.0).sum(axis=1)
    kept = [triangles[inside == 3]]
    for count in (1, 2):
        some, h = triangles[inside == count], heights[inside == count]
        # The corner that is alone on its side is first.
        alone = np.argmax((h >= 0.0) == (count == 1), axis=1)
        order = (alone[:, None] + np.arange(3)) % 3
        rows = np.arange(len(some))[:, None]
        some, h = some[rows, order], h[rows, order]
        a = some[:, 0]
        cuts = [a + (h[:, 0] / (h[:, 0] - h[:, k]))[:, None] * (some[:, k] - a) for k in (1, 2)]
        if count == 1:
            kept.append(np.stack([a, *cuts], axis=1))
        else:
            kept.append(np.stack([cuts[0], some[:, 1], some[:, 2]], axis=1))
            kept.append(np.stack([cuts[0], some[:, 2], cuts[1]], axis=1))
    return np.concatenate(kept)


def _volume(part: _Part) -> float:
    from scipy.spatial import ConvexHull, QhullError

    points = part.triangles.reshape(-1, 3)
    points = points[:: max(1, len(points) // _VOLUME_POINTS)]
    try:
        return float(ConvexHull(points).volume)
    except QhullError:
        return 0.0


def _excess(part: _Part, surface: _MeasuredSurface) -> float:
    """Return the excess of a part's hull beyond the surface, without cut faces [m]."""
    from scipy.spatial import ConvexHull, QhullError

    points = part.triangles.reshape(-1, 3)
    try:
        hull = ConvexHull(points)
    except QhullError:
        return 0.0
    corners = points[hull.simplices]
    weights = np.array(
        [[1, 1, 1], [4, 1, 1], [1, 4, 1], [1, 1, 4], [2, 2, 0], [2, 0, 2], [0, 2, 2]]
    )
    at = np.einsum("wk,tkj->twj", weights / weights.sum(axis=1, keepdims=True), corners)
    at = at.reshape(-1, 3)
    on_cut = (np.abs(at[:, None] - part.cell) < 1e-9).any(axis=(1, 2))
    if on_cut.all():
        return 0.0
    return surface.max_height(at[~on_cut])


class _MeasuredSurface:
    """Surface to which distances are measured."""

    def __init__(self, triangles: Array) -> None:
        from scipy.spatial import cKDTree

        self._triangles = triangles
        samples, self._owner = _samples(triangles)
        self._tree: cKDTree = cKDTree(samples)
        self._winding = WindingNumber(triangles)

    def max_height(self, points: Array) -> float:
        """Return the max distance of the points that are not inside the mesh [m].

        Distances are upper bounds, exact for most points.
        """
        bounds = self._tree.query(points)[0]
        order = np.argsort(-bounds)
        highest = 0.0
        for start in range(0, len(order), _TOGETHER):
            rows = order[start : start + _TOGETHER]
            if bounds[rows[0]] <= highest:
                break
            heights = self._distances(points[rows])
            above = heights > highest
            outside = ~self._winding.encloses(points[rows[above]])
            highest = float(heights[above][outside].max(initial=highest))
        return highest

    def _distances(self, points: Array) -> Array:
        near = self._tree.query(points, k=min(_NEAREST, self._tree.n))[1].reshape(len(points), -1)
        triangles = self._triangles[self._owner[near]]
        away = points[:, None] - nearest_on_triangles(triangles, points[:, None])
        return np.asarray(np.sqrt((away**2).sum(axis=2)).min(axis=1))


def _samples(triangles: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return surface samples, and the triangle of each."""
    a, b, c = (triangles[:, k] for k in range(3))
    areas = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)
    spacing = float(np.sqrt(areas.sum() / _SAMPLES))
    edges = np.stack([np.linalg.norm(x - y, axis=1) for x, y in ((a, b), (b, c), (c, a))])
    counts = np.maximum(1, np.ceil(edges.max(axis=0) / spacing)).astype(int)
    points, owners = [], []
    for n in np.unique(counts):
        some = np.flatnonzero(counts == n)
        i, j = np.triu_indices(n + 1)
        weights = np.stack((i, j - i, n - j), axis=1) / n
        points.append(np.einsum("wk,tkj->twj", weights, triangles[some]).reshape(-1, 3))
        owners.append(np.repeat(some, len(weights)))
    return np.concatenate(points), np.concatenate(owners)
