# SPDX-License-Identifier: Apache-2.0
"""Optimization of a curve: low velocities and accelerations, and clearance from obstacles.

With the duration T, velocities and accelerations of a curve q(u), u = t / T, are q' / T and q'' /
T^2. The sum of their squares relative to the limits, integrated over the curve, is a quadratic form
of the control points; clearances that are too small are added as squares (hinge loss, as in J.
Schulman et al., "Motion planning with sequential convex optimization and convex collision
checking", Int. J. Robotics Research 33(9), 2014). The sum of squares is minimized by the
Levenberg-Marquardt method. The exact time parameterization of the curve follows afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from motion_nodes.planning.trajopt.bspline import BSpline, bspline
from motion_nodes.planning.trajopt.clearances import Clearances
from motion_nodes.planning.trajopt.settings import TrajOptSettings
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

_WEIGHTS = (1.0, 10.0, 100.0)
"""Weights of the clearances, one after the other."""
_UNIT = 0.01
"""Missing clearance that counts 1 [m]."""
_BETWEEN = 0.3
"""Fraction of the desired clearance between links."""
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-6, 1e3
_LONGEST = 0.5
"""Max change of a control point per iteration [rad or m]."""
_CONVERGED = 1e-4
"""Relative improvement that ends the iterations with a weight."""
_GROWTH = 1.5
"""Ratio of the desired clearances of successive repetitions."""


class CurveOptimizer:
    """Optimizes curves of one robot in one scene; not thread-safe."""

    def __init__(self, checker: CollisionChecker, settings: TrajOptSettings) -> None:
        """Create.

        Args:
            checker: robot and scene; its joints must have velocity and acceleration limits.
            settings: of the optimization.
        """
        self._checker, self._settings = checker, settings
        self._limits = checker.limits
        self.spline: BSpline = bspline(settings.control_points, settings.samples)

    def optimized(self, points: Array, duration: float, give_up: Callable[[], bool]) -> Array:
        """Return control points of a curve, shape (m, n); it may still be in collision.

        Args:
            points: equally spaced configurations on the first path, shape (samples, n).
            duration: approximate duration of the motion [s].
            give_up: polled; True ends the optimization.
        """
        return self._minimized(self.spline.fitted(points), duration, 0, give_up)

    def repaired(
        self, P: Array, duration: float, number: int, give_up: Callable[[], bool]
    ) -> Array:
        """Return control points that are farther from obstacles.

        Args:
            P: control points of a curve in collision, shape (m, n).
            duration: as for :meth:`optimized`.
            number: of the repetition, from 1.
            give_up: as for :meth:`optimized`.
        """
        return self._minimized(P, duration, number, give_up)

    def _minimized(
        self, P: Array, duration: float, number: int, give_up: Callable[[], bool]
    ) -> Array:
        desired = self._settings.clearance * _GROWTH**number
        clearances = Clearances(self._checker, desired, _BETWEEN * desired)
        smooth = self._smoothness(duration)
        for weight in _WEIGHTS if number == 0 else (_WEIGHTS[-1] * 10.0**number,):
            P = self._descended(P, smooth, clearances, weight, give_up)
        return P

    def _smoothness(self, duration: float) -> Array:
        """Return the quadratic forms of the joints, shape (n, m, m)."""
        velocity = 1.0 / (duration * self._limits.velocity) ** 2
        acceleration = 1.0 / (duration**2 * self._limits.acceleration) ** 2
        forms = velocity[:, None, None] * self.spline.rate
        return np.asarray(forms + acceleration[:, None, None] * self.spline.curvature)

    def _descended(
        self,
        P: Array,
        smooth: Array,
        clearances: Clearances,
        weight: float,
        give_up: Callable[[], bool],
    ) -> Array:
        B = self.spline.samples
        n, inner = P.shape[1], P.shape[0] - 2
        damping = _DAMPING
        short = clearances.shortfalls(B @ P)
        cost = self._cost(P, smooth, short.missing, weight)
        fixed = np.zeros((n * inner, n * inner))
        for j in range(n):
            fixed[j * inner : (j + 1) * inner, j * inner : (j + 1) * inner] = smooth[j][1:-1, 1:-1]
        for _ in range(self._settings.iterations):
            if give_up():
                break
            G = short.gradient[:, :, None] * B[short.row, None, 1:-1] / _UNIT
            G = G.reshape(len(short.row), n * inner)
            H = fixed + weight * G.T @ G
            slope = np.einsum("jik,kj->ji", smooth, P)[:, 1:-1].ravel()
            right = weight * G.T @ (short.missing / _UNIT) - slope
            diagonal = np.diag(H) + 1e-9
            move = np.linalg.solve(H + damping * np.diag(diagonal), right).reshape(n, inner).T
            move *= min(1.0, _LONGEST / max(float(np.abs(move).max()), 1e-12))
            tried = P.copy()
            tried[1:-1] = np.clip(P[1:-1] + move, self._limits.lower, self._limits.upper)
            ahead = clearances.shortfalls(B @ tried)
            new = self._cost(tried, smooth, ahead.missing, weight)
            if new < cost:
                gain, P, short, cost = cost - new, tried, ahead, new
                damping = max(damping / 5.0, _LEAST_DAMPING)
                if gain < _CONVERGED * cost:
                    break
            else:
                damping *= 8.0
                if damping > _MOST_DAMPING:
                    break
        return P

    @staticmethod
    def _cost(P: Array, smooth: Array, missing: Array, weight: float) -> float:
        bending = np.einsum("ij,jik,kj->", P, smooth, P)
        return float(bending + weight * np.sum((missing / _UNIT) ** 2))
