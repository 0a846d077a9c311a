# SPDX-License-Identifier: Apache-2.0
"""Cubic splines through waypoints: as geometric paths, and as functions of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_path import JointPath, checked_waypoints
from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.timed_path import LimitUse, TimedPath
from motion_nodes.errors import InvalidCommand, InvalidConfig, did_you_mean
from motion_nodes.tolerances import POSITION_ROUNDING
from motion_nodes.typing import Array

SPLIT_METHODS = ("uniform", "chord_length", "centripetal")
"""Distribution of a spline's parameter among its segments."""
_POWERS = {"uniform": 0.0, "chord_length": 1.0, "centripetal": 0.5}


def segment_shares(points: Array, method: str, scale: Array | float = 1.0) -> Array:
    """Return the fraction of a spline's parameter for each segment; the sum is 1.

    Args:
        points: waypoints, consecutive ones distinct, shape (k, n).
        method: one of :data:`SPLIT_METHODS`.
        scale: divisor of the distances of each joint, shape (n,) or a scalar.

    Source: E. T. Y. Lee, "Choosing nodes in parametric curve interpolation", Computer-Aided Design
    21(6), 1989: powers 0, 1 and 1/2 of the chords.
    """
    if method not in _POWERS:
        raise InvalidConfig(f"time split method '{method}'.{did_you_mean(method, SPLIT_METHODS)}")
    shares = np.linalg.norm(np.diff(points, axis=0) / scale, axis=1) ** _POWERS[method]
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def spline_path(
    joint_names: tuple[str, ...], points: Array, spans: Array, *, at_rest: bool = False
) -> JointPath:
    """Return the cubic spline through waypoints.

    Args:
        joint_names: names of the n joints.
        points: waypoints, shape (k, n).
        spans: of the parameter, shape (k - 1,), positive.
        at_rest: whether its slope is 0 at both ends; else its curvature is (natural spline).

    Source: C. de Boor, "A Practical Guide to Splines", 1978, chapter IV.
    """
    slopes = _knot_slopes(points, spans, at_rest)
    h = spans[:, None]
    chord = np.diff(points, axis=0) / h
    first, last = slopes[:-1], slopes[1:]
    coefficients = np.stack(
        [
            points[:-1],
            first,
            (3.0 * chord - 2.0 * first - last) / h,
            (first + last - 2.0 * chord) / h**2,
        ],
        axis=1,
    )
    breaks = np.concatenate([[0.0], np.cumsum(spans)])
    return JointPath(joint_names, breaks, coefficients, np.empty(0))


def over_time(path: JointPath, start_time: float = 0.0) -> TimedPath:
    """Return a path whose parameter is the time, as a trajectory.

    Args:
        path: its parameter is in seconds.
        start_time: of the trajectory [s].
    """
    clock = np.zeros((len(path.breaks) - 1, 6))
    clock[:, 0], clock[:, 1] = path.breaks[:-1], 1.0
    pieces = np.arange(len(clock), dtype=np.int32)
    return TimedPath(path, path.breaks + start_time, clock, pieces)


def cubic_use(path: JointPath, limits: JointLimits) -> Array:
    """Return the exact limit utilization of each piece of a cubic over time, shape (m, 3).

    Velocities are extremal at ends or where the acceleration is 0, accelerations at ends.
    """
    _, v0, half, third = np.moveaxis(path.coefficients, 1, 0)
    h = np.diff(path.breaks)[:, None]
    v1 = v0 + 2.0 * half * h + 3.0 * third * h**2
    a0, a1 = 2.0 * half, 2.0 * half + 6.0 * third * h
    with np.errstate(divide="ignore", invalid="ignore"):
        top = -half / (3.0 * third)
        peak = np.where((top > 0.0) & (top < h), v0 + half * top, 0.0)
    velocity = np.max(np.abs([v0, v1, peak]), axis=0) / limits.velocity
    acceleration = np.max(np.abs([a0, a1]), axis=0) / limits.acceleration
    jerk = np.abs(6.0 * third) / limits.jerk
    return np.stack([velocity.max(axis=1), acceleration.max(axis=1), jerk.max(axis=1)], axis=1)


def position_excess(path: JointPath, limits: JointLimits) -> str | None:
    """Return where a cubic path exceeds the position limits, as text; None if nowhere."""
    _, b, c, d = np.moveaxis(path.coefficients, 1, 0)
    h = np.diff(path.breaks)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(c * c - 3.0 * b * d)
        # Both roots of the slope, in the form without cancellation for small d.
        q = -(c + np.where(c >= 0.0, root, -root))
        turns = [q / (3.0 * d), b / q]
    for turn in turns:
        i, j = np.nonzero((turn > 0.0) & (turn < h[:, None]))
        values = path.evaluate(path.breaks[i] + turn[i, j], 0, i.astype(np.int32))
        value = values[np.arange(len(j)), j]
        out = np.flatnonzero(
            (value < limits.lower[j] - POSITION_ROUNDING)
            | (value > limits.upper[j] + POSITION_ROUNDING)
        )
        if len(out):
            k = out[0]
            return (
                f"between waypoints {i[k]} and {i[k] + 1} the spline takes joint "
                f"{limits.names[j[k]]} to {value[k]:.6g}; its limits are "
                f"{limits.lower[j[k]]:.6g} to {limits.upper[j[k]]:.6g}"
            )
    return None


