# SPDX-License-Identifier: Apache-2.0
"""Solids as convex pieces, for exact distances.

Every primitive and every convex mesh is one piece. A non-convex mesh in the world consists of its
triangles, and, if closed, of boxes that fill its inside; if it moves with a robot it is decomposed
into convex pieces that contain it (:mod:`motion_nodes.core.scene.convex_decomposition`).
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.collision_arrays import filling_boxes
from motion_nodes.core.scene.convex_decomposition import convex_parts, solid_corners
from motion_nodes.core.scene.mesh_distance import surface_of
from motion_nodes.core.scene.shapes import Capsule, Cone, HalfSpace, Solid, TriangleMesh, type_of
from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.kernels.collision.piece_arrays import (
    BOX,
    CONE,
    CYLINDER,
    HALF_SPACE,
    POINTS,
    Pieces,
)
from motion_nodes.typing import Array

_KNOWN = (Sphere, Capsule, Box, HalfSpace, Cylinder, Cone)


def pieces_of(solids: Sequence[Solid], moving: bool = False) -> tuple[Pieces, NDArray[np.intp]]:
    """Return the pieces of solids, each in its solid's frame, and the solid of each piece.

    Args:
        solids: any shapes.
        moving: whether they belong to a robot or are attached; meshes are then decomposed into
            convex pieces.
    """
    rows: list[tuple[float, ...]] = []
    heights: list[float] = []
    firsts, owners = [0], []
    meshes: list[Pieces] = []
    mesh_owners: list[NDArray[np.intp]] = []
    for number, solid in enumerate(solids):
        if isinstance(solid, TriangleMesh):
            meshes.append(_mesh(solid, moving))
            mesh_owners.append(np.full(len(meshes[-1].kind), number))
            continue
        if isinstance(solid, Voxels):
            meshes.append(_boxes(solid.boxes))
            mesh_owners.append(np.full(len(solid.boxes), number))
            continue
        hulls = None if isinstance(solid, _KNOWN) else type_of(solid).hulls
        if hulls is not None:
            points, radii = zip(*hulls(solid), strict=True)
            meshes.append(_hulls([np.asarray(p, float) for p in points], np.array(radii)))
            mesh_owners.append(np.full(len(points), number))
            continue
        row, ends = _primitive(solid)
        rows.append(row)
        heights += ends
        owners.append(number)
        firsts.append(len(heights))
    table = np.array(rows, np.float64).reshape(-1, 6)
    points = np.zeros((len(heights), 3))
    points[:, 2] = heights
    X = _at(np.zeros((len(rows), 3)))
    kind = table[:, 0].astype(np.int32)
    simple = Pieces(kind, table[:, 1:5], X, table[:, 5], np.array(firsts, np.int32), points)
    return joined([simple, *meshes]), np.concatenate([np.array(owners, np.intp), *mesh_owners])


def sphere_pieces(spheres: Array) -> Pieces:
    """Return spheres as pieces; rows of centre and radius, shape (s, 4)."""
    return _hulls([row[None, :3] for row in spheres], spheres[:, 3])


def _primitive(solid: Solid) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return kind, sizes, radius and reach of a core, and the heights of its points."""
    if isinstance(solid, Sphere):
        return (POINTS, 0.0, 0.0, 0.0, solid.radius, solid.radius), (0.0,)
    if isinstance(solid, Capsule):
        half = 0.5 * solid.length
        return (POINTS, 0.0, 0.0, 0.0, solid.radius, half + solid.radius), (half, -half)
    if isinstance(solid, Box):
        x, y, z = (0.5 * edge for edge in solid.size)
        return (BOX, x, y, z, 0.0, math.sqrt(x * x + y * y + z * z)), ()
    if isinstance(solid, HalfSpace):
        return (HALF_SPACE, 0.0, 0.0, 0.0, 0.0, math.inf), ()
    assert isinstance(solid, Cylinder | Cone)
    kind, height = (CYLINDER, solid.length) if isinstance(solid, Cylinder) else (CONE, solid.height)
    half = 0.5 * height
    return (kind, solid.radius, half, 0.0, 0.0, math.hypot(solid.radius, half)), ()


def _mesh(mesh: TriangleMesh, moving: bool) -> Pieces:
    """Return a mesh as pieces (cached)."""
    known = _known[moving].get(mesh)
    if known is None:
        if mesh.convex:
            known = _hulls([solid_corners(mesh)])
        elif moving:
            known = _hulls(convex_parts(mesh))
        else:
            known = _surface(mesh)
        _known[moving][mesh] = known
    return known


_known: tuple[weakref.WeakKeyDictionary[TriangleMesh, Pieces], ...] = tuple(
    weakref.WeakKeyDictionary() for _ in range(2)
)


def _surface(mesh: TriangleMesh) -> Pieces:
    surface = surface_of(mesh)
    return joined([_hulls(list(surface.corners)), _boxes(filling_boxes(surface))])


