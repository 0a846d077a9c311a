# SPDX-License-Identifier: Apache-2.0
"""Time parameterization: the fastest motion along a path within all limits, from rest to rest."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.timing.time_optimal import fastest_motion
from motion_nodes.model.limits import JointLimits, beyond
from motion_nodes.trajectory.blended_path import CornerBlending, blended_path
from motion_nodes.trajectory.jerk_limited import jerk_limited
from motion_nodes.trajectory.joint_path import JointPath, checked_waypoints
from motion_nodes.trajectory.path_efforts import PathEfforts
from motion_nodes.trajectory.point_speeds import PointSpeeds
from motion_nodes.trajectory.timed_path import TimedPath
from motion_nodes.trajectory.trajectory import Infeasible
from motion_nodes.trajectory.trajectory_checks import (
    check_point_count,
    limit_excess,
)
from motion_nodes.typing import Array, IndexArray

_SAME = 1e-9
"""Distance below which consecutive waypoints count as equal [rad or m]."""
_LEAST_OF_LINE, _LEAST = 8, 48
"""Intervals per line and per curved piece, in addition to those for its length. Accelerations along
the path are constant in an interval, which costs time where the path bends."""
_PIECES_FINE = 100
"""Number of curved pieces from which on they have fewer intervals."""
GRID_INTERVALS = 200
"""Grid intervals along a path, in addition to a few per piece."""


def retime(
    path: ArrayLike,
    limits: JointLimits,
    *,
    velocity_scaling: float = 1.0,
    acceleration_scaling: float = 1.0,
    jerk_limited: bool = True,
    blending: CornerBlending | None = None,
    efforts: PathEfforts | None = None,
) -> TimedPath:
    """Return the time-optimal motion along the lines between waypoints.

    Corners are blended as permitted by ``blending``; otherwise the joints stop there.

    Args:
        path: waypoints, shape (k, n); repeated ones are skipped.
        limits: of the n joints; velocities and accelerations must be finite.
        velocity_scaling: velocity scaling factor, above 0 to 1; 0 means 1.
        acceleration_scaling: scaling factor of acceleration and jerk limits; 0 means 1.
        jerk_limited: whether to respect jerk limits too, if there are any.
        blending: blending of corners; None: by 0.01 rad or m, unchecked.
        efforts: effort limits; None: not considered.

    Raises:
        InvalidCommand: waypoints that are not a path, outside the limits or not finite.
        InvalidConfig: a limit that is missing or not positive, or a scaling factor out of range.
    """
    points = checked_waypoints(path, limits.names, least=2)
    check_point_count(len(points))
    points = within_limits(points, limits)
    points = distinct_waypoints(points)
    scaled = scaled_limits(limits, velocity_scaling, acceleration_scaling, jerk_limited)
    corners = CornerBlending() if blending is None else blending
    lines = blended_path(limits.names, points, scaled.velocity, corners)
    return time_optimal(lines, scaled, efforts=efforts)


def time_optimal(
    path: JointPath,
    limits: JointLimits,
    intervals: int = GRID_INTERVALS,
    *,
    efforts: PathEfforts | None = None,
    speeds: PointSpeeds | None = None,
) -> TimedPath:
    """Return the time-optimal motion along a path from rest to rest.

    If a joint has a jerk limit, accelerations are continuous.

    Args:
        path: with continuous second derivatives between its stops.
        limits: of its joints; position limits are ignored.
        intervals: of the grid; a finer grid is slightly faster.
        efforts: effort limits; None: not considered.
        speeds: speed limits of points such as a tool; None: none.
    """
    solve = jerk_limited if np.isfinite(limits.jerk).any() else _acceleration_limited
    motion = solve(path, limits, intervals)
    if speeds is not None and speeds.stretch(motion) <= 1.0:
        speeds = None
    if speeds is not None:
        motion = solve(path, limits, intervals, None, speeds)
    if efforts is not None and efforts.count > 0 and efforts.stretch(motion) > 1.0:
        motion = solve(path, limits, intervals, efforts, speeds)
        motion = motion.stretched(efforts.stretch(motion))
    return motion if speeds is None else motion.stretched(speeds.stretch(motion))


def _acceleration_limited(
    path: JointPath,
    limits: JointLimits,
    intervals: int,
    efforts: PathEfforts | None = None,
    speeds: PointSpeeds | None = None,
) -> TimedPath:
    grid, piece = speed_grid(path, intervals)
    strips = np.empty((len(piece), 2, 2, 0))
    if efforts is not None:
        ends = (efforts.strips(path, s, piece) for s in (grid[:-1], grid[1:]))
        strips = np.ascontiguousarray(np.stack(list(ends), axis=1))
    free = np.full(len(grid), np.inf)
    if speeds is not None:
        for s, shift in ((grid[:-1], 0), (grid[1:], 1)):
            q, q1 = (path.evaluate(s, order, piece) for order in range(2))
            here = free[shift : len(grid) - 1 + shift]
            np.minimum(here, speeds.max_squared(q, q1), out=here)
    free[[0, -1]] = 0.0
    free[np.searchsorted(grid, path.stops)] = 0.0
    times, clock = np.empty(len(grid)), np.empty((len(piece), 6))
    where = (path.breaks, path.coefficients, piece, grid)
    bounds = np.array([limits.velocity, limits.acceleration])
    stretch = fastest_motion(where, bounds, strips, free, times, clock)
    return TimedPath(path, times, clock, piece).stretched(stretch)


def speed_grid(path: JointPath, intervals: int) -> tuple[Array, IndexArray]:
    """Return the grid of distances [rad or m], (N + 1,), and the piece of each interval.

    Every piece has at least two intervals, because there may be a stop at either end of it.
    """
    spans, bent = np.diff(path.breaks), path.bent
    fine = min(1.0, _PIECES_FINE / max(1, int(bent.sum())))
    least = np.rint(fine * np.where(bent, _LEAST, _LEAST_OF_LINE))
    counts = np.maximum(2, least).astype(np.intp)
    counts += np.rint(intervals * spans / path.length).astype(np.intp)
    piece = np.repeat(np.arange(len(spans), dtype=np.int32), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    share = (np.arange(len(piece)) - first) / counts[piece]
    grid = np.append(path.breaks[piece] + share * spans[piece], path.length)
    return grid, piece


def distinct_waypoints(points: Array) -> Array:
    """Return waypoints [rad or m], shape (k, n), without consecutive duplicates.

    Raises:
        Infeasible: if all are equal.
    """
    moved = np.max(np.abs(np.diff(points, axis=0)), axis=1) > _SAME
    if not moved.any():
        raise Infeasible(
            f"all {len(points)} waypoints are equal: the motion would have no duration",
            field="waypoints",
        )
    return np.asarray(points[np.concatenate([[True], moved])], dtype=np.float64)


def scaled_limits(
    limits: JointLimits,
    velocity: float,
    acceleration: float,
    jerk_limited: bool = True,
    *,
    accelerations_needed: bool = True,
) -> JointLimits:
    """Return validated limits multiplied by scaling factors (0 means 1).

    Args:
        limits: unscaled limits.
        velocity: scaling factor of velocity limits.
        acceleration: scaling factor of acceleration and jerk limits.
        jerk_limited: whether jerk limits are kept.
        accelerations_needed: whether unlimited accelerations are an error.

    Raises:
        InvalidConfig: a factor outside 0 to 1, or a limit that is missing or not positive.
    """
    shares = []
    for name, share in (("velocity", velocity), ("acceleration", acceleration)):
        if not 0.0 <= share <= 1.0:
            raise InvalidConfig(
                f"{name} scaling is {share}; allowed is above 0 to 1, and 0 for 1",
                field=f"{name}_scaling",
            )
        shares.append(share or 1.0)
    _check_limit("velocity", limits.velocity, limits.names)
    if accelerations_needed:
        _check_limit("acceleration", limits.acceleration, limits.names)
    jerk = limits.jerk if jerk_limited else np.full(len(limits.names), np.inf)
    for name, value in zip(limits.names, jerk, strict=True):
        if not value > 0.0:
            raise InvalidConfig(
                f"jerk limit of joint {name} is {value}; it must be above 0", field=name
            )
    return dataclasses.replace(
        limits,
        velocity=limits.velocity * shares[0],
        acceleration=limits.acceleration * shares[1],
        jerk=jerk * shares[1],
    )


def _check_limit(what: str, values: Array, names: tuple[str, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        if not (math.isfinite(value) and value > 0.0):
            raise InvalidConfig(
                f"{what} limit of joint {name} is {value}; to time a motion it must be finite and "
                "above 0: give it in the robot's description",
                field=name,
            )


def within_limits(points: Array, limits: JointLimits) -> Array:
    """Return waypoints [rad or m], shape (k, n); those outside a limit by rounding are at it.

    Raises:
        Infeasible: names the first one outside, its joint, position and limits.
    """
    settled = limits.settled(points)
    wrong = np.argwhere(limit_excess(limits, settled) > 0.0)
    if len(wrong):
        i, j = wrong[0]
        low, high = float(limits.lower[j]), float(limits.upper[j])
        raise Infeasible(
            f"waypoint {i} has joint {limits.names[j]} at {beyond(points[i, j], low, high)}; its "
            f"limits are {low:.6g} to {high:.6g}",
            field=limits.names[j],
        )
    return settled
