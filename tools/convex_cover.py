# SPDX-License-Identifier: Apache-2.0
"""Convex covers of a link's mesh with few pieces, and a verified bound of their excess.

Each piece is a polytope bounded by support planes of its part of the mesh, so it contains it by
construction. Physics engines and collision libraries handle such pieces fast and robustly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.link_geometry import dense_points
from motion_nodes.core.scene.mesh_distance import mesh_distance
from motion_nodes.core.scene.shapes import TriangleMesh, convex_hull, triangle_mesh
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.typing import Array

MARGIN = 4e-5
"""Outward offset of support planes [m], a margin for rounded vertices."""
_DECIMALS = 5  # of vertices in metres
_MAX_PLANES = 400
_CUTS = np.linspace(0.1, 0.9, 17)
"""Positions of cuts along an axis, as fractions of the extent."""
_GAIN = 0.04
"""Min relative reduction of volume by a cut."""
MESHES = "meshes"
"""Folder of a robot's mesh files, beside its URDF."""


@dataclass(frozen=True, eq=False)
class ConvexPiece:
    """A convex polytope."""

    planes: Array
    """Outward unit normal and offset of each face, n x <= d, shape (f, 4)."""
    vertices: Array
    """[m], rounded to 0.01 mm, shape (v, 3)."""
    triangles: NDArray[np.intp]
    """Vertex indices of triangles, counter-clockwise from outside, shape (t, 3)."""
    excess: float
    """Max excess beyond the convex hull of its contents [m]."""

    @property
    def mesh(self) -> TriangleMesh:
        """The piece as a convex solid."""
        return triangle_mesh(self.vertices, self.triangles, convex=True)


def convex_pieces(corners: Array, tolerance: float, max_pieces: int = 1) -> list[ConvexPiece]:
    """Return convex pieces that together contain a mesh.

    The mesh is cut repeatedly where the cut reduces the volume of the convex hulls most; each part
    gets a piece (:func:`bounding_polytope`). A convex mesh is not cut.

    Args:
        corners: triangles of the mesh [m], shape (t, 3, 3); it need not be closed.
        tolerance: max excess of a piece beyond the convex hull of its part [m].
        max_pieces: 1 for the bounding polytope of the whole.

    Raises:
        InvalidConfig: a tolerance that is not above 0, or less than one piece.
        InvalidDescription: no triangles, or a flat mesh.
    """
    if max_pieces < 1:
        raise InvalidConfig(
            f"max_pieces is {max_pieces}; it must be 1 or more.", field="max_pieces"
        )
    parts = [np.asarray(corners, dtype=np.float64)]
    finished: list[Array] = []
    while parts and len(parts) + len(finished) < max_pieces:
        volumes = [_hull_volume(part) for part in parts]
        part = parts.pop(int(np.argmax(volumes)))
        halves = _best_cut(part)
        if halves is None:
            finished.append(part)
        else:
            parts += halves
    return [bounding_polytope(part.reshape(-1, 3), tolerance) for part in parts + finished]


def bounding_polytope(points: Array, tolerance: float) -> ConvexPiece:
    """Return a polytope with few faces that contains points and is close to their convex hull.

    It begins as a box. While a vertex is farther from the hull than ``tolerance``, the support
    plane towards the farthest one is added: its normal is the direction from the closest point of
    the hull to that vertex. Then redundant planes are removed. The distance to a convex set is a
    convex function, so its maximum is at a vertex and ``excess`` is exact.

    Args:
        points: points to contain [m], shape (m, 3).
        tolerance: max excess of the polytope beyond their hull [m].

    Raises:
        InvalidConfig: a tolerance that is not above 0.
        InvalidDescription: the points are coplanar.
    """
    if not (math.isfinite(tolerance) and tolerance > MARGIN):
        raise InvalidConfig(
            f"tolerance is {tolerance} m; it must be above {MARGIN} m.", field="tolerance"
        )
    hull = _Hull(points)
    normals = np.concatenate((np.eye(3), -np.eye(3)))
    while True:
        excess, direction = hull.excess(normals)
        if excess <= tolerance or len(normals) >= _MAX_PLANES:
            break
        normals = np.vstack((normals, direction))
    return hull.piece(_without_needless(normals, hull, max(tolerance, excess)))


