# SPDX-License-Identifier: Apache-2.0
"""The fastest motion along a path under limits of velocity, acceleration and jerk.

From rest with constant jerk the distance grows with the cube of time, so that speeds as a function
of the distance begin with an infinite slope. The path is therefore taken over a parameter z from 0
to 1 with distance z^3 (10 - 15 z + 6 z^2): its rate is well above 0 at the ends too, and everything
is smooth there.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jerk_limited import PLACES, jerk_limited_speeds
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.joint_path import IndexArray, JointPath
from motion_nodes.trajectory.timed_path import LimitUse, TimedPath

Array = NDArray[np.float64]

_QUICK = 1e-3
"""[s] Joints without jerk limit reach their greatest acceleration in this time."""
_FIRST_WEIGHTS = (0.1, 0.01, 0.01)
"""Of the barrier, for the first solution, and for those with tighter limits where the one before
exceeds them between its places."""
_SLIGHT = 1e-3
"""Such an excess is taken back by a little more time alone."""
_LEAST, _PIECES_FINE = 8, 250
"""Intervals of each piece, besides those for its share of the path; fewer with more pieces."""
_LEAST_OF_PART = 50
"""Intervals between two stops."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)


def jerk_limited(path: JointPath, limits: JointLimits, intervals: int) -> TimedPath:
    """Return the fastest motion along a path, at rest at its ends and stops.

    Args:
        path: with continuous second derivatives between its stops.
        limits: of its joints; velocities and accelerations finite.
        intervals: of the grid, besides some for each piece.
    """
    besides = _LEAST * len(path.coefficients)
    intervals = max(intervals // 2, intervals - besides) // (len(path.stops) + 1)
    intervals = max(_LEAST_OF_PART, intervals)
    cuts = np.concatenate([[0.0], path.stops, [path.length]])
    first = np.searchsorted(path.breaks, cuts)
    times, clocks, pieces = [np.zeros(1)], [], []
    for begin, end in itertools.pairwise(first.tolist()):
        spans, clock, piece = _part(path, begin, end, limits, intervals)
        times.append(times[-1][-1] + np.cumsum(spans))
        clocks.append(clock)
        pieces.append(piece)
    motion = TimedPath(path, np.concatenate(times), np.concatenate(clocks), np.concatenate(pieces))
    return motion.stretched(max(1.0, motion.limit_use(limits).stretch))


def _part(
    path: JointPath, begin: int, end: int, limits: JointLimits, intervals: int
) -> tuple[Array, Array, IndexArray]:
    """Return durations, clock and pieces of the intervals between two breaks of the path."""
    start, length = path.breaks[begin], path.breaks[end] - path.breaks[begin]
    breaks = _parameter((path.breaks[begin : end + 1] - start) / length)
    least = max(2, min(_LEAST, _LEAST * _PIECES_FINE // len(path.coefficients)))
    counts = least + np.rint(intervals * np.diff(breaks)).astype(np.intp)
    among = np.repeat(np.arange(end - begin, dtype=np.int32), counts)
    step = np.arange(len(among)) - np.repeat(np.cumsum(counts) - counts, counts)
    grid = np.append(breaks[among] + step / counts[among] * np.diff(breaks)[among], 1.0)
    piece = (among + begin).astype(np.int32)
    spans = np.diff(grid)

    n = len(limits.names)
    D = np.empty((len(piece), PLACES, 3, n))
    for place in range(PLACES):
        z = grid[:-1] + spans * (place / (PLACES - 1))
        s, s1, s2, s3 = (x[:, None] for x in _distance(z, length))
        q1, q2, q3 = (path.evaluate(start + s[:, 0], order, piece) for order in (1, 2, 3))
        D[:, place, 0] = q1 * s1
        D[:, place, 1] = q2 * s1**2 + q1 * s2
        D[:, place, 2] = q3 * s1**3 + 3.0 * q2 * s1 * s2 + q1 * s3
    jerk = np.where(np.isinf(limits.jerk), limits.acceleration / _QUICK, limits.jerk)
    velocity = np.tile(limits.velocity, (len(piece), 1))
    bounds = np.tile(np.array([limits.acceleration, jerk]), (len(piece), 1, 1))
    X, U, b = np.empty(len(grid)), np.empty(len(grid)), np.full(len(grid) + 1, -1.0)
    s, s1, s2, _ = _distance(grid, length)
    for first_weight in _FIRST_WEIGHTS:
        jerk_limited_speeds(D, spans, velocity, bounds, first_weight, b, X, U)
        clock, times = _quintics(start + s, s1 * np.sqrt(X), s2 * X + s1 * U, spans, X, U)
        motion = TimedPath(path, np.concatenate([[0.0], np.cumsum(times)]), clock, piece)
        use = np.maximum(motion.interval_use(limits), 1.0)
        if use.max() < 1.0 + _SLIGHT:
            break
        velocity /= use[:, 0:1]
        bounds /= use[:, 1:, None]
        b *= (1.01 * LimitUse(*use.max(axis=0).tolist()).stretch) ** -2
    return times, clock, piece


def _distance(z: Array, length: float) -> tuple[Array, Array, Array, Array]:
    """Return the distance for a parameter from 0 to 1 and its three derivatives."""
    rest = 1.0 - z
    return (
        length * z**3 * (10.0 - 15.0 * z + 6.0 * z**2),
        length * 30.0 * (z * rest) ** 2,
        length * 60.0 * z * rest * (1.0 - 2.0 * z),
        length * 60.0 * (1.0 - 6.0 * z * rest),
    )


def _parameter(share: Array) -> Array:
    """Return the parameter for shares of the length (bisection)."""
    low, high = np.zeros(len(share)), np.ones(len(share))
    for _ in range(60):
        middle = 0.5 * (low + high)
        beyond = _distance(middle, 1.0)[0] > share
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    low[0], low[-1] = 0.0, 1.0
    return low


def _quintics(
    s: Array, speed: Array, acceleration: Array, spans: Array, X: Array, U: Array
) -> tuple[Array, Array]:
    """Return the clock of all intervals, polynomials of degree five, and how long each takes.

    Args:
        s: distance at the grid.
        speed: its rate in time.
        acceleration: its second rate.
        spans: of the parameter.
        X: square of the parameter's rate, see :mod:`motion_nodes.kernels.jerk_limited`.
        U: half its slope.
    """
    bend = np.diff(U) / spans
    T = np.zeros(len(spans))
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):  # the integral of 1 / sqrt(X)
        z = 0.5 * spans * (1.0 + node)
        T += 0.5 * weight * spans / np.sqrt(X[:-1] + 2.0 * U[:-1] * z + bend * z**2)
    d, v0, v1 = np.diff(s), speed[:-1] * T, speed[1:] * T
    a0, a1 = acceleration[:-1] * T**2, acceleration[1:] * T**2
    clock = np.stack(
        [
            s[:-1],
            v0,
            0.5 * a0,
            10.0 * d - 6.0 * v0 - 4.0 * v1 - 1.5 * a0 + 0.5 * a1,
            -15.0 * d + 8.0 * v0 + 7.0 * v1 + 1.5 * a0 - a1,
            6.0 * d - 3.0 * v0 - 3.0 * v1 - 0.5 * a0 + 0.5 * a1,
        ],
        axis=1,
    )
    return clock / T[:, None] ** np.arange(6), T
