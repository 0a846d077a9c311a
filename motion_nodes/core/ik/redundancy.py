# SPDX-License-Identifier: Apache-2.0
"""Redundancy resolution: objectives in the null space, and self-motion of the arm.

A joint velocity z moves the tip only by its component outside the null space of the Jacobian; ``(I
- J^+ J) z`` is the null space component. Source: A. Liegeois, "Automatic supervisory control of the
configuration and behavior of multibody mechanisms", IEEE Trans. SMC 7(12), 1977.
With a fixed tool, the arm moves along its self-motion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkTolerance, Objective, as_configurations, pose_error
from motion_nodes.core.robot.poses import rate_of_rotation_vector
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.typing import Array

_EPSILON = 1e-6
_LONGEST_STEP = 0.2
"""Max joint displacement per step [rad or m]."""
_NEAR_LIMIT = 1e-5
"""Distance from a limit below which a joint does not move towards it [rad or m]."""
STILL = IkTolerance(1e-6, 1e-6)
"""Default tolerance of the tool pose."""


class Posture:
    """Distance from a posture: ``1/2 sum w (q - q_ref)^2``."""

    def __init__(self, chain: IkChain, reference: ArrayLike, weights: ArrayLike = 1.0) -> None:
        """Create the objective.

        Args:
            chain: the joints.
            reference: the posture [rad or m], shape (n,).
            weights: weight of each joint, shape (n,) or a scalar.
        """
        self._turns = chain.turns
        self._reference = as_configurations(reference, chain.joint_names, "posture")[0]
        self._weights = np.broadcast_to(np.asarray(weights, np.float64), self._reference.shape)
        if not (np.isfinite(self._weights) & (self._weights >= 0.0)).all():
            raise InvalidCommand(
                f"weights of a posture must be at least 0 and finite, got {weights!r}."
            )

    def value(self, q: Array) -> float:
        """Return the weighted squared distance from the posture."""
        return float(0.5 * self._weights @ self._turns.difference(self._reference, q) ** 2)

    def gradient(self, q: Array) -> Array:
        """Return the gradient, shape (n,)."""
        return np.asarray(self._weights * self._turns.difference(self._reference, q))


class LimitCentring:
    """Distance from the middle of the joint ranges: ``1/2 sum ((q - middle) / half range)^2``.

    Joints without limits have no weight.
    """

    def __init__(self, chain: IkChain) -> None:
        half = (chain.upper - chain.lower) / 2.0
        usable = np.isfinite(half) & (half > 0.0)
        self._middle = np.where(usable, chain.centre, 0.0)
        self._factor = np.where(usable, 1.0 / np.where(usable, half, 1.0) ** 2, 0.0)

    def value(self, q: Array) -> float:
        """Return half the sum of squared distances, each as a fraction of half a joint range."""
        return float(0.5 * self._factor @ (q - self._middle) ** 2)

    def gradient(self, q: Array) -> Array:
        """Return the gradient, shape (n,)."""
        return np.asarray(self._factor * (q - self._middle))


class Manipulability:
    """Distance from singular configurations: minus the logarithm of ``sqrt(det(J J^T))``.

    Source: T. Yoshikawa, "Manipulability of robotic mechanisms", Int. J. Robotics Research 4(2),
    1985. The logarithm makes the measure independent of units, up to a constant.
    """

    def __init__(self, chain: IkChain) -> None:
        self._chain = chain
        self._n = len(chain.joint_names)

    def value(self, q: Array) -> float:
        """Return minus the logarithm of the manipulability, dimensionless."""
        return float(self._values(q[np.newaxis])[0])

    def gradient(self, q: Array) -> Array:
        """Return the gradient by central differences, shape (n,)."""
        shifts = np.vstack([np.eye(self._n), -np.eye(self._n)]) * _EPSILON
        values = self._values(q + shifts)
        return np.asarray((values[: self._n] - values[self._n :]) / (2.0 * _EPSILON))

    def _values(self, Q: Array) -> Array:
        J = self._chain.kinematics.jacobian_batch(Q, self._chain.tip)
        if self._n < 6:
            gram = np.einsum("mik,mil->mkl", J, J)
        else:
            gram = np.einsum("mik,mjk->mij", J, J)
        return np.asarray(-0.5 * np.log(np.maximum(np.linalg.det(gram), 1e-300)))


def improved(
    keeper: TipKeeper,
    q: Array,
    objectives: Sequence[Objective],
    deadline: float = math.inf,
    steps: int = 100,
) -> Array:
    """Return a solution with a better value of the objectives.

    Gradient descent on the sum of the objectives within the null space, each step followed by a
    correction of the tip, with the step length of Barzilai and Borwein; a step without improvement
    is halved. Source of the step length: J. Barzilai and J. M. Borwein, "Two-point step size
    gradient methods", IMA J. Numerical Analysis 8(1), 1988.

    Args:
        keeper: keeps the tip at the target.
        q: a solution [rad or m], shape (n,).
        objectives: objectives to minimise.
        deadline: end time on the clock of :func:`compute_time` [s].
        steps: max number of steps.
    """

    def total(q: Array) -> float:
        return sum(objective.value(q) for objective in objectives)

    def downhill(q: Array) -> Array:
        slope = np.sum([objective.gradient(q) for objective in objectives], axis=0)
        return keeper.within_null_space(q, -slope)

    value, direction, factor = total(q), downhill(q), 1.0
    for _ in range(steps):
        length = float(np.abs(direction).max())
        factor = min(factor, _LONGEST_STEP / max(length, 1e-12))
        if factor * length < 1e-6 or compute_time() > deadline:
            break
        moved = keeper.corrected(q + factor * direction)
        if moved is None or not total(moved) < value:
            factor /= 2.0
            continue
        change, before = moved - q, direction
        q, value, direction = moved, total(moved), downhill(moved)
        curvature = float(change @ (before - direction))
        factor = float(change @ change) / curvature if curvature > 0.0 else 2.0 * factor
    return q


class TipKeeper:
    """Moves the joints of a chain while its tip stays at a target."""

    def __init__(
        self,
        chain: IkChain,
        X_BT: Array,
        tolerance: IkTolerance,
        limits: tuple[Array, Array] | None = None,
    ) -> None:
        """Create the object.

        Args:
            chain: the joints.
            X_BT: the target in the base, shape (4, 4).
            tolerance: tolerance of a solution.
            limits: lower and upper joint limits [rad or m], both of shape (n,); None: the chain's.
        """
        self._chain, self._target, self._tolerance = chain, X_BT, tolerance
        self._lower, self._upper = limits or (chain.lower, chain.upper)
        self._counts = ~tolerance.free
        self._scale = np.where(np.arange(6) < 3, 1.0 / max(chain.size, 1e-6), 1.0)

    def within_null_space(self, q: Array, z: Array) -> Array:
        """Return the component of a motion that keeps the tip fixed and respects the limits.

        Joints that would exceed their limits are excluded one after the other, so that the others
        compensate for them.
        """
        J = self._jacobian(q)
        stuck = self._lower == self._upper
        for _ in range(len(q)):
            free = ~stuck
            motion = np.zeros(len(q))
            if not free.any():
                return motion
            J_free = J[:, free]
            motion[free] = z[free] - np.linalg.pinv(J_free, rcond=1e-6) @ (J_free @ z[free])
            low, high = q <= self._lower + _NEAR_LIMIT, q >= self._upper - _NEAR_LIMIT
            outward = low & (motion < 0.0) | high & (motion > 0.0)
            outward &= free
            if not outward.any():
                return motion
            stuck |= outward
        return motion

    def null_direction(self, q: Array) -> Array | None:
        """Return a unit joint velocity, (n,), that keeps the tip fixed; None if there is none."""
        _, sizes, rows = np.linalg.svd(self._jacobian(q))
        rank = int((sizes > 1e-6).sum())
        return rows[-1].copy() if rank < len(q) else None

    def corrected(self, q: Array, steps: int = 10) -> Array | None:
        """Return joint positions within the limits, near given ones, with the tip at the target.

        Returns:
            None if the correction does not converge.
        """
        q = np.clip(q, self._lower, self._upper)
        for _ in range(steps):
            errors = self._errors(q)
            desired = self._beyond(errors)
            if not desired.any():
                return q
            J = self._jacobian(q, desired != 0.0)
            r = (self._scale * desired)[desired != 0.0]
            free = ~((q <= self._lower) & (J.T @ r > 0.0) | (q >= self._upper) & (J.T @ r < 0.0))
            J = J * free
            gram = J @ J.T + 1e-10 * np.eye(len(r))
            q = np.clip(q - J.T @ np.linalg.solve(gram, r), self._lower, self._upper)
        return None

    def _errors(self, q: Array) -> Array:
        return pose_error(self._chain.kinematics.pose(q, self._chain.tip), self._target)

    def _beyond(self, errors: Array) -> Array:
        """Return the error to be corrected: none if well within tolerance."""
        tolerance = self._tolerance
        kept = np.where(self._counts, errors, 0.0)
        if tolerance.accepts(2.0 * kept):
            return np.zeros(6)
        return kept

    def _jacobian(self, q: Array, rows: Array | None = None) -> Array:
        """Return the scaled Jacobian of the constrained error components."""
        X_BE, J_B = self._chain.kinematics.pose_and_jacobian(q, self._chain.tip)
        R_TB = self._target[:3, :3].T
        turning = R_TB
        if not self._counts[3:].all():  # else it changes nothing
            phi = pose_error(X_BE, self._target)[3:]
            turning = rate_of_rotation_vector(phi) @ R_TB
        J = np.vstack([R_TB @ J_B[:3], turning @ J_B[3:]]) * self._scale[:, np.newaxis]
        return np.asarray(J[self._counts if rows is None else rows])


def self_motion(
    chain: IkChain,
    q: ArrayLike,
    *,
    step: float = 0.05,
    count: int = 100,
    tolerance: IkTolerance = STILL,
) -> Array:
    """Return the self-motion of a chain with one redundant degree of freedom, up to a limit.

    Args:
        chain: the joints; one more than the tip needs, such as seven.
        q: start, within the limits [rad or m], shape (n,).
        step: displacement of the fastest joint between rows; negative for the opposite direction.
        count: max number of steps.
        tolerance: of the tip pose.

    Returns:
        Joint positions, the first row is ``q``, shape (m, n) with m <= count + 1.

    Raises:
        InvalidCommand: joint positions of wrong length, not finite or outside the limits.
        InvalidConfig: the chain has no redundant degree of freedom.
    """
    now = _inside(chain, q)
    keeper = TipKeeper(chain, chain.kinematics.pose(now, chain.tip), tolerance)
    length, rows = abs(_checked_step(step)), [now]
    direction = keeper.null_direction(now)
    if direction is None:
        raise InvalidConfig(
            f"{chain.robot_name}: the joints to '{chain.tip}' have no redundant degree of freedom; "
            "free an axis by an infinite tolerance, or use a chain with more joints."
        )
    direction *= np.sign(direction[np.argmax(np.abs(direction))]) * np.sign(step)
    for _ in range(count):
        q_next = keeper.corrected(rows[-1] + direction * length / float(np.abs(direction).max()))
        if q_next is None or float(np.abs(q_next - rows[-1]).max()) > 2.0 * length:
            break
        if float((q_next - rows[-1]) @ direction) < 0.5 * length * float(np.linalg.norm(direction)):
            break  # a limit reversed the motion
        rows.append(q_next)
        direction = keeper.within_null_space(q_next, direction)
        if float(np.abs(direction).max()) < 1e-3:
            break
        direction /= np.linalg.norm(direction)
    return np.array(rows)


def _inside(chain: IkChain, q: ArrayLike) -> Array:
    """Return joint positions; raise an error if one is outside its limits."""
    values: Array = as_configurations(q, chain.joint_names, "q")[0]
    outside = [
        f"{name} is {value:.6g}, allowed is {low:.6g} to {high:.6g}"
        for name, value, low, high in zip(
            chain.joint_names, values, chain.lower, chain.upper, strict=True
        )
        if not low <= value <= high
    ]
    if outside:
        raise InvalidCommand(f"the motion cannot start outside the limits: {'; '.join(outside)}.")
    return values


def _checked_step(step: float) -> float:
    if not 0.0 < abs(step) <= 0.5:
        raise InvalidConfig(f"step is {step}; it must be above 0 and at most 0.5.", field="step")
    return step
