# SPDX-License-Identifier: Apache-2.0
"""OctoMap's serialized trees, from and to voxels.

Source of the formats: OctoMap 1.10, ``writeBinaryNode`` and ``writeNodesRecurs``. Both list the
nodes in depth-first order. In the binary format a node with children has two bytes, two bits for
each child: 0 unknown, 1 free, 2 occupied, 3 with children. In the full format each node has its
log-odds (float) and a byte with one bit for each child.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidCommand
from motion_nodes.scene.voxels import MAX_VOXELS, Voxels, voxels

DEPTH = 16
"""Levels of a tree below its root."""
HALF = 1 << (DEPTH - 1)
"""Key of the voxel that begins at the origin."""
OCCUPIED = 3.5
"""Log-odds written for occupied voxels: OctoMap's upper clamp."""
_FULL = np.dtype([("value", "<f4"), ("children", "u1")])
_NODES = 8_000_000
Keys = NDArray[np.int64]


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