def reach_beyond(pieces: list[ConvexPiece], mesh: TriangleMesh, spacing: float = 0.004) -> float:
    """Return the max excess of pieces beyond a mesh [m], sampled on their surfaces.

    Args:
        pieces: pieces of the mesh.
        mesh: the mesh; distances to it are exact.
        spacing: spacing of the samples [m].
    """
    worst = 0.0
    for piece in pieces:
        points = dense_points(piece.vertices[piece.triangles], spacing)
        worst = max(worst, float(mesh_distance(mesh, points)[0].max()))
    return worst


def sticks_out(pieces: list[ConvexPiece], points: Array) -> float:
    """Return the max distance of points outside all pieces [m]; 0 if none is outside."""
    beyond = [(points @ p.planes[:, :3].T - p.planes[:, 3]).max(axis=1) for p in pieces]
    return max(0.0, float(np.min(beyond, axis=0).max()))


def write_obj(file: Path, piece: ConvexPiece, heading: str = "") -> None:
    """Write a piece as an OBJ file, vertices rounded to 0.01 mm.

    Args:
        file: path of the file.
        piece: the piece.
        heading: header, comment lines with ``#``.
    """
    lines = [f"v {x:.5f} {y:.5f} {z:.5f}" for x, y, z in piece.vertices + 0.0]
    lines += [f"f {a} {b} {c}" for a, b, c in piece.triangles + 1]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(heading + "\n".join(lines) + "\n")


class _Hull:
    """The convex hull of points, and the polytopes of support planes around it."""

    def __init__(self, points: Array) -> None:
        self.solid = triangle_mesh(_hull_points(points), [[0, 1, 2]], convex=True)
        self._centre = self.solid.vertices.mean(axis=0)
        self._known: dict[tuple[float, ...], Array] = {}

    def planes(self, normals: Array) -> Array:
        """Return the support planes for outward normals, shape (f, 4)."""
        support = (self.solid.vertices @ normals.T).max(axis=0)
        return np.column_stack((normals, support + MARGIN))

    def vertices(self, normals: Array) -> Array:
        """Return the vertices of the polytope bounded by these planes, shape (v, 3)."""
        from scipy.spatial import HalfspaceIntersection

        planes = self.planes(normals)
        rows = np.column_stack((planes[:, :3], -planes[:, 3]))
        found = HalfspaceIntersection(rows, self._centre).intersections
        return np.unique(found.round(7), axis=0)

    def excess(self, normals: Array) -> tuple[float, Array]:
        """Return the max excess of the polytope beyond the hull [m], and its direction."""
        # Most vertices are those of the previous polytope: distances are cached.
        keys = [tuple(vertex) for vertex in self.vertices(normals).tolist()]
        new = [key for key in keys if key not in self._known]
        if new:
            distance, direction = mesh_distance(self.solid, np.array(new))
            self._known.update(zip(new, np.column_stack((distance, direction)), strict=True))
        found = np.array([self._known[key] for key in keys])
        farthest = found[found[:, 0].argmax()]
        return float(farthest[0]), farthest[1:]

    def piece(self, normals: Array) -> ConvexPiece:
        """Return the polytope as a piece."""
        vertices = np.unique(self.vertices(normals).round(_DECIMALS), axis=0)
        vertices, triangles = convex_hull(vertices)
        excess = float(mesh_distance(self.solid, vertices)[0].max())
        return ConvexPiece(frozen(self.planes(normals)), frozen(vertices), triangles, excess)


def _without_needless(normals: Array, hull: _Hull, tolerance: float) -> Array:
    """Return the normals without redundant ones, the newest tried first."""
    kept = list(range(len(normals)))
    for k in reversed(range(len(normals))):
        fewer = [i for i in kept if i != k]
        # The polytope must stay bounded.
        if _bounded(normals[fewer]) and hull.excess(normals[fewer])[0] <= tolerance:
            kept = fewer
    return normals[kept]


