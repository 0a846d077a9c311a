# SPDX-License-Identifier: Apache-2.0
"""Poses of skills in contact: strokes of an object over a surface, grasps of a handle.

Base poses of a mobile manipulator, and its named places.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from motion_nodes.core.robot.tree import Cylinder, Sphere
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.tasks.grasps import EDGE, MARGIN, GraspPose, levelled
from motion_nodes.extras.tasks.world_state import ObjectState, half_extents
from motion_nodes.typing import Array

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
