# SPDX-License-Identifier: Apache-2.0
"""Time until a footprint that moves at a constant twist violates its clearance from points.

In the base frame, the points move: along lines, or along circles about the instantaneous centre of
rotation. A footprint with a clearance is a polygon with rounded corners, whose boundary consists of
shifted edges and circles about the corners; the first crossing of any of them is the contact, in
closed form.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2
from motion_nodes.typing import Array

STRAIGHT = 1e-4
"""Curvature below which a motion counts as straight [1/m]: 0.05 mm off the arc after 1 m."""


def contact_times(footprint: Footprint, points: Array, radii: Array, twist: Twist2) -> Array:
    """Return the times at which points come closer to a moving footprint than their radii.

    Args:
        footprint: footprint of the base.
        points: points in the base frame [m], shape (n, 2), farther away than their radii.
        radii: radii, not negative [m], shape (n,).
        twist: constant velocity of the base.

    Returns:
        Times [s], shape (n,); inf where there is no contact.
    """
    speed = math.hypot(twist.vx, twist.vy)
    if not len(points) or (speed == 0.0 and twist.wz == 0.0):
        return np.full(len(points), math.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        if abs(twist.wz) <= STRAIGHT * speed:
            times = _straight(footprint, points, radii, twist)
        else:
            times = _turning(footprint, points, radii, twist)
    return np.asarray(np.where(np.isnan(times), math.inf, times).min(axis=1))


def _straight(footprint: Footprint, points: Array, radii: Array, twist: Twist2) -> Array:
    """Return the crossings of every point with every edge and corner, shape (n, 2 k)."""
    corners, along, normals = footprint.corners, footprint.along, footprint.normals
    lengths = footprint.lengths
    v = np.array((twist.vx, twist.vy))
    offsets = points[:, None] - corners
    # |offset - v t| = radius
    b, square = offsets @ v, float(v @ v)
    gap = (offsets**2).sum(axis=2) - radii[:, None] ** 2
    root = np.sqrt(b * b - square * gap)
    circles = np.where(b > 0.0, gap / (b + root), math.inf)
    # normal . (offset - v t) = radius, between the ends of the edge
    closing = normals @ v
    t = ((offsets * normals).sum(axis=2) - radii[:, None]) / closing
    at = (offsets * along).sum(axis=2) - t * (along @ v)
    lines = np.where((closing > 0.0) & (t >= 0.0) & (at >= 0.0) & (at <= lengths), t, math.inf)
    return np.concatenate((circles, lines), axis=1)


def _turning(footprint: Footprint, points: Array, radii: Array, twist: Twist2) -> Array:
    """Return the crossings of every point with every edge and corner, shape (n, 4 k).

    Angles in a triangle use half-angle formulas, because the centre of rotation may be kilometres
    away.
    """
    corners, along, normals = footprint.corners, footprint.along, footprint.normals
    lengths, w = footprint.lengths, twist.wz
    centre = np.array((-twist.vy / w, twist.vx / w))
    arm = points - centre
    rho, phi = np.hypot(arm[:, 0], arm[:, 1])[:, None], np.arctan2(arm[:, 1], arm[:, 0])[:, None]
    r = radii[:, None]
    to_corner = corners - centre
    d, alpha = np.hypot(*to_corner.T), np.arctan2(to_corner[:, 1], to_corner[:, 0])
    half = np.arcsin(np.sqrt((r * r - (rho - d) ** 2) / (4.0 * rho * d)))
    found = [_until(phi - (alpha + side * 2.0 * half), w) for side in (-1.0, 1.0)]
    level = (to_corner * normals).sum(axis=1) + r
    nu, spread = np.arctan2(normals[:, 1], normals[:, 0]), np.arccos(level / rho)
    start = (to_corner * along).sum(axis=1)
    for side in (-1.0, 1.0):
        hit = nu + side * spread
        # Coordinate along the edge: the edge's direction is 90 degrees ahead of its normal.
        at = rho * np.sin(side * spread) - start
        t = _until(phi - hit, w)
        found.append(np.where((at >= 0.0) & (at <= lengths), t, math.inf))
    return np.concatenate(found, axis=1)


def _until(angle: Array, w: float) -> Array:
    """Return the time until a point rotates by an angle [rad] at ``-w``."""
    return np.asarray(np.mod(math.copysign(1.0, w) * angle, math.tau) / abs(w))


def keeps_clear(
    footprint: Footprint, points: Array, pose: Pose2, twist: Twist2, time: float,
    clearance: float, *, lenient: bool = False,
) -> bool:  # fmt: skip
    """Return whether a motion satisfies a clearance from points.

    Args:
        footprint: footprint of the base.
        points: points in the frame of the pose [m], shape (n, 2).
        pose: initial pose of the base.
        twist: constant velocity of the base.
        time: duration [s].
        clearance: min distance [m].
        lenient: for points that are initially closer, require only that they come no closer.
    """
    local = into_base(points, pose)
    reach = footprint.radius + clearance + math.hypot(twist.vx, twist.vy) * time
    local = local[np.hypot(local[:, 0], local[:, 1]) <= reach]
    if not len(local):
        return True
    distances = footprint.distances(local)
    if not lenient and distances.min() < clearance:
        return False
    radii = np.minimum(clearance - 1e-4, np.maximum(distances - 2e-3, 0.0))
    return bool(contact_times(footprint, local, radii, twist).min() >= time)


def into_base(points: Array, pose: Pose2) -> Array:
    """Return points of an outer frame in the base frame at a pose [m], shape (n, 2)."""
    c, s = math.cos(pose.yaw), math.sin(pose.yaw)
    return np.asarray((points - (pose.x, pose.y)) @ np.array(((c, -s), (s, c))))


def out_of_base(points: Array, pose: Pose2) -> Array:
    """Return points in the base frame at a pose in the outer frame [m], shape (n, 2)."""
    c, s = math.cos(pose.yaw), math.sin(pose.yaw)
    return np.asarray(points @ np.array(((c, s), (-s, c))) + (pose.x, pose.y))
