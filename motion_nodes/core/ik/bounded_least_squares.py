# SPDX-License-Identifier: Apache-2.0
"""Least squares with bounds on each variable: the step of differential inverse kinematics."""

from __future__ import annotations

import numpy as np

from motion_nodes.typing import Array


def bounded_least_squares(
    A: Array, b: Array, damping: float, x_0: Array, low: Array, high: Array
) -> Array:
    """Return the x between bounds that minimises ``|A x - b|^2 + damping |x - x_0|^2``.

    Args:
        A: shape (m, n).
        b: shape (m,).
        damping: above 0.
        x_0: shape (n,).
        low: lower bounds, shape (n,).
        high: upper bounds, none below its lower one, shape (n,).

    Source: P. B. Stark and R. L. Parker, "Bounded-variable least-squares: an algorithm and
    applications", Computational Statistics 10, 1995.
    """
    n = len(low)
    H, g = A.T @ A + damping * np.eye(n), A.T @ b + damping * x_0
    x = np.clip(x_0, low, high)
    free = (low < x) & (x < high)
    for _ in range(10 * n):
        desired = x.copy()
        if free.any():
            rest = g[free] - H[np.ix_(free, ~free)] @ x[~free]
            desired[free] = np.linalg.solve(H[np.ix_(free, free)], rest)
        beyond = free & ((desired < low) | (desired > high))
        if beyond.any():
            # Move to the first active bound, and fix that variable there.
            ends = np.where(desired > high, high, low)
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.where(beyond, (ends - x) / (desired - x), np.inf)
            first = int(np.argmin(shares))
            x = x + max(0.0, float(shares[first])) * (desired - x)
            x[first], free[first] = ends[first], False
            continue
        x = desired
        slope = g - H @ x
        gain = np.where(x <= low, slope, np.where(x >= high, -slope, 0.0))
        gain[free | (low == high)] = 0.0
        best = int(np.argmax(gain))
        if gain[best] <= 1e-12 * (1.0 + float(np.abs(g).max())):
            break
        free[best] = True
    return np.asarray(np.clip(x, low, high))
