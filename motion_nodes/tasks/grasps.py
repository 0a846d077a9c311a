# SPDX-License-Identifier: Apache-2.0
"""Grasps of objects by two parallel fingers, and poses to place them.

The grasp frame G has z along the approach and y along the closing direction of the fingers, its
origin between the finger tips.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.model.poses import rotation_about
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.tasks.antipodal import MARGIN, contact_pairs
from motion_nodes.tasks.world_state import ObjectState, half_extents
from motion_nodes.typing import Array

FINGER_DEPTH = 0.02
"""Depth of the grasp frame below the top of an object [m]; round objects are grasped at their
centre."""
HIGHER = (0.0, 0.004, 0.008)
"""Heights above that, for fingers that would touch the surface below [m]."""
RANK = 0.005
"""Min difference of scores of contact pairs of a mesh that changes their order [m]."""
GRID = 0.03
"""Spacing of candidate positions of places [m]."""
EDGE = 0.01
"""Min distance of an object from the edge of a surface and from others [m]."""


@dataclass(frozen=True, eq=False)
class GraspPose:
    """A grasp of an object."""

    X_WG: Array
    """Pose of the grasp frame in the world, shape (4, 4)."""
    width: float
    """Distance between the fingers in contact with the object [m]."""
    rank: int = 0
    """Grasps of a lower rank are tried first."""


def grasps_of(target: ObjectState, max_width: float) -> list[GraspPose]:
    """Return grasps from above, best first.

    Args:
        target: the object, resting on a horizontal surface.
        max_width: max distance of the fingers [m].

    Returns:
        Empty if no side fits between the fingers. Those of meshes are sampled.
    """
    lowest = _grasp_height(target)
    if target.mesh is not None:
        pairs = contact_pairs(target, target.mesh, max_width, lowest)
        return [
            GraspPose(_pose(pair.centre, sign * pair.closing), pair.width, int(pair.score / RANK))
            for pair in pairs
            for sign in (1.0, -1.0)
        ]
    return [
        GraspPose(_frame(target, approach, closing, lowest + higher), width)
        for higher in HIGHER
        for approach, closing, width in _directions(target)
        if width + MARGIN <= max_width and lowest + higher < target.top - 0.5 * FINGER_DEPTH
    ]


def _directions(target: ObjectState) -> Iterator[tuple[Array, Array, float]]:
    """Return approach, closing direction (in the world) and width."""
    down = np.array([0.0, 0.0, -1.0])
    shape, R = target.shape, target.X_WO[:3, :3]
    if isinstance(shape, Box):
        for i in range(3):
            side = R[:, i]
            if abs(side[2]) < 0.1:  # horizontal
                level = np.array([side[0], side[1], 0.0]) / np.hypot(side[0], side[1])
                for sign in (1.0, -1.0):
                    yield down, sign * level, float(shape.size[i])
        return
    width = 2.0 * float(shape.radius)
    if isinstance(shape, Cylinder) and not _stands(target):
        axis = R[:, 2] * [1.0, 1.0, 0.0]
        closing = np.cross(down, axis / np.linalg.norm(axis))
        for sign in (1.0, -1.0):
            yield down, sign * closing, width
        return
    for angle in np.linspace(0.0, np.pi, 8, endpoint=False):
        for sign in (1.0, -1.0):
            yield down, sign * np.array([np.cos(angle), np.sin(angle), 0.0]), width


def _grasp_height(target: ObjectState) -> float:
    shape = target.shape
    if isinstance(shape, Sphere) or (isinstance(shape, Cylinder) and not _stands(target)):
        return float(target.X_WO[2, 3])
    return max(target.top - FINGER_DEPTH, 0.5 * (target.top + target.bottom))


def _stands(target: ObjectState) -> bool:
    return abs(float(target.X_WO[2, 2])) > 0.95


def _frame(target: ObjectState, approach: Array, closing: Array, height: float) -> Array:
    X = np.eye(4)
    X[:3, 2], X[:3, 1] = approach, closing
    X[:3, 0] = np.cross(closing, approach)
    X[:2, 3], X[2, 3] = target.X_WO[:2, 3], height
    return X


def _pose(centre: Array, closing: Array) -> Array:
    X = np.eye(4)
    X[:3, 2], X[:3, 1], X[:3, 3] = (0.0, 0.0, -1.0), closing, centre
    X[:3, 0] = np.cross(closing, X[:3, 2])
    return X


def levelled(item: ObjectState) -> ObjectState:
    """Return an object rotated by the smallest angle with which it rests on a horizontal surface.

    One axis of a box is then vertical, that of a cylinder vertical or horizontal.
    """
    R = item.X_WO[:3, :3]
    k = int(np.argmax(np.abs(R[2]))) if isinstance(item.shape, Box) else 2
    axis = R[:, k]
    if isinstance(item.shape, Sphere):
        return item
    if isinstance(item.shape, Cylinder) and abs(axis[2]) < np.sqrt(0.5):
        level = axis * [1.0, 1.0, 0.0]
    else:
        level = np.array([0.0, 0.0, axis[2]])
    level = level / np.linalg.norm(level)
    across = np.cross(axis, level)
    sine = float(np.linalg.norm(across))
    X = np.array(item.X_WO)
    if sine > 1e-9:
        angle = np.arctan2(sine, float(axis @ level))
        X[:3, :3] = rotation_about(across / sine, np.array(angle)) @ R
    return replace(item, X_WO=X)


def places_on(
    surface: ObjectState, item: ObjectState, others: Mapping[str, ObjectState]
) -> list[Array]:
    """Return poses of an object that rests on another one, clear of the rest; central ones first.

    Args:
        surface: the object below; its top must be horizontal.
        item: the object; its orientation is kept, except for the smallest rotation that levels it.
        others: objects around; the surface and the item are ignored.

    Returns:
        Poses in the world, shape (4, 4) each; empty if there is no room.
    """
    if isinstance(surface.shape, Sphere):
        return []
    if isinstance(surface.shape, Cylinder) and not _stands(surface):
        return []
    item = levelled(item)
    up = int(np.argmax(np.abs(surface.X_WO[2, :3])))
    level = [k for k in range(3) if k != up]
    half, reach = half_extents(surface.shape)[level], _footprint(item)
    room = np.maximum(half - reach - EDGE, 0.0)
    if isinstance(surface.shape, Cylinder):
        room = room / np.sqrt(2.0)
    if (half + EDGE < 0.5 * reach).any():
        return []
    height = surface.top + 0.5 * (item.top - item.bottom)
    around = _solids(others, surface.name, item.name)
    found = []
    for u in _offsets(float(room[0])):
        for v in _offsets(float(room[1])):
            pose = np.array(item.X_WO)
            pose[:3, 3] = surface.X_WO[:3, 3] + surface.X_WO[:3, level] @ [u, v]
            pose[2, 3] = height
            if _clear(pose, reach, around, surface.top):
                found.append((float(np.hypot(u, v)), pose))
    return [pose for _, pose in sorted(found, key=lambda entry: entry[0])]


def places_at(
    point: Sequence[float], item: ObjectState, others: Mapping[str, ObjectState]
) -> list[Array]:
    """Return the pose of an object that rests at a point, clear of the rest.

    Args:
        point: x, y in the base frame, and the height of the surface [m]. Without a height: that of
            the highest object below, which must support the whole item; without one 0, the plane of
            the base.
        item: the object; see :func:`places_on`.
        others: objects around; the item is ignored.

    Returns:
        One pose, shape (4, 4), or none if there is no room.
    """
    item = levelled(item)
    reach, at = _footprint(item), np.array(point[:2])
    around = _solids(others, item.name)
    height = float(point[2]) if len(point) > 2 else 0.0
    if len(point) < 3:
        below = [other for other in around if _edge_distance(other, at) > -reach]
        carrier = max(below, key=lambda other: other.top, default=None)
        if carrier is not None:
            if _edge_distance(carrier, at) < reach:
                return []
            height = carrier.top
    pose = np.array(item.X_WO)
    pose[:2, 3], pose[2, 3] = at, height + 0.5 * (item.top - item.bottom)
    return [pose] if _clear(pose, reach, around, height) else []


def _solids(others: Mapping[str, ObjectState], *without: str) -> list[ObjectState]:
    """Return the parts of all objects but those of some names."""
    named = [other for name, other in others.items() if name not in without]
    return [solid for other in named for solid in other.solids]


def _clear(pose: Array, reach: float, around: Sequence[ObjectState], height: float) -> bool:
    """Return whether a cylinder of a radius [m] on a surface at a height is clear of the rest."""
    at = pose[:2, 3]
    return all(
        other.top <= height + 1e-3 or _edge_distance(other, at) < -reach - EDGE for other in around
    )


def _edge_distance(other: ObjectState, at: Array) -> float:
    """Return the distance of a point from the edge of an object seen from above, > 0 inside [m].

    Tilted boxes count as their bounding boxes in the world; corners are counted by the nearer side.
    """
    half, R = half_extents(other.shape), other.X_WO[:3, :3]
    away = np.array([*(at - other.X_WO[:2, 3]), 0.0])
    up = int(np.argmax(np.abs(R[2])))
    if abs(R[2, up]) > 1.0 - 1e-6:  # upright: in its own frame
        level = [k for k in range(3) if k != up]
        return float((half - np.abs(R.T @ away))[level].min())
    return float((np.abs(R[:2]) @ half - np.abs(away[:2])).min())


def _offsets(room: float) -> Array:
    count = 2 * int(room / GRID) + 1
    return np.linspace(-room, room, count) if room > 0.0 else np.zeros(1)


def _footprint(item: ObjectState) -> float:
    """Return the radius of a vertical cylinder that contains an object."""
    return float(np.hypot(*(np.abs(item.X_WO[:2, :3]) @ half_extents(item.shape))))
