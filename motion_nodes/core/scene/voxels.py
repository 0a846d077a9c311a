# SPDX-License-Identifier: Apache-2.0
"""Occupied voxels as a solid: an occupancy map of sensor data.

Collision checks use axis-aligned boxes that exactly cover the occupied voxels: neighbouring voxels
are merged, so a map of 15 000 voxels has about 2000 boxes.

Voxels are converted from and to OctoMap's serialized trees. Source of the formats: OctoMap 1.10,
``writeBinaryNode`` and ``writeNodesRecurs``. Both list the nodes in depth-first order. In the
binary format a node with children has two bytes, two bits for each child: 0 unknown, 1 free, 2
occupied, 3 with children. In the full format each node has its log-odds (float) and a byte with one
bit for each child.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

OCTOMAP = "<octomap>"
"""Name of the object of occupied voxels in a scene, as in MoveIt."""
MAX_VOXELS = 4_000_000
"""Max number of voxels of a solid."""
MAX_CELL = 1 << 20
"""Max absolute index of a voxel."""
DEPTH = 16
"""Levels of a tree below its root."""
HALF = 1 << (DEPTH - 1)
"""Key of the voxel that begins at the origin."""
OCCUPIED = 3.5
"""Log-odds written for occupied voxels: OctoMap's upper clamp."""
_FULL = np.dtype([("value", "<f4"), ("children", "u1")])
_NODES = 8_000_000
Keys = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Voxels:
    """Occupied cells of a grid; created by :func:`voxels`, which validates them."""

    resolution: float
    """Edge of a voxel [m]."""
    cells: NDArray[np.int32]
    """Index of each voxel, sorted, without duplicates, shape (k, 3), read-only; voxel i extends
    from ``i * resolution`` to ``(i + 1) * resolution``."""

    @functools.cached_property
    def boxes(self) -> Array:
        """Boxes that exactly cover the voxels: min and max corner [m], shape (b, 2, 3)."""
        return np.asarray(merged_boxes(self.cells).reshape(-1, 2, 3) * self.resolution, np.float64)

    def equals(self, other: Voxels) -> bool:
        """Return whether both occupy the same voxels."""
        return self.resolution == other.resolution and np.array_equal(self.cells, other.cells)

    def coarser(self, factor: int) -> Voxels:
        """Return coarser voxels that contain these."""
        return voxels(self.resolution * factor, np.floor_divide(self.cells, factor))


def voxels(resolution: float, cells: ArrayLike) -> Voxels:
    """Return validated voxels; duplicates are dropped.

    Args:
        resolution: edge of a voxel [m].
        cells: indices of the occupied voxels, shape (k, 3).

    Raises:
        InvalidCommand: no voxels, too many, indices out of range, or an invalid resolution.
    """
    if not (np.isfinite(resolution) and 1e-4 <= resolution <= 100.0):
        raise InvalidCommand(f"voxels have a resolution of {resolution} m; allowed: 1e-4 to 100.")
    given = np.asarray(cells, dtype=np.int64).reshape(-1, 3)
    if not 0 < len(given) <= MAX_VOXELS:
        raise InvalidCommand(f"{len(given)} voxels are given; allowed are 1 to {MAX_VOXELS}.")
    if np.abs(given).max() >= MAX_CELL:
        raise InvalidCommand(f"indices of voxels must be within +-{MAX_CELL}.")
    shifted = given + MAX_CELL
    key = np.unique((shifted[:, 0] << 42) | (shifted[:, 1] << 21) | shifted[:, 2])
    columns = [(key >> shift) & (2 * MAX_CELL - 1) for shift in (42, 21, 0)]
    made = (np.column_stack(columns) - MAX_CELL).astype(np.int32)
    made.setflags(write=False)
    return Voxels(float(resolution), made)


