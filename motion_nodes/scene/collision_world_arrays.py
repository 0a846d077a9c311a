# SPDX-License-Identifier: Apache-2.0
"""Arrays of the world for the kernels: leaves in the robot's base frame, in spatial order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.collision.collision_memory import (
    ALIGNED_BOX,
    BOX,
    LEAF,
    PARAMETERS,
    PLANES,
)
from motion_nodes.scene.allowed_collisions import AllowedCollisions
from motion_nodes.scene.collision_leaves import Leaves, joined, leaves_of
from motion_nodes.scene.robot_spheres import CollisionBody
from motion_nodes.scene.scene import Part, Scene, WorldObject
from motion_nodes.scene.spatial_order import spatial_order
from motion_nodes.typing import Array

_SLACK = 1e-6  # margin of boxes around leaves for rounding in float32 [m]
Known = dict[int, tuple[tuple[Part, ...], Leaves]]
Fields = dict[str, int | NDArray[Any]]


@dataclass(frozen=True, eq=False)
class PackedWorld:
    """The part of a world within a robot's reach; the fields of ``collision_memory`` by name."""

    fields: Fields
    objects: tuple[WorldObject, ...]
    """The enabled objects, in the order of the rows of ``checked``."""
    known: Known
    """Cached leaves of the objects' parts."""


def pack_world(
    scene: Scene,
    bodies: tuple[CollisionBody, ...],
    X_BW: Array,
    reach: float,
    lanes: int,
    known: Known,
) -> PackedWorld:
    """Return the arrays of a world for the kernels.

    Args:
        scene: the world.
        bodies: bodies of the robot, in memory order.
        X_BW: pose of the world in the robot's base, shape (4, 4).
        reach: max distance of the robot from its base, including the clearance [m].
        lanes: number of leaves per SIMD register.
        known: cached leaves, by id of the parts.
    """
    objects = tuple(item for item in scene.objects.values() if item.enabled)
    used: Known = {}
    for item in objects:
        key = id(item.parts)
        used[key] = known.get(key) or (item.parts, leaves_of(item.parts))
    fields: Fields = {"checked": checked_matrix(scene.allowed, objects, bodies)}
    fields.update(
        _pack_leaves([used[id(o.parts)][1] for o in objects], objects, X_BW, reach, lanes)
    )
    return PackedWorld(fields, objects, used)


def checked_matrix(
    allowed: AllowedCollisions, objects: tuple[WorldObject, ...], bodies: tuple[CollisionBody, ...]
) -> NDArray[np.int8]:
    """Return which objects and bodies are checked, shape (objects, bodies)."""
    checked = np.ones((len(objects), len(bodies)), np.int8)
    rows, columns = _places(item.name for item in objects), _places(body.name for body in bodies)
    for name in allowed.defaults:
        pairs = [(name, other) for other in columns] if name in rows else []
        pairs += [(other, name) for other in rows] if name in columns else []
        for a, b in pairs:
            checked[np.ix_(rows[a], columns[b])] = not allowed.allows(a, b)
    for pair, allows in allowed.pairs.items():
        for a, b in (pair, pair[::-1]):
            if a in rows and b in columns:
                checked[np.ix_(rows[a], columns[b])] = not allows
    checked[:, [not body.in_world for body in bodies]] = 0
    return checked


