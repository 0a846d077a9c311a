# SPDX-License-Identifier: Apache-2.0
"""Uniform B-splines over a parameter from 0 to 1, clamped at their first and last point.

Source: C. de Boor, "A Practical Guide to Splines", 1978, chapters IX and X.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from motion_nodes.trajectory.joint_path import JointPath
from motion_nodes.typing import Array

DEGREE = 5
"""Four continuous derivatives, so that jerks change smoothly."""


@dataclass(frozen=True, eq=False)
class BSpline:
    """Linear maps from m control points to values of the curve."""

    samples: Array
    """Values at equal steps of the parameter, both ends included, shape (s, m)."""
    rate: Array
    """The integral of the squared first derivative as a quadratic form, shape (m, m)."""
    curvature: Array
    """The same for the second derivative."""
    pieces: Array
    """Polynomial coefficients of each piece, lowest power first, shape (p, d + 1, m)."""

    def path(self, joint_names: tuple[str, ...], P: Array) -> JointPath:
        """Return the curve with control points P, shape (m, n)."""
        breaks = np.linspace(0.0, 1.0, len(self.pieces) + 1)
        return JointPath(joint_names, breaks, self.pieces @ P, np.empty(0))

    def fitted(self, points: Array) -> Array:
        """Return control points, shape (m, n), of a curve close to points, shape (s, n).

        It begins and ends exactly with the first and the last of them.
        """
        B, P = self.samples, np.empty((self.samples.shape[1], points.shape[1]))
        P[0], P[-1] = points[0], points[-1]
        rest = points - B[:, [0, -1]] @ P[[0, -1]]
        # A little smoothing keeps control points between widely spaced samples in place.
        inner = B[:, 1:-1]
        A = inner.T @ inner + 1e-6 * self.curvature[1:-1, 1:-1]
        b = inner.T @ rest - 1e-6 * self.curvature[1:-1][:, [0, -1]] @ P[[0, -1]]
        P[1:-1] = np.linalg.solve(A, b)
        return P


@functools.lru_cache(maxsize=8)
def bspline(points: int, samples: int) -> BSpline:
    """Return the maps for a number of control points, at least six, and of samples."""
    count = points - DEGREE  # of pieces
    inner = np.linspace(0.0, 1.0, count + 1)
    knots = np.concatenate([np.zeros(DEGREE), inner, np.ones(DEGREE)])
    # Each piece from its values at as many places as it has coefficients.
    local = np.linspace(0.0, 1.0 / count, DEGREE + 1)
    powers = np.linalg.inv(np.vander(local, increasing=True))
    pieces = np.array([powers @ _values(knots, points, start + local, k) for k, start in
                       enumerate(inner[:-1])])  # fmt: skip
    nodes, weights = np.polynomial.legendre.leggauss(DEGREE)
    at, share = 0.5 * (nodes + 1.0) / count, 0.5 * weights / count
    forms = []
    for order in (1, 2):
        rows = np.array([
            [np.prod(np.arange(p, p - order, -1)) * x ** max(p - order, 0) for p in
             range(DEGREE + 1)] for x in at
        ])  # fmt: skip
        D = (rows @ pieces).reshape(-1, points)
        forms.append(D.T @ (np.tile(share, count)[:, None] * D))
    u = np.linspace(0.0, 1.0, samples)
    piece = np.minimum((u * count).astype(np.intp), count - 1)
    values = np.array([_values(knots, points, u[[k]], piece[k])[0] for k in range(samples)])
    return BSpline(values, forms[0], forms[1], pieces)


def _values(knots: Array, count: int, u: Array, piece: int) -> Array:
    """Return the values of the basis functions in one piece (Cox and de Boor), (k, count)."""
    N = np.zeros((len(u), len(knots) - 1))
    N[:, piece + DEGREE] = 1.0
    for degree in range(1, DEGREE + 1):
        for i in range(len(knots) - 1 - degree):
            left, right = knots[i + degree] - knots[i], knots[i + degree + 1] - knots[i + 1]
            rising = (u - knots[i]) / left * N[:, i] if left > 0.0 else 0.0
            falling = (knots[i + degree + 1] - u) / right * N[:, i + 1] if right > 0.0 else 0.0
            N[:, i] = rising + falling
    return N[:, :count]
