# SPDX-License-Identifier: Apache-2.0
"""Functions on joint paths: refine, extend, simplify without change of shape, follow waypoints.

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


def refine(space: JointSpace, path: ArrayLike, num_steps: int) -> Array:
    """Return the path with every segment divided into equal steps.

    Args:
        space: the joints.
        path: waypoints, shape (k, n).
        num_steps: steps per segment, at least 1.

    Returns:
        Shape ((k - 1) num_steps + 1, n); contains all waypoints exactly.
    """
    points = space.unwrapped(space.checked_path(path))
    if num_steps < 1:
        raise InvalidCommand(f"num_steps is {num_steps}; it must be at least 1.", field="num_steps")
    return _cut(points, [num_steps] * (len(points) - 1))


def extend(
    space: JointSpace, a: ArrayLike, b: ArrayLike, resolutions: ArrayLike | None = None
) -> Array:
    """Return configurations from a (exclusive) to b (inclusive) with bounded steps.

    Args:
        space: the joints.
        a: start, shape (n,).
        b: end, shape (n,); a continuous joint takes the shorter direction.
        resolutions: max step of each joint [rad or m], shape (n,) or a scalar; None: 3 degrees and
            0.02 m.

    Returns:
        Shape (m, n), at least one row; the last is b, up to full turns of continuous joints.
    """
    steps = _resolutions(space, resolutions)
    points = space.unwrapped([space.checked(a, "a"), space.checked(b, "b")])
    return _cut(points, [_count(points[1] - points[0], steps)])[1:]


def interpolate(space: JointSpace, path: ArrayLike, resolutions: ArrayLike | None = None) -> Array:
    """Return the path, shape (k, n), with bounded steps of each joint; waypoints are kept.

    Arguments as for :func:`extend`. A path of one waypoint is unchanged.
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


def remove_redundant(space: JointSpace, path: ArrayLike, tolerance: float = 1e-3) -> Array:
    """Return the path without waypoints within a tolerance of the previous one.

    The first and last waypoint stay.

    Args:
        space: the joints.
        path: waypoints, shape (k, n).
        tolerance: max distance per joint [rad or m].
    """
    points = space.checked_path(path)
    kept = [0]
    for i in range(1, len(points)):
        if np.abs(space.difference(points[kept[-1]], points[i])).max(initial=0.0) > tolerance:
            kept.append(i)
    if len(points) > 1 and kept[-1] != len(points) - 1:
        # The end is kept exactly; a nearly equal waypoint before it is removed instead.
        kept = kept[:-1] if len(kept) > 1 else kept
        kept.append(len(points) - 1)
    return np.asarray(points[kept])


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
    space: JointSpace,
    waypoints: ArrayLike,
    is_free: AreFree,
    resolutions: ArrayLike | None = None,
) -> Array | None:
    """Return the dense path through waypoints, or None if in collision or outside the limits.

    Waypoints and everything between them are checked.

    Args:
        space: the joints.
        waypoints: shape (k, n).
        is_free: collision check, see the module.
        resolutions: as for :func:`extend`.
    """
    path = interpolate(space, waypoints, resolutions)
    inside = bool(((path >= space.lower) & (path <= space.upper)).all())
    return path if inside and bool(np.all(is_free(path))) else None


def plan_waypoints(
    space: JointSpace,
    start: ArrayLike,
    waypoints: ArrayLike,
    is_free: AreFree,
    resolutions: ArrayLike | None = None,
) -> Array | None:
    """Return the dense path, shape (k, n), from a start through waypoints, or None if in collision.

    Arguments as for :func:`interpolate_joint_waypoints`.
    """
    points = [space.checked(start, "start"), *space.checked_path(waypoints, "waypoints")]
    return interpolate_joint_waypoints(space, points, is_free, resolutions)


def plan_direct(
    space: JointSpace,
    start: ArrayLike,
    goal: ArrayLike,
    is_free: AreFree,
    resolutions: ArrayLike | None = None,
) -> Array | None:
    """Return the straight line as a dense path, shape (k, n), or None if in collision.

    Arguments as for :func:`interpolate_joint_waypoints`.
    """
    return plan_waypoints(space, start, np.array([goal], np.float64), is_free, resolutions)


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