def _places(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the indices of each name."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        places.setdefault(name, []).append(i)
    return places


def _pack_leaves(
    per_object: list[Leaves],
    objects: tuple[WorldObject, ...],
    X_BW: Array,
    reach: float,
    lanes: int,
) -> Fields:
    if not per_object:
        return _in_blocks(np.empty((0, LEAF), np.float32), np.empty((0, 2, 3)), lanes) | {
            "planes": np.empty((0, 4), np.float32)
        }
    counts = [len(leaves.kind) for leaves in per_object]
    owner = np.repeat(np.arange(len(objects)), counts)
    X_BO = X_BW @ np.stack([item.X_WO for item in objects])
    planes = _planes_in_base(per_object, X_BO)
    leaves = joined(per_object)
    X = X_BO[owner] @ leaves.X_OL
    boxes = _bounds(leaves, X)
    beside = np.maximum(np.maximum(boxes[:, 0], -boxes[:, 1]), 0.0)
    kept = np.flatnonzero(np.linalg.norm(beside, axis=1) <= reach)
    kept = kept[spatial_order(boxes[kept])]
    rows = _rows(leaves, X, owner)
    return _in_blocks(rows[kept], boxes[kept], lanes) | {"planes": planes}


def _planes_in_base(per_object: list[Leaves], X_BO: Array) -> NDArray[np.float32]:
    moved = []
    for leaves, X in zip(per_object, X_BO, strict=True):
        if len(leaves.planes):
            normals = leaves.planes[:, :3] @ X[:3, :3].T
            moved.append(np.column_stack((normals, leaves.planes[:, 3] + normals @ X[:3, 3])))
    return np.concatenate([np.empty((0, 4)), *moved]).astype(np.float32)


def _bounds(leaves: Leaves, X: Array) -> Array:
    """Return min and max corner of each leaf in the base [m], shape (k, 2, 3)."""
    R = X[:, :3, :3]
    middle = X[:, :3, 3] + np.einsum("kij,kj->ki", R, leaves.middle)
    half = np.einsum("kij,kj->ki", np.abs(R), leaves.half) + leaves.rounding[:, None]
    # A disc with normal z reaches r sqrt(1 - z_i^2) along axis i.
    half += leaves.disc[:, None] * np.sqrt(np.maximum(0.0, 1.0 - R[:, :, 2] ** 2))
    half += _SLACK
    return np.stack((middle - half, middle + half), axis=1)


def _rows(leaves: Leaves, X: Array, owner: NDArray[np.intp]) -> NDArray[np.float32]:
    kind, size = leaves.kind.astype(np.int32), leaves.size
    R = X[:, :3, :3]
    # Each row of a rotation by multiples of 90 degrees has one entry of +-1.
    straight = (np.abs(R).max(axis=2) > 1.0 - 1e-12).all(axis=1) & (kind == BOX)
    kind = np.where(straight, ALIGNED_BOX, kind)
    size = np.where(straight[:, None], np.einsum("kij,kj->ki", np.abs(R), size), size)
    unturned = straight[:, None, None] | (kind == 0)[:, None, None]
    inverse = np.where(unturned, np.eye(3), R.transpose(0, 2, 1))
    rows = np.zeros((len(kind), LEAF), np.float32)
    whole = rows.view(np.int32)
    whole[:, 0], whole[:, 1] = kind, owner
    numbers = rows[:, 4:]
    numbers[:, :9] = inverse.reshape(-1, 9)
    numbers[:, 9:12] = -np.einsum("kij,kj->ki", inverse, X[:, :3, 3])
    at = PARAMETERS["size"]
    numbers[:, at : at + 3] = size
    faces = kind == PLANES
    whole[faces, 4 + at : 4 + at + 2] = size[faces, :2].astype(np.int32)
    return rows


def _in_blocks(rows: NDArray[np.float32], boxes: Array, lanes: int) -> Fields:
    """Return leaves in blocks of ``lanes`` (one register), and blocks in branches of ``lanes``."""
    branches = -(-len(rows) // (lanes * lanes))
    blocks = branches * lanes
    leaves = np.zeros((blocks * lanes, LEAF), np.float32)
    leaves[: len(rows)] = rows
    # An inverted box overlaps nothing.
    padded = np.empty((blocks * lanes, 2, 3))
    padded[:, 0], padded[:, 1] = np.inf, -np.inf
    padded[: len(boxes)] = boxes
    block_boxes = padded.reshape(blocks, lanes, 2, 3)
    around = (
        np.stack((block_boxes[:, :, 0].min(axis=1), block_boxes[:, :, 1].max(axis=1)), axis=1)
        if blocks
        else np.empty((0, 2, 3))
    )
    return {
        "leaf_count": len(rows),
        "branches": branches,
        "branch_boxes": _lanes_last(around.reshape(branches, lanes, 2, 3)),
        "block_boxes": _lanes_last(block_boxes),
        "leaves": leaves,
    }


def _lanes_last(boxes: Array) -> NDArray[np.float32]:
    return np.ascontiguousarray(boxes.transpose(0, 2, 3, 1), np.float32)
