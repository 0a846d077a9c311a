# SPDX-License-Identifier: Apache-2.0
"""Time parameterization: the fastest motion along a path within all limits, from rest to rest.

From rest with constant jerk the distance grows with the cube of time, so that velocity as a
function of distance begins with an infinite slope. The path is therefore reparameterized over z
from 0 to 1 with distance z^3 (10 - 15 z + 6 z^2): its rate is well above 0 at the ends too, and all
functions are smooth there.

The motion along a straight line has a closed form. All joints move in proportion, so limits of
velocity, acceleration and jerk apply to the distance along the line as to one joint: seven phases
of constant jerk, some of which may be empty.

Source: L. Biagiotti, C. Melchiorri, "Trajectory Planning for Automatic Machines and Robots",
Springer 2008, section 3.4 (double S velocity profile, rest to rest).

Points that move with the joints, such as a tool, may have speed limits. With the speed s' along a
path q(s), a point with the Jacobian J moves with ``|J q'| s'``: its limit is one of the speed along
the path at each place, so that the motion is as fast as all other limits permit where the point is
slower, and has a phase of constant speed where it is not.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.limits import JointLimits, beyond
from motion_nodes.core.trajectory.joint_path import (
    CornerBlending,
    JointPath,
    blended_path,
    checked_waypoints,
)
from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.timed_path import SLOWEST, PathEfforts, TimedPath
from motion_nodes.core.trajectory.trajectory_checks import check_point_count, limit_excess
from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.timing.jerk_barriers import PLACES
from motion_nodes.kernels.timing.jerk_limited import (
    ParameterPath,
    jerk_limited_motion,
    parameter_derivatives,
    parameters,
)
from motion_nodes.kernels.timing.time_optimal import fastest_motion
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array, IndexArray

_SIGNS = (1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0)
"""Signs of the jerk in the phases."""
_PARTS = 8
"""Clock intervals per phase, so that sampled bounds are tight."""
_SLOWEST = 1e-12
"""Rate of a point, as a share of its limit per unit of the distance, below which it is at rest."""
_QUICK = 1e-3
"""Time in which joints without jerk limit reach their max acceleration [s]."""
MOST_PIECES = 12_000
"""Longer paths would take minutes: splines have one polynomial per waypoint, lines with blended
corners two."""
_JERK_LEAST, _JERK_LEAST_OF_LINE, _JERK_PIECES_FINE = 10, 4, 250
"""Intervals per curved piece and per line, in addition to those for its length; fewer where there
are more pieces."""
_LEAST_OF_PART = 50
"""Min number of intervals between two stops."""
_UNLIMITED = 1e9
"""Replacement of missing velocity and jerk limits."""
_LEAST_OF_LINE, _LEAST = 8, 48
"""Intervals per line and per curved piece, in addition to those for its length. Accelerations along
the path are constant in an interval, which costs time where the path bends."""
_PIECES_FINE = 100
"""Number of curved pieces from which on they have fewer intervals."""
GRID_INTERVALS = 200
"""Grid intervals along a path, in addition to a few per piece."""


def phase_times(
    length: float, velocity: float, acceleration: float, jerk: float
) -> tuple[float, float, float]:
    """Return durations of jerk and of constant acceleration [s], and the max velocity.

    Args:
        length: of the line, above 0.
        velocity: limit; this and the others finite and above 0, in units of the length.
        acceleration: limit.
        jerk: limit.
    """
    if velocity * jerk < acceleration**2:
        ramp, even = math.sqrt(velocity / jerk), 0.0
    else:
        ramp = acceleration / jerk
        even = velocity / acceleration - ramp
    speed = jerk * ramp * (ramp + even)
    cruise = length / speed - (2.0 * ramp + even)
    if cruise >= 0.0:
        return ramp, even, cruise
    # The velocity limit is not reached; assume that the acceleration limit is.
    ramp = acceleration / jerk
    even = 0.5 * (math.sqrt(ramp**2 + 4.0 * length / acceleration) - 3.0 * ramp)
    if even >= 0.0:
        return ramp, even, 0.0
    return math.cbrt(0.5 * length / jerk), 0.0, 0.0


def straight_clock(
    start: float, length: float, velocity: float, acceleration: float, jerk: float
) -> tuple[Array, Array]:
    """Return durations of intervals [s], shape (N,), and their clock, shape (N, 6).

    Args:
        start: distance at which the line begins.
        length: of the line, above 0.
        velocity: limit along the line; this and the others finite and above 0.
        acceleration: limit.
        jerk: limit.
    """
    ramp, even, cruise = phase_times(length, velocity, acceleration, jerk)
    phases = (ramp, even, ramp, cruise, ramp, even, ramp)
    spans: list[float] = []
    rows: list[tuple[float, ...]] = []
    s, v, a = 0.0, 0.0, 0.0
    for sign, duration in zip(_SIGNS, phases, strict=True):
        if duration <= 0.0:
            continue
        h, third = duration / _PARTS, sign * jerk / 6.0
        for _ in range(_PARTS):
            spans.append(h)
            rows.append((start + s, v, 0.5 * a, third, 0.0, 0.0))
            s += h * (v + h * (0.5 * a + h * third))
            v += h * (a + 3.0 * h * third)
            a += 6.0 * h * third
    clock = np.array(rows)
    # Scaled to compensate rounding, so that the end is met exactly.
    clock[:, 0] = start + (clock[:, 0] - start) * (length / s)
    clock[:, 1:] *= length / s
    return np.array(spans), clock


@dataclass(frozen=True, eq=False)
class PointSpeeds:
    """Speed limits of some points.

    Raises:
        InvalidConfig: a limit that is not above 0.
    """

    jacobians: Sequence[Callable[[Array], Array]]
    """Jacobian of each point: configurations, shape (k, n), to matrices, shape (k, 3, n)."""
    limits: Sequence[float]
    """Max speed of each [m/s]."""

    def __post_init__(self) -> None:
        for limit in self.limits:
            if not limit > 0.0:
                raise InvalidConfig(
                    f"max_speed is {limit} m/s; it must be above 0.", field="max_speed"
                )

    @property
    def count(self) -> int:
        """Number of points."""
        return len(self.limits)

    def shares(self, q: Array, rate: Array) -> Array:
        """Return the speeds of the points as shares of their limits, shape (k, count).

        Args:
            q: configurations [rad or m], shape (k, n).
            rate: velocities, or derivatives by the distance along a path, shape (k, n).
        """
        found = [
            np.linalg.norm(np.einsum("kij,kj->ki", jacobian(q), rate), axis=1) / limit
            for jacobian, limit in zip(self.jacobians, self.limits, strict=True)
        ]
        return np.stack(found, axis=1) if found else np.zeros((len(q), 0))

    def max_squared(self, q: Array, rate: Array) -> Array:
        """Return the max of the squared speed along a path, shape (k,); see :meth:`shares`."""
        most = self.shares(q, rate).max(axis=1, initial=0.0)
        return np.asarray(1.0 / np.maximum(most, _SLOWEST) ** 2)

    def stretch(self, motion: TimedPath) -> float:
        """Return the factor by which a motion must be slowed down for the limits; 1: none."""
        times = np.union1d(motion.times, 0.5 * (motion.times[1:] + motion.times[:-1]))
        q, v, _, _ = motion.states(times)
        return max(float(self.shares(q, v).max(initial=0.0)), 1.0)


def jerk_limited(
    path: JointPath,
    limits: JointLimits,
    efforts: PathEfforts | None = None,
    speeds: PointSpeeds | None = None,
) -> TimedPath:
    """Return the time-optimal motion along a path, at rest at its ends and stops.

    Args:
        path: with continuous second derivatives between its stops.
        limits: of its joints; velocities and accelerations finite.
        efforts: effort limits; None: not considered.
        speeds: speed limits of points; None: none.

    Raises:
        Infeasible: more than :data:`MOST_PIECES` pieces.
    """
    if len(path.coefficients) > MOST_PIECES:
        raise Infeasible(
            f"the path consists of {len(path.coefficients)} pieces; with jerk limits at most "
            f"{MOST_PIECES} are timed. Thin the waypoints, time them in parts, or omit jerk "
            "limits"
        )
    besides = _JERK_LEAST * len(path.coefficients)
    intervals = max(GRID_INTERVALS // 2, GRID_INTERVALS - besides) // (len(path.stops) + 1)
    intervals = max(_LEAST_OF_PART, intervals)
    cuts = np.concatenate([[0.0], path.stops, [path.length]])
    first = np.searchsorted(path.breaks, cuts)
    times, clocks, pieces = [np.zeros(1)], [], []
    for begin, end in itertools.pairwise(first.tolist()):
        straight = end == begin + 1 and not path.coefficients[begin, 2:].any()
        if straight and efforts is None and speeds is None:
            spans, clock, piece = _line(path, begin, limits)
        else:
            more = _FurtherLimits(efforts, speeds)
            spans, clock, piece = _part(path, (begin, end), limits, intervals, more)
        times.append(times[-1][-1] + np.cumsum(spans))
        clocks.append(clock)
        pieces.append(piece)
    return TimedPath(path, np.concatenate(times), np.concatenate(clocks), np.concatenate(pieces))


def _line(path: JointPath, piece: int, limits: JointLimits) -> tuple[Array, Array, IndexArray]:
    """Return durations, clock and pieces of a straight line."""
    rates = np.abs(path.coefficients[piece, 1])
    with np.errstate(divide="ignore"):
        velocity, acceleration, jerk = (
            float(np.min(bound / rates))
            for bound in (limits.velocity, limits.acceleration, _jerks(limits))
        )
    start = float(path.breaks[piece])
    length = float(path.breaks[piece + 1]) - start
    spans, clock = straight_clock(start, length, velocity, acceleration, jerk)
    return spans, clock, np.full(len(spans), piece, np.int32)


def _jerks(limits: JointLimits) -> Array:
    """Return the jerk limits, infinite ones replaced by finite ones."""
    return np.where(np.isinf(limits.jerk), limits.acceleration / _QUICK, limits.jerk)


class _FurtherLimits(NamedTuple):
    """Limits that are not of joints; they are like velocities or accelerations of further ones."""

    efforts: PathEfforts | None
    speeds: PointSpeeds | None

    @property
    def bounds(self) -> Array:
        """Bounds of velocity, acceleration and jerk, shape (3, count)."""
        strips = 0 if self.efforts is None else self.efforts.count
        points = 0 if self.speeds is None else self.speeds.count
        bounds = np.full((3, strips + points), _UNLIMITED)
        bounds[1, :strips] = 1.0
        bounds[0, strips:] = 1.0
        return bounds

    def rows(self, q: Array, q1: Array, q2: Array) -> Array:
        """Return what stands for their three derivatives, shape (k, 3, count).

        Args:
            q: positions, shape (k, n).
            q1: their derivatives by the parameter, shape (k, n).
            q2: their second derivatives, shape (k, n).
        """
        rows = np.zeros((len(q), 3, self.bounds.shape[1]))
        strips = 0
        if self.efforts is not None:
            strips = self.efforts.count
            rows[:, :2, :strips] = self.efforts.strips_at(q, q1, q2)
        if self.speeds is not None:
            rows[:, 0, strips:] = self.speeds.shares(q, q1)
        return rows


def _part(
    path: JointPath,
    ends: tuple[int, int],
    limits: JointLimits,
    intervals: int,
    more: _FurtherLimits,
) -> tuple[Array, Array, IndexArray]:
    """Return durations, clock and pieces of the intervals between two breaks of the path."""
    begin, end = ends
    start, length = path.breaks[begin], path.breaks[end] - path.breaks[begin]
    breaks = np.empty(end + 1 - begin)
    parameters((path.breaks[begin : end + 1] - start) / length, breaks)
    fine = min(1.0, _JERK_PIECES_FINE / len(path.coefficients))
    least = np.rint(fine * np.where(path.bent[begin:end], _JERK_LEAST, _JERK_LEAST_OF_LINE))
    counts = np.maximum(2, least).astype(np.intp)
    spans = breaks[1:] - breaks[:-1]
    counts += np.rint(intervals * spans).astype(np.intp)
    among = np.repeat(np.arange(end - begin, dtype=np.int32), counts)
    step = np.arange(len(among)) - (counts.cumsum() - counts)[among]
    grid = np.empty(len(among) + 1)
    grid[:-1], grid[-1] = breaks[among] + step * (spans / counts)[among], 1.0
    piece = (among + begin).astype(np.int32)

    n = len(limits.names)
    D = np.empty((len(piece), PLACES, 3, n))
    where = ParameterPath(path.breaks, path.coefficients, piece, grid, float(start), float(length))
    parameter_derivatives(where, D)
    bounds = np.array([limits.velocity, limits.acceleration, _jerks(limits)])
    if more.bounds.size:
        D = np.concatenate([D, _further_rows(path, D, grid, piece, more)], axis=3)
        bounds = np.concatenate([bounds, more.bounds], axis=1)
    times, clock = np.empty(len(grid)), np.empty((len(piece), 6))
    joints = np.array([limits.velocity, limits.acceleration, limits.jerk])
    _, stretch = jerk_limited_motion(where, D, joints, bounds, times, clock)
    return (times[1:] - times[:-1]) * stretch, clock / stretch ** np.arange(6), piece


def _further_rows(
    path: JointPath, D: Array, grid: Array, piece: IndexArray, more: _FurtherLimits
) -> Array:
    """Return the rows of further limits in place of derivatives, shape (N, PLACES, 3, count)."""
    start = path.breaks[piece[0]]
    length = path.breaks[piece[-1] + 1] - start
    z = (grid[:-1, None] + np.diff(grid)[:, None] * (np.arange(PLACES) / (PLACES - 1))).ravel()
    distance = start + length * z**3 * (10.0 - 15.0 * z + 6.0 * z**2)
    q = path.evaluate(distance, 0, np.repeat(piece, PLACES))
    q1, q2 = (D[:, :, order].reshape(q.shape) for order in range(2))
    return more.rows(q, q1, q2).reshape(*D.shape[:3], -1)


def retime(
    path: ArrayLike,
    limits: JointLimits,
    *,
    velocity_scaling: float = 1.0,
    acceleration_scaling: float = 1.0,
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
    scaled = scaled_limits(limits, velocity_scaling, acceleration_scaling)
    corners = CornerBlending() if blending is None else blending
    lines = blended_path(limits.names, points, scaled.velocity, corners)
    return time_optimal(lines, scaled, efforts=efforts)


def time_optimal(
    path: JointPath,
    limits: JointLimits,
    *,
    efforts: PathEfforts | None = None,
    speeds: PointSpeeds | None = None,
) -> TimedPath:
    """Return the time-optimal motion along a path from rest to rest.

    If a joint has a jerk limit, accelerations are continuous.

    Args:
        path: with continuous second derivatives between its stops.
        limits: of its joints; position limits are ignored.
        efforts: effort limits; None: not considered.
        speeds: speed limits of points such as a tool; None: none.
    """
    solve = jerk_limited if np.isfinite(limits.jerk).any() else _acceleration_limited
    motion = solve(path, limits)
    if speeds is not None and speeds.stretch(motion) <= 1.0:
        speeds = None
    if speeds is not None:
        motion = solve(path, limits, None, speeds)
    if efforts is not None and efforts.count > 0 and efforts.stretch(motion) > 1.0:
        motion = solve(path, limits, efforts, speeds)
        motion = motion.stretched(efforts.stretch(motion))
    return motion if speeds is None else motion.stretched(min(SLOWEST, speeds.stretch(motion)))


def _acceleration_limited(
    path: JointPath,
    limits: JointLimits,
    efforts: PathEfforts | None = None,
    speeds: PointSpeeds | None = None,
) -> TimedPath:
    grid, piece = speed_grid(path, GRID_INTERVALS)
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
    moved = np.abs(points[1:] - points[:-1]).max(axis=1) > EQUAL_POSITIONS
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
    if shares == [1.0, 1.0] and jerk is limits.jerk:
        return limits
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
