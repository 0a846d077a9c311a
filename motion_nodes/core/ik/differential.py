# SPDX-License-Identifier: Apache-2.0
"""Differential inverse kinematics within joint limits, for jogging and servoing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class JogStep:
    """Result of one jog step."""

    velocity: Array
    """Joint velocities [rad/s or m/s], shape (n,)."""
    twist: Array
    """Resulting twist of the tip: linear [m/s], angular [rad/s], in the requested axes, shape (6,).
    """
    scale: float
    """Velocity scaling required by the joints' velocity limits, 0 to 1."""
    stopped: tuple[str, ...]
    """Joints stopped by a position limit."""
    smallest_singular_value: float
    """Smallest singular value of the Jacobian in metres per size of the arm; 0 at a singularity."""


class VelocityIk:
    """Damped differential inverse kinematics with bounds on each joint.

    Minimises ``|W (J v - twist)|^2 + lambda^2 |v - v_0|^2`` over joint velocities v between bounds.
    Bounds come from the velocity limits, and from the position limits, so that no joint exceeds its
    limit one period later. The damping is 0 except near singular configurations, where it is

        lambda^2 = lambda_max^2 (1 - (sigma_min / threshold)^2).

    Source: A. A. Maciejewski and C. A. Klein, "Numerical filtering for the operation of robotic
    manipulators through kinematically singular configurations", J. Robotic Systems 5(6), 1988.
    """

    def __init__(
        self,
        chain: IkChain,
        velocity_limits: ArrayLike,
        *,
        max_damping: float = 0.1,
        threshold: float = 0.05,
    ) -> None:
        """Create the solver.

        Args:
            chain: the joints.
            velocity_limits: max velocities [rad/s or m/s], shape (n,); inf for none.
            max_damping: lambda_max.
            threshold: smallest singular value without damping.

        Raises:
            InvalidConfig: wrong lengths or signs.
        """
        speeds = np.array(velocity_limits, np.float64)
        if speeds.shape != (len(chain.joint_names),) or not (speeds > 0.0).all():
            raise InvalidConfig(
                f"velocity limits must be one number above 0 for each of "
                f"{', '.join(chain.joint_names)}, got {velocity_limits!r}."
            )
        if not (max_damping > 0.0 and threshold > 0.0):
            raise InvalidConfig(
                f"max_damping ({max_damping}) and threshold ({threshold}) must be above 0.",
                field="threshold" if max_damping > 0.0 else "max_damping",
            )
        self._chain, self._speeds = chain, speeds
        self._max_damping, self._threshold = max_damping, threshold
        self._weights = np.where(np.arange(6) < 3, 1.0 / max(chain.size, 1e-6), 1.0)

    def step(
        self,
        q: ArrayLike,
        twist: ArrayLike,
        period: float,
        *,
        axes: Literal["base", "tip"] = "base",
        secondary: ArrayLike | None = None,
    ) -> JogStep:
        """Return joint velocities for the next period.

        If the joints' velocity limits do not allow the twist, it is scaled down as a whole, so that
        its direction is preserved. A joint that reaches a position limit stops there, and the
        others minimise the remaining error.

        Args:
            q: joint positions [rad or m], shape (n,).
            twist: commanded velocity of the tip's origin [m/s] and angular velocity [rad/s], (6,).
            period: time until the next step [s].
            axes: frame in whose axes the twist is expressed.
            secondary: preferred joint velocities in the null space [rad/s or m/s], shape (n,).

        Raises:
            InvalidCommand: values that are not finite, or wrong lengths.
        """
        chain, n = self._chain, len(self._chain.joint_names)
        now, desired = finite_numbers(q, n, "q"), finite_numbers(twist, 6, "twist")
        aside = np.zeros(n) if secondary is None else finite_numbers(secondary, n, "secondary")
        if not 0.0 < period < np.inf:
            raise InvalidCommand(
                f"period is {period} s; it must be above 0 and finite.", field="period"
            )
        X, J = chain.kinematics.pose_and_jacobian(now, chain.tip)
        if axes == "tip":
            R_TB = X[:3, :3].T
            J = np.vstack([R_TB @ J[:3], R_TB @ J[3:]])
        A = J * self._weights[:, np.newaxis]
        smallest, square = self._damping(A)
        free = _damped(A, self._weights * desired, square, aside)
        scale = 1.0 / max(1.0, float(np.max(np.abs(free) / self._speeds)))
        low = np.maximum(-self._speeds, (chain.lower - now) / period)
        high = np.minimum(self._speeds, (chain.upper - now) / period)
        # A joint beyond a limit may only move back, within its velocity limit.
        low, high = np.minimum(low, self._speeds), np.maximum(high, -self._speeds)
        v = bounded_least_squares(
            A, scale * self._weights * desired, square, scale * aside, low, high
        )
        held = (np.abs(v) < self._speeds) & ((v <= low) | (v >= high))
        stopped = tuple(
            name for name, is_held in zip(chain.joint_names, held, strict=True) if is_held
        )
        return JogStep(v, J @ v, scale, stopped, smallest)

    def _damping(self, A: Array) -> tuple[float, float]:
        """Return the smallest singular value, and the squared damping."""
        smallest = float(np.linalg.svd(A, compute_uv=False)[-1])
        share = min(1.0, smallest / self._threshold)
        return smallest, max(self._max_damping**2 * (1.0 - share**2), 1e-8)


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


def _damped(A: Array, b: Array, damping: float, x_0: Array) -> Array:
    """Return the same without bounds."""
    H = A.T @ A + damping * np.eye(A.shape[1])
    return np.asarray(np.linalg.solve(H, A.T @ b + damping * x_0))
