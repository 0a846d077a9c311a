# SPDX-License-Identifier: Apache-2.0
"""Poses of skills: grasps of objects and handles, strokes over surfaces, places of a mobile base.

The grasp frame G has z along the approach and y along the closing direction of the fingers, its
origin between the finger tips.

Triangle meshes are grasped by antipodal sampling. A line through a sampled point crosses the
surface in pairs of contacts. A pair is a grasp from above if the line is within the friction cones
of both contacts, the fingers open wide enough, and both have room beside the object and above it
(cf. Murray, Li, Sastry 1994, theorem 5.7: with soft fingers, such pairs close the force).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.poses import rotation_about
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.tasks.world_state import ObjectState, SurfaceMesh, half_extents
from motion_nodes.typing import Array

SAMPLES = 300
"""Number of sampled points."""
MAX_CANDIDATES = 40
"""Max number of grasps."""
FRICTION = 0.4
"""Coefficient of friction between fingers and objects, on the low side."""
THICKNESS, HALF_WIDTH = 0.012, 0.008
"""Clearance of a finger: outwards from its contact, and half of it across [m]."""
TIP = 0.008
"""Depth of the finger tips below the grasp frame [m]."""
LOWEST = 0.011
"""Min height of contacts above the lowest point, so that the finger tips (Franka: 9.6 mm deep) do
not touch what it stands on [m]."""
LENGTH = 0.04
"""Max depth of the grasp frame below the top between the fingers [m]."""
MARGIN = 0.006
"""Free space between an object and the open fingers, on both sides together [m]."""
_BLOCK = 2_000_000
"""Max number of pairs of rays and triangles that are computed at once."""
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
class ContactPair:
    """Two contacts with opposite forces."""

    centre: Array
    """Between them, in the world [m], shape (3,)."""
    closing: Array
    """Unit vector from the first to the second one, horizontal, shape (3,)."""
    width: float
    """Distance [m]."""
    score: float
    """Distance from the centre of mass, and half of that from the preferred height [m]; lower is
    better.
    """


def contact_pairs(
    target: ObjectState, mesh: SurfaceMesh, max_width: float, height: float
) -> list[ContactPair]:
    """Return pairs of contacts for grasps from above, best first.

    Args:
        target: the object.
        mesh: its surface in the frame of its shape, with outward normals.
        max_width: max distance of the fingers [m].
        height: preferred height of the contacts in the world [m].
    """
    V = mesh.vertices @ target.X_WO[:3, :3].T + target.X_WO[:3, 3]
    T = V[mesh.triangles]
    cross = np.cross(T[:, 1] - T[:, 0], T[:, 2] - T[:, 0])
    area = 0.5 * np.linalg.norm(cross, axis=1)
    T, cross, area = T[area > 1e-12], cross[area > 1e-12], area[area > 1e-12]
    if not len(T):
        return []
    normals = cross / (2.0 * area[:, None])
    points, axes = _lines(T, normals, area, np.random.default_rng(0))
    low, centre = float(V[:, 2].min()), _centre_of_mass(T)
    found, cone = [], 1.0 / np.hypot(1.0, FRICTION)
    for point, axis, (t, hit) in zip(points, axes, _crossings(T, points, axes), strict=True):
        cosine = normals[hit] @ axis
        entries, exits = np.flatnonzero(cosine <= -cone), np.flatnonzero(cosine >= cone)
        for i in entries:
            for j in exits[t[exits] > t[i] + 1e-4]:
                width = float(t[j] - t[i])
                if width + MARGIN > max_width or point[2] - LOWEST < low:
                    continue
                middle = point + 0.5 * (t[i] + t[j]) * axis
                away = float(np.linalg.norm(middle[:2] - centre[:2]))
                score = away + 0.5 * abs(float(point[2]) - height)
                found.append(ContactPair(middle, axis, width, score))
    found.sort(key=lambda pair: pair.score)
    chosen: list[ContactPair] = []
    for pair in found:
        if len(chosen) == MAX_CANDIDATES:
            break
        if _has_room(T, pair):
            chosen.append(pair)
    return chosen


def _lines(T: Array, normals: Array, area: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return points on the surface and horizontal directions into it, shape (n, 3) each."""
    k = rng.choice(len(T), SAMPLES, p=area / area.sum())
    a, b = np.sqrt(rng.random(SAMPLES)), rng.random(SAMPLES)
    points = np.einsum("nk,nkj->nj", np.column_stack((1.0 - a, a * (1.0 - b), a * b)), T[k])
    axes = -normals[k] * [1.0, 1.0, 0.0]
    length = np.linalg.norm(axes, axis=1)
    level = length >= 1.0 / np.hypot(1.0, FRICTION)
    return points[level], axes[level] / length[level, None]