def _bounded(normals: Array) -> bool:
    """Return whether half spaces with these outward normals can bound a region."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(normals)
    except QhullError:
        return False
    return bool((hull.equations[:, 3] < -1e-9).all())  # the origin is inside


def _hull_points(points: Array) -> Array:
    from scipy.spatial import ConvexHull, QhullError

    if not len(points):
        raise InvalidDescription("a mesh without triangles has no convex pieces.")
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except QhullError:
        raise InvalidDescription("the mesh is flat: it encloses no volume.") from None


def _hull_volume(part: Array) -> float:
    from scipy.spatial import ConvexHull, QhullError

    try:
        return float(ConvexHull(part.reshape(-1, 3)).volume)
    except QhullError:
        return 0.0


def _best_cut(part: Array) -> list[Array] | None:
    """Return the two halves with the min hull volume; None if no cut saves enough."""
    points = part.reshape(-1, 3)
    axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]
    whole = _hull_volume(part)
    best, least = None, (1.0 - _GAIN) * whole
    for axis in (*np.eye(3), *axes):
        along = points @ axis
        for offset in along.min() + _CUTS * np.ptp(along):
            halves = [_clipped(part, side * axis, side * offset) for side in (1.0, -1.0)]
            if not all(map(len, halves)):
                continue
            volume = sum(map(_hull_volume, halves))
            if volume < least:
                best, least = halves, volume
    return best


def _clipped(part: Array, normal: Array, offset: float) -> Array:
    """Return the part of triangles with ``normal x <= offset``, as triangles, shape (t, 3, 3)."""
    height = part @ normal - offset
    below = height <= 0.0
    crossed = below.any(axis=1) & ~below.all(axis=1)
    pieces = [part[below.all(axis=1)]]
    for corners, h in zip(part[crossed], height[crossed], strict=True):
        polygon = []
        for k in range(3):
            a, b, h_a, h_b = corners[k - 1], corners[k], h[k - 1], h[k]
            if (h_a <= 0.0) != (h_b <= 0.0):
                polygon.append(a + h_a / (h_a - h_b) * (b - a))
            if h_b <= 0.0:
                polygon.append(b)
        fan = [polygon[:3]] if len(polygon) == 3 else [polygon[:3], [polygon[0], *polygon[2:]]]
        pieces.append(np.array(fan))
    return np.concatenate(pieces)


def write_pieces(
    folder: Path, link: str, pieces: Sequence[ConvexPiece], heading: str = ""
) -> list[str]:
    """Write the pieces of a link, one OBJ file each.

    Args:
        folder: folder of the robot.
        link: prefix of the file names.
        pieces: convex pieces in the link's frame.
        heading: header of each file, comment lines with ``#``.

    Returns:
        The mesh file names for a URDF in that folder.
    """
    names = [link] if len(pieces) == 1 else [f"{link}_{k}" for k in range(len(pieces))]
    for name, piece in zip(names, pieces, strict=True):
        write_obj(folder / MESHES / f"{name}.obj", piece, heading)
    return [f"{MESHES}/{name}.obj" for name in names]


def with_collision_meshes(urdf: str, link: str, files: Sequence[str]) -> str:
    """Return a URDF's text with the collision geometry of a link replaced by meshes.

    Everything else is unchanged, including comments and whitespace.

    Args:
        urdf: the text.
        link: link whose collision elements are replaced.
        files: mesh file names for the URDF.

    Raises:
        InvalidDescription: there is no such link, or it is empty.
    """
    found = re.search(rf'<link\s+name="{re.escape(link)}"\s*>.*?</link>', urdf, re.DOTALL)
    if found is None:
        raise InvalidDescription(f"the URDF has no link '{link}' with elements in it.")
    body = re.sub(r"\s*<collision\b.*?</collision>", "", found.group(), flags=re.DOTALL)
    lines = "".join(
        f'    <collision><geometry><mesh filename="{file}"/></geometry></collision>\n'
        for file in files
    )
    head, _, _ = body.rpartition("</link>")
    head = head.rstrip() + "\n"
    return urdf[: found.start()] + head + lines + "  </link>" + urdf[found.end() :]