def _boxes(boxes: Array) -> Pieces:
    """Return boxes as pieces; min and max corners [m], shape (b, 2, 3)."""
    size = np.zeros((len(boxes), 4))
    size[:, :3] = 0.5 * (boxes[:, 1] - boxes[:, 0])
    return Pieces(
        np.full(len(boxes), BOX, np.int32),
        size,
        _at(0.5 * (boxes[:, 0] + boxes[:, 1])),
        np.linalg.norm(size, axis=1),
        np.zeros(len(boxes) + 1, np.int32),
        np.empty((0, 3)),
    )


def _hulls(cores: Sequence[Array], radius: ArrayLike = 0.0) -> Pieces:
    """Return rounded hulls of points, each in a frame at the middle of its points."""
    lengths = [len(core) for core in cores]
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    points = np.concatenate(cores)
    low, high = (f.reduceat(points, first[:-1]) for f in (np.minimum, np.maximum))
    middles = 0.5 * (low + high)
    points = points - np.repeat(middles, lengths, axis=0)
    size = np.zeros((len(cores), 4))
    size[:, 3] = radius
    reach = np.sqrt(np.maximum.reduceat((points**2).sum(axis=1), first[:-1])) + size[:, 3]
    kind = np.full(len(cores), POINTS, np.int32)
    return Pieces(kind, size, _at(middles), reach, first, points)


def _at(places: Array) -> Array:
    X = np.zeros((len(places), 3, 4))
    X[:, :, :3] = np.eye(3)
    X[:, :, 3] = places
    return X


def joined(parts: Sequence[Pieces]) -> Pieces:
    """Return the pieces of several parts, at least one."""
    if len(parts) == 1:
        return parts[0]
    counts = np.cumsum([0, *(len(part.points) for part in parts)])
    firsts = [part.first[:-1] + start for part, start in zip(parts, counts[:-1], strict=True)]
    stacked = (np.concatenate([part[k] for part in parts]) for k in range(4))
    first = np.concatenate([*firsts, counts[-1:]]).astype(np.int32)
    return Pieces._make([*stacked, first, np.concatenate([part.points for part in parts])])


def placed(pieces: Pieces, X: Array) -> Pieces:
    """Return pieces in another frame.

    Args:
        pieces: in their own frames.
        X: pose of these frames in the other frame, shape (4, 4), or of each one, shape (k, 4, 4).
    """
    moved = X[..., :3, :3] @ pieces.X
    moved[:, :, 3] += X[..., :3, 3]
    return pieces._replace(X=moved)


def chosen(pieces: Pieces, order: NDArray[np.intp]) -> Pieces:
    """Return a selection of pieces, by index."""
    lengths = np.diff(pieces.first)[order]
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    rows = np.repeat(pieces.first[:-1][order] - first[:-1], lengths) + np.arange(first[-1])
    some = (np.ascontiguousarray(array[order]) for array in pieces[:4])
    return Pieces._make([*some, first, np.ascontiguousarray(pieces.points[rows])])


def padded(pieces: Pieces, distance: float) -> Pieces:
    """Return pieces whose surfaces are moved outwards by a distance [m]."""
    if distance == 0.0:
        return pieces
    size = pieces.size.copy()
    size[:, 3] += distance
    return pieces._replace(size=size, reach=pieces.reach + distance)


def shrunk(pieces: Pieces, depth: float) -> Pieces:
    """Return pieces whose surfaces are moved inwards by at most ``depth`` [m].

    A contact with a piece but not with its reduced copy penetrates by less than ``depth``.
    """
    size, points = pieces.size.copy(), pieces.points
    # Rounded pieces lose radius; hulls of points are scaled about their middle.
    size[:, 3] = np.maximum(size[:, 3] - depth, 0.0)
    cores = pieces.kind != POINTS
    size[cores, :3] = np.maximum(size[cores, :3] - depth / math.sqrt(3.0), 0.0)
    bare = (pieces.kind == POINTS) & (pieces.size[:, 3] == 0.0)
    scale = np.where(bare, 1.0 - np.minimum(depth / np.maximum(pieces.reach, 1e-12), 1.0), 1.0)
    scaled = points * np.repeat(scale, np.diff(pieces.first))[:, None]
    return pieces._replace(size=size, points=scaled)


def boxes_around(pieces: Pieces) -> Array:
    """Return the axis-aligned box of each piece: min and max x y z [m], shape (k, 6)."""
    # Imported on demand: Numba takes a quarter of a second to import.
    from motion_nodes.kernels.collision.path_sweep import piece_boxes

    boxes = np.empty((len(pieces.kind), 6))
    kind, size, X, _, first, points = map(np.ascontiguousarray, pieces)  # one type, compiled once
    piece_boxes(kind, size, X, first, points, boxes)
    return boxes
