# SPDX-License-Identifier: Apache-2.0
"""Time-optimal motion along a path under limits of velocity, acceleration and jerk.

From rest with constant jerk the distance grows with the cube of time, so that velocity as a
function of distance begins with an infinite slope. The path is therefore reparameterized over z
from 0 to 1 with distance z^3 (10 - 15 z + 6 z^2): its rate is well above 0 at the ends too, and all
functions are smooth there.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.timing.jerk_lanes import PLACES
from motion_nodes.kernels.timing.jerk_limited import jerk_limited_motion, parameter_derivatives
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.joint_path import JointPath
from motion_nodes.trajectory.path_efforts import PathEfforts
from motion_nodes.trajectory.point_speeds import PointSpeeds
from motion_nodes.trajectory.straight_line import straight_clock
from motion_nodes.trajectory.timed_path import TimedPath
from motion_nodes.trajectory.trajectory import Infeasible
from motion_nodes.typing import Array, IndexArray

_QUICK = 1e-3
"""Time in which joints without jerk limit reach their max acceleration [s]."""
MOST_PIECES = 12_000
"""Longer paths would take minutes: splines have one polynomial per waypoint, lines with blended
corners two."""
_LEAST, _LEAST_OF_LINE, _PIECES_FINE = 10, 4, 250
"""Intervals per curved piece and per line, in addition to those for its length; fewer where there
are more pieces."""
_LEAST_OF_PART = 50
"""Min number of intervals between two stops."""
_NEWTON_STEPS = 4
_UNLIMITED = 1e9
"""Replacement of missing velocity and jerk limits."""


def jerk_limited(
    path: JointPath,
    limits: JointLimits,
    intervals: int,
    efforts: PathEfforts | None = None,
    speeds: PointSpeeds | None = None,
) -> TimedPath:
    """Return the time-optimal motion along a path, at rest at its ends and stops.

    Args:
        path: with continuous second derivatives between its stops.
        limits: of its joints; velocities and accelerations finite.
        intervals: of the grid, in addition to some for each piece.
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
    besides = _LEAST * len(path.coefficients)
    intervals = max(intervals // 2, intervals - besides) // (len(path.stops) + 1)
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
    breaks = _parameter((path.breaks[begin : end + 1] - start) / length)
    fine = min(1.0, _PIECES_FINE / len(path.coefficients))
    least = np.rint(fine * np.where(path.bent[begin:end], _LEAST, _LEAST_OF_LINE))
    counts = np.maximum(2, least).astype(np.intp)
    counts += np.rint(intervals * np.diff(breaks)).astype(np.intp)
    among = np.repeat(np.arange(end - begin, dtype=np.int32), counts)
    step = np.arange(len(among)) - np.repeat(np.cumsum(counts) - counts, counts)
    grid = np.append(breaks[among] + step / counts[among] * np.diff(breaks)[among], 1.0)
    piece = (among + begin).astype(np.int32)

    n = len(limits.names)
    D = np.empty((len(piece), PLACES, 3, n))
    where = (path.breaks, path.coefficients, piece, grid, float(start), float(length))
    parameter_derivatives(*where, D)
    bounds = np.array([limits.velocity, limits.acceleration, _jerks(limits)])
    if more.bounds.size:
        D = np.concatenate([D, _further_rows(path, D, grid, piece, more)], axis=3)
        bounds = np.concatenate([bounds, more.bounds], axis=1)
    times, clock = np.empty(len(grid)), np.empty((len(piece), 6))
    joints = np.array([limits.velocity, limits.acceleration, limits.jerk])
    _, stretch = jerk_limited_motion(where, D, joints, bounds, times, clock)
    return np.diff(times) * stretch, clock / stretch ** np.arange(6), piece


def _further_rows(
    path: JointPath, D: Array, grid: Array, piece: IndexArray, more: _FurtherLimits
) -> Array:
    """Return the rows of further limits in place of derivatives, shape (N, PLACES, 3, count)."""
    start = path.breaks[piece[0]]
    length = path.breaks[piece[-1] + 1] - start
    rows = np.empty((*D.shape[:3], more.bounds.shape[1]))
    for place in range(PLACES):
        z = grid[:-1] + np.diff(grid) * place / (PLACES - 1)
        q = path.evaluate(start + _distance(z, length)[0], 0, piece)
        rows[:, place] = more.rows(q, D[:, place, 0], D[:, place, 1])
    return rows


def _distance(z: Array, length: float) -> tuple[Array, Array, Array, Array]:
    """Return the distance at a parameter from 0 to 1 and its three derivatives."""
    rest = 1.0 - z
    return (
        length * z**3 * (10.0 - 15.0 * z + 6.0 * z**2),
        length * 30.0 * (z * rest) ** 2,
        length * 60.0 * z * rest * (1.0 - 2.0 * z),
        length * 60.0 * (1.0 - 6.0 * z * rest),
    )


def _parameter(share: Array) -> Array:
    """Return the parameter at fractions of the length.

    The distance is symmetric about its middle. Newton's method starts from the first terms of the
    inverse's series, within 13 %.
    """
    less = np.minimum(share, 1.0 - share)
    z = np.cbrt(0.1 * less)
    z += 0.5 * z * z
    for _ in range(_NEWTON_STEPS):
        s, s1, _, _ = _distance(z, 1.0)
        z = z - np.divide(s - less, s1, out=np.zeros_like(z), where=s1 > 0.0)
    z = np.where(share > 0.5, 1.0 - z, z)
    z[0], z[-1] = 0.0, 1.0
    return z
