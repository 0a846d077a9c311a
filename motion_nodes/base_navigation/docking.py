# SPDX-License-Identifier: Apache-2.0
"""Drives of a base close to objects: back off, turn on the spot, drive straight.

A turn next to an object, such as a table, can collide with a corner of the base. Obstacles are
points of outlines, in the base frame at the start of the drive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from motion_nodes.base_navigation.footprint import Footprint, convex_hull
from motion_nodes.base_navigation.free_motion import into_base
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.odometry import wrap_angle
from motion_nodes.typing import Array

CLEARANCE = 0.03
"""Min distance from obstacles [m]."""
MAX_BACK_OFF = 1.5
"""Max distance that a base backs off before it turns [m]."""
STEP = 0.05
"""Spacing of checked poses [m]."""
SPACING = 0.02
"""Spacing of the points of an outline [m]."""
AHEAD = 0.05
"""Min change of direction that requires a turn on the spot [rad]."""


class OutlineLayer(NamedTuple):
    """An outline of a part of the base, and the obstacles at its height."""

    footprint: Footprint
    points: Array
    """Points of obstacles in the base frame [m], shape (n, 2)."""


def outline_points(corners: Array) -> Array:
    """Return points along the outline of the convex hull of points [m], shapes (k, 2), (n, 2)."""
    hull = convex_hull(np.asarray(corners))
    found = []
    for begin, end in zip(hull, np.roll(hull, -1, axis=0), strict=True):
        count = 1 + int(np.hypot(*(end - begin)) / SPACING)
        found.append(begin + (end - begin) * np.arange(count)[:, None] / count)
    return np.concatenate(found) if found else np.empty((0, 2))


def legs_to(
    goals: Callable[[Pose2], Iterable[Pose2]],
    layers: Sequence[OutlineLayer],
    clearance: float = CLEARANCE,
) -> tuple[Pose2, ...]:
    """Return the waypoints of a drive; the last one is a goal.

    If there is no room to turn, the base first drives straight back. It then turns on the spot and
    drives straight ahead. If there is no room to turn at the goal, it turns before it.

    Args:
        goals: returns goal candidates in the base frame, best first, for a start of the drive.
        layers: outlines with their obstacles.
        clearance: min distance [m].

    Returns:
        Waypoints to the first candidate with a collision-free drive; empty if there is none.
    """
    here, roomy = Pose2(), _backed_off(layers, clearance)
    for start in dict.fromkeys((here, roomy)):
        if start is None:
            continue
        for goal in goals(start):
            legs = _legs_from(start, goal, layers, clearance, may_turn=start == roomy)
            if legs:
                return legs if start == here else (start, *legs)
    return ()


def _backed_off(layers: Sequence[OutlineLayer], clearance: float) -> Pose2 | None:
    """Return the first pose straight behind with room to turn; None if the way is blocked."""
    for back in np.arange(0.0, MAX_BACK_OFF + STEP, STEP).tolist():
        pose = Pose2(-back) if back else Pose2()
        # The base may start closer than the clearance, if it moves away.
        if back and not _free(layers, pose, 0.0 if back <= clearance + STEP else clearance):
            return None
        if _room_to_turn(layers, pose, clearance):
            return pose
    return None


def _legs_from(
    start: Pose2,
    goal: Pose2,
    layers: Sequence[OutlineLayer],
    clearance: float,
    *,
    may_turn: bool,
) -> tuple[Pose2, ...]:
    """Return a turn, if required, and the goal; empty if they are not collision-free."""
    if not _free(layers, goal, clearance):
        return ()
    distance = start.distance(goal)
    heading = start.bearing(goal) if distance > STEP else goal.yaw
    turns = abs(wrap_angle(heading - start.yaw)) > AHEAD
    turns_there = distance > STEP and abs(wrap_angle(goal.yaw - heading)) > AHEAD
    if turns_there and not _room_to_turn(layers, goal, clearance):
        return _legs_by_turn_before(start, goal, layers, clearance, may_turn=may_turn)
    if (turns and not may_turn) or not _free_line(layers, start, goal, heading, clearance):
        return ()
    return (Pose2(start.x, start.y, heading), goal) if turns and distance > STEP else (goal,)


def _legs_by_turn_before(
    start: Pose2,
    goal: Pose2,
    layers: Sequence[OutlineLayer],
    clearance: float,
    *,
    may_turn: bool,
) -> tuple[Pose2, ...]:
    """Return legs with the last possible turn before the goal."""
    for back in np.arange(STEP, MAX_BACK_OFF + STEP, STEP).tolist():
        before = goal.compose(Pose2(-back))
        if not _free(layers, before, clearance):
            return ()
        if _room_to_turn(layers, before, clearance):
            legs = _legs_from(start, before, layers, clearance, may_turn=may_turn)
            return (*legs, goal) if legs else ()
    return ()


def _free_line(
    layers: Sequence[OutlineLayer], start: Pose2, goal: Pose2, heading: float, clearance: float
) -> bool:
    count = math.ceil(start.distance(goal) / STEP)
    return all(
        _free(
            layers,
            Pose2(start.x + s * (goal.x - start.x), start.y + s * (goal.y - start.y), heading),
            clearance,
        )
        for s in np.linspace(0.0, 1.0, 1 + count)[1:].tolist()
    )


def _free(layers: Sequence[OutlineLayer], pose: Pose2, clearance: float) -> bool:
    return all(
        not len(points) or float(footprint.distances(into_base(points, pose)).min()) > clearance
        for footprint, points in layers
    )


def _room_to_turn(layers: Sequence[OutlineLayer], pose: Pose2, clearance: float) -> bool:
    return all(
        not len(points)
        or float(np.hypot(*(points - (pose.x, pose.y)).T).min()) > footprint.radius + clearance
        for footprint, points in layers
    )