def _crossings(T: Array, origins: Array, directions: Array) -> list[tuple[Array, NDArray[np.intp]]]:
    """Return for each line the signed distances of its crossings, and their triangles, sorted."""
    found = []
    e1, e2 = T[:, 1] - T[:, 0], T[:, 2] - T[:, 0]
    block = max(1, _BLOCK // len(T))
    for begin in range(0, len(origins), block):
        o, d = origins[begin : begin + block, None], directions[begin : begin + block, None]
        p = np.cross(d, e2[None])
        det = np.einsum("nmj,mj->nm", p, e1)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1.0 / det
            s = o - T[None, :, 0]
            u = np.einsum("nmj,nmj->nm", s, p) * inverse
            q = np.cross(s, e1[None])
            v = np.einsum("nmj,nmj->nm", q, np.broadcast_to(d, q.shape)) * inverse
            t = np.einsum("nmj,mj->nm", q, e2) * inverse
            inside = (np.abs(det) > 1e-14) & (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1.0 + 1e-9)
        for row in range(len(o)):
            hits = np.flatnonzero(inside[row])
            order = np.argsort(t[row, hits])
            found.append((t[row, hits][order], hits[order]))
    return found


def _has_room(T: Array, pair: ContactPair) -> bool:
    """Return whether open fingers reach both contacts from above, and the palm stays above."""
    across = np.array((-pair.closing[1], pair.closing[0], 0.0))
    away = 0.5 * (pair.width + MARGIN)
    outward = np.linspace(away, away + THICKNESS, 4)
    along = np.concatenate((outward, -outward))
    sides = np.linspace(-HALF_WIDTH, HALF_WIDTH, 3)
    fingers = pair.centre + (
        along[:, None, None] * pair.closing + sides[None, :, None] * across
    ).reshape(-1, 3)
    between = np.linspace(-away, away, 9)
    palm = pair.centre + (
        between[:, None, None] * pair.closing + sides[None, :, None] * across
    ).reshape(-1, 3)
    down = np.array((0.0, 0.0, -1.0))
    above = float(T[:, :, 2].max()) + 0.1
    points = np.concatenate((fingers, palm))
    floor = np.r_[np.full(len(fingers), -TIP), np.full(len(palm), LENGTH)] + pair.centre[2]
    points[:, 2] = above
    hits = _crossings(T, points, np.broadcast_to(down, points.shape))
    tops = np.array([above - t[0] if len(t) else -np.inf for t, _ in hits])
    return bool((tops < floor).all())


def _centre_of_mass(T: Array) -> Array:
    """Return the centre of mass of the solid inside a surface [m], shape (3,)."""
    volumes = np.einsum("mj,mj->m", T[:, 0], np.cross(T[:, 1], T[:, 2])) / 6.0
    total = float(volumes.sum())
    if abs(total) < 1e-9:
        return np.asarray(0.5 * (T.min(axis=(0, 1)) + T.max(axis=(0, 1))))
    return np.asarray((volumes[:, None] * T.sum(axis=1)).sum(axis=0) / (4.0 * total))


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


def blocks(other: ObjectState, placed: ObjectState) -> bool:
    """Return whether an object is where another one is to be put down.

    Args:
        other: the object.
        placed: the other one at its place.
    """
    return not _clear(placed.X_WO, _footprint(placed) - EDGE, other.solids, placed.bottom)


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


OVERLAP = 0.2
"""Overlap of neighbouring strokes, as a fraction of their width."""
SPACING = 0.03
"""Max distance between poses of a stroke [m]."""
MAX_POSES = 400
"""Max number of poses of all strokes; of larger surfaces, the part nearest to the base is wiped."""
_PLACE = re.compile(r"(?P<name>[^:=]+):=(?P<at>[^:=]+)")


def strokes_over(surface: ObjectState, item: ObjectState) -> list[list[Array]]:
    """Return parallel strokes of an object that wipes the top of another one.

    Args:
        surface: the object that is wiped, in the base frame: a box, or an upright cylinder.
        item: the object that wipes; its yaw is kept.

    Returns:
        Poses of the item in the world for each stroke, shape (4, 4) each, at most ``SPACING``
        apart; all strokes have the same direction, and its lowest point is on the top. Empty if
        there is no room.
    """
    if isinstance(surface.shape, Sphere):
        return []
    up = int(np.argmax(np.abs(surface.X_WO[2, :3])))
    if abs(surface.X_WO[2, up]) < 1.0 - 1e-3 or (isinstance(surface.shape, Cylinder) and up != 2):
        return []
    item = levelled(item)
    half = half_extents(surface.shape)
    along, across = sorted((k for k in range(3) if k != up), key=lambda k: -half[k])
    u, v = surface.X_WO[:3, along], surface.X_WO[:3, across]
    own = np.abs(item.X_WO[:3, :3].T @ np.column_stack((u, v))).T @ half_extents(item.shape)
    room = half[[along, across]] - own
    if room.min() < 0.0:
        # As wide as the surface: one stroke along its middle.
        room = np.maximum(room, 0.0)
    if room.max() <= 0.0:
        return []
    width = max(2.0 * float(own[1]) * (1.0 - OVERLAP), EDGE)
    home = -surface.X_WO[:3, 3]
    places = _nearest(_evenly(float(room[0]), SPACING), float(home @ u), MAX_POSES)
    count = max(1, MAX_POSES // len(places))
    lanes = _nearest(_evenly(float(room[1]), width), float(home @ v), count)
    height = surface.top + 0.5 * (item.top - item.bottom)
    found = []
    for y in lanes:
        stroke = []
        for x in places:
            if isinstance(surface.shape, Cylinder) and np.hypot(x, y) > max(room.max(), 1e-9):
                continue
            pose = np.array(item.X_WO)
            pose[:3, 3] = surface.X_WO[:3, 3] + x * u + y * v
            pose[2, 3] = height
            stroke.append(pose)
        if stroke:
            found.append(stroke)
    return found


def handle_grasps(handle: ObjectState, max_width: float) -> list[GraspPose]:
    """Return grasps of a handle from the side of the robot, best first.

    The fingers close across the handle; the approach is the opposite of the pull direction: the
    horizontal axis of the handle, except its long axis, that is closest to the direction of the
    base.

    Args:
        handle: a bar, upright or horizontal, in the base frame.
        max_width: max distance of the fingers [m].

    Returns:
        Empty if it is too wide, or its axes are tilted.
    """
    half, R = half_extents(handle.shape), handle.X_WO[:3, :3]
    long = int(np.argmax(half))
    if isinstance(handle.shape, Sphere):
        R, long = _towards_base(handle), 2
    elif isinstance(handle.shape, Cylinder) and long == 2:
        # Rotationally symmetric: any direction perpendicular to the axis.
        R = _about(R[:, 2], _towards_base(handle)[:, 0])
    level = [k for k in range(3) if k != long and abs(R[2, k]) < 0.1]
    if not level:
        return []
    home = -handle.X_WO[:3, 3] * [1.0, 1.0, 0.0]
    k = max(level, key=lambda k: abs(float(R[:, k] @ home)))
    pull = R[:, k] * (1.0 if R[:, k] @ home >= 0.0 else -1.0)
    other = 3 - long - k
    width = 2.0 * float(half[other])
    if width + MARGIN > max_width:
        return []
    found = []
    for sign in (1.0, -1.0):
        X = np.eye(4)
        X[:3, 2], X[:3, 1] = -pull, sign * R[:, other]
        X[:3, 0] = np.cross(X[:3, 1], X[:3, 2])
        X[:3, 3] = handle.X_WO[:3, 3]
        found.append(GraspPose(X, width))
    return found


def backed(X_WG: Array, distance: float) -> Array:
    """Return a pose retracted against its approach by a distance [m], shape (4, 4)."""
    X = np.array(X_WG)
    X[:3, 3] -= distance * X_WG[:3, 2]
    return X


def moved(item: ObjectState, offset: Array) -> ObjectState:
    """Return an object translated by an offset in the world [m], shape (3,)."""
    X = np.array(item.X_WO)
    X[:3, 3] += offset
    return replace(item, X_WO=X)


def _evenly(room: float, spacing: float) -> Array:
    count = int(np.ceil(2.0 * room / spacing - 1e-9)) + 1
    return np.linspace(-room, room, count) if count > 1 else np.zeros(1)


def _nearest(offsets: Array, at: float, count: int) -> Array:
    """Return the offsets that are nearest to a position, in their order, shape (<= count,)."""
    return offsets[np.sort(np.argsort(np.abs(offsets - at), kind="stable")[:count])]


def _towards_base(item: ObjectState) -> Array:
    """Return axes of which x points to the base, horizontally, shape (3, 3)."""
    home = -item.X_WO[:3, 3] * [1.0, 1.0, 0.0]
    length = float(np.linalg.norm(home))
    x = home / length if length > 1e-9 else np.array([-1.0, 0.0, 0.0])
    z = np.array([0.0, 0.0, 1.0])
    return np.column_stack((x, np.cross(z, x), z))


def _about(axis: Array, towards: Array) -> Array:
    """Return axes with z along an axis, and x near a direction, shape (3, 3)."""
    x = towards - (towards @ axis) * axis
    if float(np.linalg.norm(x)) < 1e-6:
        x = np.array([0.0, 0.0, 1.0]) - axis[2] * axis
    x = x / max(float(np.linalg.norm(x)), 1e-9)
    return np.column_stack((x, np.cross(axis, x), axis))


AROUND = tuple(sign * math.radians(angle) for angle in range(0, 181, 15) for sign in (1.0, -1.0))
"""Directions from which a point is faced, relative to the closest one [rad]."""


def stand_pose(target: Array, distance: float) -> tuple[float, float, float]:
    """Return a pose that faces a point from a distance, without a detour around it.

    Args:
        target: position of the point in the base frame [m], shape (3,).
        distance: of the base frame from the point; a base that is closer only turns [m].

    Returns:
        x, y [m], yaw [rad] in the base frame.
    """
    x, y = float(target[0]), float(target[1])
    away = math.hypot(x, y)
    yaw = math.atan2(y, x) if away > 0.0 else 0.0
    forward = max(0.0, away - distance)
    return forward * math.cos(yaw), forward * math.sin(yaw), yaw


def stand_poses(target: Array, distance: float) -> Iterator[tuple[float, float, float]]:
    """Return poses that face a point from a distance: the closest one first, then around it.

    Args:
        target: position of the point in the base frame [m], shape (3,).
        distance: of the base frame from the point [m].

    Returns:
        x, y [m], yaw [rad] in the base frame, each.
    """
    yield stand_pose(target, distance)
    x, y = float(target[0]), float(target[1])
    for turn in AROUND:
        yaw = math.atan2(y, x) + turn
        yield x - distance * math.cos(yaw), y - distance * math.sin(yaw), yaw


def parse_places(words: Sequence[str]) -> dict[str, tuple[float, float, float]]:
    """Return named places of ``NAME:=X,Y[,YAW]`` in m and rad.

    Raises:
        InvalidConfig: names the invalid word.
    """
    places: dict[str, tuple[float, float, float]] = {}
    for word in filter(None, words):
        found = _PLACE.fullmatch(word.strip())
        try:
            numbers = [float(x) for x in found["at"].split(",")] if found else []
        except ValueError:
            numbers = []
        if found is None or len(numbers) not in (2, 3) or not all(map(math.isfinite, numbers)):
            raise InvalidConfig(
                f"'{word}' is not a place; write NAME:=X,Y[,YAW], such as kitchen:=2.0,1.5,1.57",
                field="places",
            )
        name = found["name"].strip()
        if name in places:
            raise InvalidConfig(f"two places are named '{name}'", field="places")
        places[name] = (numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 0.0)
    return places
