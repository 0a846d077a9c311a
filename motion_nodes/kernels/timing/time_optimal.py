# SPDX-License-Identifier: Apache-2.0
"""Time-optimal motion along a path under limits of velocity and acceleration.

Source: H. Pham, Q.-C. Pham, "A new approach to time-optimal path parameterization based on
reachability analysis", IEEE Transactions on Robotics 34(3), 2018 (TOPP-RA). With x the squared
speed along the path and u the acceleration along it, each joint's limit is a strip ``|A u + B x| <=
a`` at both ends of an interval. The backward pass computes the max controllable x, the forward pass
applies the max u. Further strips may be given, e.g. those of effort limits.

The limits are symmetric, so x = 0, u = 0 is always feasible and the controllable sets begin at 0.
The max x is where max and min u are equal; their difference is concave in x, and Newton's method on
it converges in a few steps (instead of a linear program).
"""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.jit import bare_part, kernel
from motion_nodes.kernels.kinematic_arrays import Array, IndexArray
from motion_nodes.kernels.timing.path_pieces import slopes

_FLAT = 1e-12
"""Slopes below this do not constrain the factor they are multiplied with."""
_FASTEST = 1e12
"""Max squared speed along the path."""
_STEPS = 50
"""Max number of Newton steps; each makes at least one strip inactive."""


@bare_part
def _bounds(
    inverse: Array, slope: Array, a: Array, i: int, x: float, span: float, most: float
) -> tuple[float, float, float, float]:
    """Return max and min u at x, and their derivatives with respect to x.

    Args:
        inverse: 1 / A of each strip, 0 if it does not constrain u, shape (N, 2 n).
        slope: -B / A, shape (N, 2 n).
        a: limits, shape (N, n).
        i: interval.
        x: squared speed at its begin.
        span: length of the interval.
        most: max squared speed at its end.
    """
    n = a.shape[1]
    high, high_slope = (most - x) / (2.0 * span), -1.0 / (2.0 * span)
    low, low_slope = -x / (2.0 * span), -1.0 / (2.0 * span)
    for k in range(2 * n):
        if inverse[i, k] == 0.0:
            continue
        limit = a[i, k if k < n else k - n] * abs(inverse[i, k])
        middle = slope[i, k] * x
        if middle + limit < high:
            high, high_slope = middle + limit, slope[i, k]
        if middle - limit > low:
            low, low_slope = middle - limit, slope[i, k]
    return high, low, high_slope, low_slope


@kernel
def fastest_speeds(
    breaks: Array,
    coefficients: Array,
    grid: Array,
    piece: IndexArray,
    velocity: Array,
    acceleration: Array,
    strips: Array,
    x: Array,
    u: Array,
) -> None:
    """Write the time-optimal motion; distances along the path are in [rad or m].

    Args:
        breaks: of the path, shape (m + 1,).
        coefficients: of the path, shape (m, d + 1, n).
        grid: increasing distances along the path, including all breaks, shape (N + 1,).
        piece: piece of the path of each interval, shape (N,).
        velocity: limits in each interval [rad/s or m/s], shape (N, n).
        acceleration: limits in each interval [rad/s^2 or m/s^2], then those of k further strips,
            shape (N, n + k).
        strips: A and B of these strips at begin and end of each interval, shape (N, 2, 2, k).
        x: squared speed along the path at the grid, shape (N + 1,): upper bound on input (0 where
            the motion stops, as at the ends), result.
        u: result, acceleration along the path in each interval, shape (N,).
    """
    count, n = velocity.shape
    rows = acceleration.shape[1]
    inverse, slope = np.empty((count, 2 * rows)), np.empty((count, 2 * rows))
    d0, d1, d2, d3 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    most = np.minimum(x, _FASTEST)
    for i in range(count):
        begin, span = grid[i] - breaks[piece[i]], grid[i + 1] - grid[i]
        for end in range(2):
            slopes(coefficients, piece[i], begin + end * span, d0, d1, d2, d3)
            for j in range(rows):
                if j < n:
                    A, B = d1[j], d2[j]
                    if abs(A) > _FLAT:
                        most[i + end] = min(most[i + end], (velocity[i, j] / A) ** 2)
                else:
                    A, B = strips[i, end, 0, j - n], strips[i, end, 1, j - n]
                k, factor = end * rows + j, A + 2.0 * span * end * B
                if abs(factor) > _FLAT:
                    inverse[i, k], slope[i, k] = 1.0 / factor, -B / factor
                else:
                    inverse[i, k] = slope[i, k] = 0.0
                    if abs(B) > _FLAT:
                        most[i] = min(most[i], acceleration[i, j] / abs(B))
    for i in range(count - 1, -1, -1):
        span = grid[i + 1] - grid[i]
        speed = most[i]
        for _ in range(_STEPS):
            high, low, high_slope, low_slope = _bounds(
                inverse, slope, acceleration, i, speed, span, most[i + 1]
            )
            if high >= low or high_slope >= low_slope:
                break
            speed = max(0.0, speed - (high - low) / (high_slope - low_slope))
        most[i] = speed
    x[0] = most[0]
    for i in range(count):
        span = grid[i + 1] - grid[i]
        high, _, _, _ = _bounds(inverse, slope, acceleration, i, x[i], span, most[i + 1])
        x[i + 1] = min(max(0.0, x[i] + 2.0 * span * high), most[i + 1])
        u[i] = (x[i + 1] - x[i]) / (2.0 * span)
