# SPDX-License-Identifier: Apache-2.0
"""Functions on joint paths: refine, simplify without change of shape, follow waypoints.

A path is an array of waypoints of shape (k, n), joined by straight lines. ``is_free`` maps
configurations of shape (m, n) to whether they are collision-free, shape (m,), such as
:meth:`motion_nodes.core.scene.checker.CollisionChecker.are_free`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.planning.planning_problem import JointSpace
from motion_nodes.core.robot.bounds import POINTS
from motion_nodes.core.robot.poses import rotation_about, rotation_vector
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

AreFree = Callable[[Array], NDArray[np.bool_]]

REVOLUTE_RESOLUTION = math.radians(3.0)
"""Default max step of a revolute joint [rad]."""
PRISMATIC_RESOLUTION = 0.02
"""Default max step of a prismatic joint [m]."""


def default_resolutions(space: JointSpace) -> Array:
    """Return the default max step of each joint: 3 degrees or 0.02 m, shape (n,)."""
    return np.where(space.prismatic, PRISMATIC_RESOLUTION, REVOLUTE_RESOLUTION)


def interpolate(space: JointSpace, path: ArrayLike, resolutions: ArrayLike | None = None) -> Array:
    """Return the path, shape (m, n), with bounded steps of each joint; waypoints are kept.

    Args:
        space: the joints.
        path: waypoints, shape (k, n); continuous joints take the shorter direction. A path of one
            waypoint is unchanged.
        resolutions: max step of each joint [rad or m], shape (n,) or a scalar; None: 3 degrees and
            0.02 m.
    """
    steps = _resolutions(space, resolutions)
    points = space.unwrapped(space.checked_path(path))
    return _cut(points, [_count(d, steps) for d in np.diff(points, axis=0)])


def _count(way: Array, steps: Array) -> int:
    # Rounding must not add a step to an exact multiple of the resolution.
    return max(1, math.ceil(float(np.max(np.abs(way) / steps)) - 1e-9))


def _cut(points: Array, counts: Sequence[int]) -> Array:
    pieces = [points[:1]]
    for a, b, count in zip(points[:-1], points[1:], counts, strict=True):
        shares = np.arange(1, count)[:, np.newaxis] / count
        pieces += [a + shares * (b - a), b[np.newaxis]]
    return np.concatenate(pieces)


def _resolutions(space: JointSpace, given: ArrayLike | None) -> Array:
    if given is None:
        return default_resolutions(space)
    n = len(space.names)
    steps = np.asarray(given, np.float64)
    steps = np.full(n, float(steps)) if steps.ndim == 0 else steps
    if steps.shape != (n,) or not (steps > 0.0).all():
        raise InvalidCommand(
            f"resolutions must be one number above 0, or one for each of {', '.join(space.names)}; "
            f"got {given!r}."
        )
    return steps


def waypoints_from_path(space: JointSpace, path: ArrayLike, tolerance: float = 1e-3) -> Array:
    """Return only the waypoints at which the path changes its direction, and both ends.

    Args:
        space: the joints.
        path: waypoints, shape (k, n).
        tolerance: max deviation of the result from the path [rad or m]. It bounds the deviation
            itself, so that many small bends cannot accumulate.

    Source: D. Douglas and T. Peucker, "Algorithms for the reduction of the number of points
    required to represent a digitized line or its caricature", Cartographica 10(2), 1973.
    """
    points = space.unwrapped(space.checked_path(path))
    if len(points) < 3:
        return points
    keep = np.zeros(len(points), bool)
    keep[[0, -1]] = True
    stretches = [(0, len(points) - 1)]
    while stretches:
        first, last = stretches.pop()
        if last - first < 2:
            continue
        away = _away_from_line(points[first], points[last], points[first + 1 : last])
        worst = int(np.argmax(away))
        if away[worst] > tolerance:
            middle = first + 1 + worst
            keep[middle] = True
            stretches += [(first, middle), (middle, last)]
    return np.asarray(points[keep])


def _away_from_line(a: Array, b: Array, points: Array) -> Array:
    """Return the distances of points from the segment a to b, shape (m,)."""
    way = b - a
    square = float(way @ way)
    shares = (
        np.clip((points - a) @ way / square, 0.0, 1.0) if square > 0.0 else np.zeros(len(points))
    )
    return np.asarray(np.linalg.norm(points - a - shares[:, np.newaxis] * way, axis=1))


def interpolate_joint_waypoints(
    space: JointSpace, waypoints: ArrayLike, is_free: AreFree, resolutions: ArrayLike | None = None
) -> Array | None:
    """Return the dense path through waypoints, or None if in collision or outside the limits.

    Waypoints and everything between them are checked.

    Args:
        space: the joints.
        waypoints: shape (k, n).
        is_free: collision check, see the module.
        resolutions: as for :func:`interpolate`.
    """
    path = interpolate(space, waypoints, resolutions)
    inside = bool(((path >= space.lower) & (path <= space.upper)).all())
    return path if inside and bool(np.all(is_free(path))) else None


def interpolate_poses(
    X_start: ArrayLike,
    X_end: ArrayLike,
    position_step: float = 0.01,
    angle_step: float = math.pi / 16,
) -> Array:
    """Return poses along the straight line between two, rotating about one axis uniformly.

    Args:
        X_start: pose of shape (4, 4).
        X_end: pose of shape (4, 4).
        position_step: max distance between two poses [m].
        angle_step: max rotation between two poses [rad].

    Returns:
        Shape (m, 4, 4), with exact ends; one pose if they are equal.

    Raises:
        InvalidCommand: more than :data:`~motion_nodes.core.robot.bounds.POINTS` poses.
    """
    A, B = np.asarray(X_start, np.float64), np.asarray(X_end, np.float64)
    way = B[:3, 3] - A[:3, 3]
    turn = np.array(rotation_vector(A[:3, :3].T @ B[:3, :3]))
    angle = float(np.linalg.norm(turn))
    distance = float(np.linalg.norm(way))
    steps = max(distance / position_step, angle / angle_step)
    if not steps < POINTS:
        raise InvalidCommand(
            f"{distance:.4g} m and {angle:.4g} rad in steps of {position_step:g} m and "
            f"{angle_step:g} rad are {steps:.4g} poses; the max is {POINTS}.",
            field="position_step",
        )
    count = math.ceil(steps - 1e-9)
    if count < 1:
        return A[np.newaxis].copy() if distance == 0.0 and angle == 0.0 else np.stack([A, B])
    shares = np.arange(count + 1) / count
    poses = np.tile(A, (count + 1, 1, 1))
    poses[:, :3, 3] += shares[:, np.newaxis] * way
    if angle > 0.0:
        axes = np.tile(turn / angle, (count + 1, 1))
        poses[:, :3, :3] = A[:3, :3] @ rotation_about(axes, shares * angle)
    poses[0], poses[-1] = A, B
    return poses