def merged_boxes(cells: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return boxes of whole cells that cover exactly the given ones, without overlap.

    Runs along z are merged first, then equal runs along y, then equal plates along x.

    Args:
        cells: without duplicates, shape (k, 3).

    Returns:
        Min corner and end (exclusive) in cells, shape (b, 6).
    """
    boxes = np.concatenate([cells, cells + 1], axis=1)
    for axis in (2, 1, 0):
        across = [k for k in range(6) if k % 3 != axis]
        boxes = boxes[np.lexsort((boxes[:, axis], *(boxes[:, k] for k in across)))]
        joins = np.zeros(len(boxes), np.bool_)
        joins[1:] = boxes[1:, axis] == boxes[:-1, axis + 3]
        for k in across:
            joins[1:] &= boxes[1:, k] == boxes[:-1, k]
        first = np.flatnonzero(~joins)
        last = np.append(first[1:], len(boxes)) - 1
        ends = boxes[last, axis + 3]
        boxes = boxes[first]
        boxes[:, axis + 3] = ends
    return boxes


def box_distance(boxes: Array, points: Array) -> tuple[Array, Array]:
    """Return signed distances of points to the nearest of several boxes, and their gradients.

    Inside a box it is the distance to the surface of that box, a lower bound of the penetration
    depth of the union.

    Args:
        boxes: min and max corners [m], shape (b, 2, 3).
        points: shape (m, 3) [m].

    Returns:
        Distances, negative inside [m], shape (m,), and unit vectors, shape (m, 3).
    """
    middle, half = boxes.mean(axis=1), 0.5 * (boxes[:, 1] - boxes[:, 0])
    distance, direction = np.empty(len(points)), np.empty((len(points), 3))
    for row, point in enumerate(points):
        offset = point - middle
        beyond = np.abs(offset) - half
        outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
        signed = outside + np.minimum(beyond.max(axis=1), 0.0)
        if not np.isfinite(point).all():
            distance[row], direction[row] = np.nan, np.nan
            continue
        k = int(signed.argmin())
        distance[row] = signed[k]
        away = np.where(beyond[k] > 0.0, beyond[k], 0.0)
        if outside[k] == 0.0:
            away = np.eye(3)[int(beyond[k].argmax())]
        away = away * np.where(offset[k] < 0.0, -1.0, 1.0)
        direction[row] = away / np.linalg.norm(away)
    return distance, direction


def box_surface(boxes: Array) -> tuple[Array, NDArray[np.uint32]]:
    """Return the faces of boxes as triangles, for display.

    Args:
        boxes: min and max corners [m], shape (b, 2, 3).

    Returns:
        Vertices [m], shape (8 b, 3), and triangles, shape (12 b, 3).
    """
    corner = np.array([[(k >> axis) & 1 for axis in range(3)] for k in range(8)])
    vertices = np.stack([boxes[:, corner[:, a], a] for a in range(3)], axis=-1).reshape(-1, 3)
    faces = np.array(
        [(0, 2, 3), (0, 3, 1), (4, 5, 7), (4, 7, 6), (0, 1, 5), (0, 5, 4),
         (2, 6, 7), (2, 7, 3), (0, 4, 6), (0, 6, 2), (1, 3, 7), (1, 7, 5)]
    )  # fmt: skip
    first = 8 * np.arange(len(boxes))[:, None, None]
    return vertices, (first + faces).reshape(-1, 3).astype(np.uint32)


def moved(solid: Voxels, X_WO: Array) -> Voxels:
    """Return voxels in another frame; turned ones are those that contain the centres.

    Args:
        solid: the voxels.
        X_WO: their pose in that frame, shape (4, 4).
    """
    if np.array_equal(X_WO, np.eye(4)):
        return solid
    centres = (solid.cells + 0.5) * solid.resolution @ X_WO[:3, :3].T + X_WO[:3, 3]
    return voxels(solid.resolution, np.floor(centres / solid.resolution + 1e-9).astype(np.int64))


def encode(solid: Voxels, binary: bool = True) -> bytes:
    """Return voxels as the data of an octomap message.

    Args:
        solid: the occupied voxels; all other space is unknown.
        binary: True: binary format; False: full format.

    Raises:
        InvalidCommand: a voxel is beyond the range of an octree.
    """
    keys = solid.cells.astype(np.int64) + HALF
    if keys.min() < 0 or keys.max() >= 2 * HALF:
        raise InvalidCommand(f"voxels of an octree must be within +-{HALF} of its origin.")
    levels = [np.unique(_interleaved(keys))]
    for _ in range(DEPTH):
        levels.insert(0, np.unique(levels[0] >> 3))
    rows = []
    for depth, nodes in enumerate(levels[:-1]):
        below = levels[depth + 1]
        of = np.searchsorted(nodes, below >> 3)
        mark = (2 if depth == DEPTH - 1 else 3) if binary else 1
        bits = mark << ((below & 7) * (2 if binary else 1))
        children = np.zeros(len(nodes), np.int64)
        np.add.at(children, of, bits)
        rows.append((nodes, depth, children))
    if not binary:
        rows.append((levels[-1], DEPTH, np.zeros(len(levels[-1]), np.int64)))
    places = np.concatenate([nodes << (3 * (DEPTH - depth)) for nodes, depth, _ in rows])
    depths = np.concatenate([np.full(len(nodes), depth) for nodes, depth, _ in rows])
    children = np.concatenate([found for _, _, found in rows])[np.lexsort((depths, places))]
    if binary:
        return children.astype("<u2").tobytes()
    table = np.zeros(len(children), _FULL)
    table["value"], table["children"] = OCCUPIED, children
    return table.tobytes()


def decode(data: bytes, resolution: float, binary: bool = True) -> Voxels | None:
    """Return the occupied voxels of an octomap message; None if there are none.

    Args:
        data: data of the message.
        resolution: edge of the smallest voxel [m].
        binary: True: binary format; False: full format.

    Raises:
        InvalidCommand: the data is not an octree, or has too many nodes or voxels.
    """
    size = 2 if binary else _FULL.itemsize
    if not data:
        return None
    if len(data) % size or len(data) > size * _NODES:
        raise InvalidCommand(f"{len(data)} bytes are not an octree: nodes have {size} bytes.")
    if binary:
        pairs = np.frombuffer(data, "<u2").astype(np.int64)
        marks = (pairs[:, None] >> (2 * np.arange(8))) & 3
        inner, full = marks == 3, marks == 2
    else:
        table = np.frombuffer(data, _FULL)
        inner = ((table["children"][:, None] >> np.arange(8)) & 1).astype(np.bool_)
        full = (table["value"] > 0.0) & (table["children"] == 0)
    leaves = _occupied(inner, full, binary)
    found = [(keys, DEPTH - depth) for depth, keys in enumerate(leaves) if len(keys)]
    total = sum(len(keys) << (3 * level) for keys, level in found)
    if total > MAX_VOXELS:
        raise InvalidCommand(f"a tree has {total} occupied voxels; allowed are {MAX_VOXELS}.")
    if not total:
        return None
    cells = [_split(keys, level) for keys, level in found]
    return voxels(resolution, _separated(np.concatenate(cells)) - HALF)


def _split(keys: Keys, level: int) -> Keys:
    """Return the smallest voxels of nodes ``level`` levels above them."""
    count = 1 << (3 * level)
    return (keys[:, None] * count + np.arange(count)).ravel()


def _occupied(inner: NDArray[np.bool_], full: NDArray[np.bool_], binary: bool) -> list[Keys]:
    """Return the keys of the occupied leaves of each depth.

    The first child of the node at place i is at i + 1, each other one where the previous one ends.
    With h the running sum of (children - 1), a node ends where h first falls below its own value.
    """
    count = len(inner)
    height = np.concatenate([[0], np.cumsum(inner.sum(axis=1) - 1)])
    if height[-1] != -1 or height[:-1].min() < 0:
        raise InvalidCommand("the data of an octomap is not an octree; check its field 'binary'.")
    by_height = np.sort(height * (count + 1) + np.arange(count + 1))
    leaves: list[Keys] = []
    places, keys = np.zeros(1, np.int64), np.zeros(1, np.int64)
    if not binary:
        leaves.append(keys[full[places]])
    else:
        leaves.append(np.empty(0, np.int64))
    for _ in range(DEPTH):
        here, next_places, next_keys, ends = inner[places], [], [], places + 1
        occupied = []
        for child in range(8):
            if binary:
                chosen = full[places, child]
                occupied.append(8 * keys[chosen] + child)
            chosen = here[:, child]
            next_places.append(ends[chosen])
            next_keys.append(8 * keys[chosen] + child)
            desired = (height[ends[chosen]] - 1) * (count + 1) + ends[chosen]
            at = np.minimum(np.searchsorted(by_height, desired), count)
            ends = ends.copy()
            ends[chosen] = by_height[at] - (height[ends[chosen]] - 1) * (count + 1)
        places, keys = np.concatenate(next_places), np.concatenate(next_keys)
        leaves.append(np.concatenate(occupied) if binary else keys[full[places]])
        if not len(places):
            return leaves
    if len(places) if binary else inner[places].any():
        raise InvalidCommand(f"an octomap has more than {DEPTH} levels.")
    return leaves


def _interleaved(keys: Keys) -> Keys:
    """Return the path from the root to each voxel: three bits x, y, z for each level."""
    path = np.zeros(len(keys), np.int64)
    for bit in range(DEPTH):
        for axis in range(3):
            path |= ((keys[:, axis] >> bit) & 1) << (3 * bit + axis)
    return path


def _separated(path: Keys) -> Keys:
    """Return the keys of paths, the inverse of :func:`_interleaved`, shape (k, 3)."""
    keys = np.zeros((len(path), 3), np.int64)
    for bit in range(DEPTH):
        for axis in range(3):
            keys[:, axis] |= ((path >> (3 * bit + axis)) & 1) << bit
    return keys