def timestamped_trajectory(
    waypoints: ArrayLike, times: ArrayLike, limits: JointLimits, mode: str = "cubic_spline"
) -> TimedPath:
    """Return the motion that passes through each waypoint at its time.

    Args:
        waypoints: shape (k, n), k >= 2.
        times: increasing [s], shape (k,).
        limits: of the n joints; may be infinite.
        mode: ``cubic_spline``, at rest at both ends, or ``linear``, whose velocities jump at
            waypoints, so that only positions and velocities are limited.

    Raises:
        InvalidCommand: invalid waypoints or times.
        Infeasible: limits would be exceeded.
    """
    if mode not in ("cubic_spline", "linear"):
        raise InvalidCommand(
            f"interpolation '{mode}'.{did_you_mean(mode, ('cubic_spline', 'linear'))}"
        )
    points = limits.settled(checked_waypoints(waypoints, limits.names, least=2))
    stamps = _checked_times(times, len(points))
    spans = np.diff(stamps)
    if mode == "linear":
        slopes = np.diff(points, axis=0) / spans[:, None]
        breaks = np.concatenate([[0.0], np.cumsum(spans)])
        coefficients = np.stack([points[:-1], slopes], axis=1)
        path = JointPath(limits.names, breaks, coefficients, np.empty(0))
        use = np.zeros((len(spans), 3))
        use[:, 0] = np.max(np.abs(slopes) / limits.velocity, axis=1)
    else:
        path = spline_path(limits.names, points, spans, at_rest=True)
        use = cubic_use(path, limits)
    problem = _outside(points, limits) or (
        position_excess(path, limits) if mode == "cubic_spline" else None
    )
    if problem is None:
        problem = _overused(use)
    if problem is not None:
        raise Infeasible(f"the waypoints cannot be kept to their times: {problem}")
    return over_time(path, float(stamps[0]))


def _overused(use: Array) -> str | None:
    """Return which limit is exceeded most, as text; None if none is."""
    if use.max() <= 1.0 + 1e-9:
        return None
    i, kind = np.unravel_index(np.argmax(use), use.shape)
    return (
        f"between waypoints {i} and {i + 1} the {LimitUse._fields[kind]} would be "
        f"{use[i, kind]:.4g} times its limit"
    )


def _outside(points: Array, limits: JointLimits) -> str | None:
    wrong = np.argwhere((points < limits.lower) | (points > limits.upper))
    if not len(wrong):
        return None
    i = int(wrong[0][0])
    return f"waypoint {i}: {'; '.join(limits.violations(points[i]))}"


def _checked_times(times: ArrayLike, count: int) -> Array:
    stamps = np.asarray(times, dtype=np.float64)
    if stamps.shape != (count,):
        raise InvalidCommand(f"times have shape {stamps.shape}; there are {count} waypoints")
    if not np.isfinite(stamps).all():
        raise InvalidCommand("times of waypoints must be finite")
    late = np.flatnonzero(np.diff(stamps) <= 0.0)
    if len(late):
        i = int(late[0])
        raise InvalidCommand(
            f"time of waypoint {i + 1} ({stamps[i + 1]:g} s) is not after that of waypoint {i} "
            f"({stamps[i]:g} s)"
        )
    return stamps


def _knot_slopes(points: Array, spans: Array, at_rest: bool) -> Array:
    """Return the slopes at the waypoints: a tridiagonal system, solved by elimination."""
    count = len(points)
    slopes = np.zeros_like(points)
    chord = np.diff(points, axis=0) / spans[:, None]
    diagonal = np.ones(count)
    upper = np.zeros(count)
    if not at_rest:
        diagonal[0] = diagonal[-1] = 2.0
        upper[0] = 1.0
        slopes[0], slopes[-1] = 3.0 * chord[0], 3.0 * chord[-1]
    for i in range(1, count):
        if i < count - 1:
            below, upper[i] = spans[i], spans[i - 1]
            diagonal[i] = 2.0 * (spans[i - 1] + spans[i])
            slopes[i] = 3.0 * (spans[i] * chord[i - 1] + spans[i - 1] * chord[i])
        else:
            below = 0.0 if at_rest else 1.0
        factor = below / diagonal[i - 1]
        diagonal[i] -= factor * upper[i - 1]
        slopes[i] -= factor * slopes[i - 1]
    slopes[-1] /= diagonal[-1]
    for i in range(count - 2, -1, -1):
        slopes[i] = (slopes[i] - upper[i] * slopes[i + 1]) / diagonal[i]
    return slopes
