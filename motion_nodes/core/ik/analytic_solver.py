# SPDX-License-Identifier: Apache-2.0
"""The analytic solver: all solutions of an arm that has a closed form, nearest first.

Values of the redundant joint are tried from the current one, then over its range. An arm with six
joints has no redundant joint (index -1); it is solved once, and the value is ignored.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.analytic_arm import ALL, ClosedFormArm, Metric, with_all_turns
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.joint_sampling import distance, free_joint_samples, halton
from motion_nodes.core.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    IkStatus,
    as_configurations,
    joint_index,
    limits_with,
    pose_error,
    rejection,
    target_in_base,
    too_far,
)
from motion_nodes.core.robot.poses import as_pose
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.typing import Array

SWEEP = 25
"""Number of values tried at once."""
_SHARES = (np.arange(SWEEP) - 0.5) / (SWEEP - 1)
Turns = Literal["all", "nearest"]


class Answer:
    """Collects the result of a request."""

    attempts: int
    """Number of values of the redundant joint that were tried; 1 without a redundant joint."""

    def __init__(self, chain: IkChain, request: IkRequest, settings: IkSettings) -> None:
        self._began = compute_time()
        self._chain, self._request, self._settings = chain, request, settings
        self.attempts = 0
        self._status = IkStatus.NOT_FOUND
        self._q = chain.centre
        self._reason = ""
        self._refusals: Counter[str] = Counter()

    @property
    def found(self) -> bool:
        """Whether there is a solution."""
        return self._status is IkStatus.SOLVED

    def late(self) -> bool:
        """Return whether the timeout has expired."""
        return compute_time() - self._began > self._settings.timeout

    def accept(self, Q: Array) -> bool:
        """Accept the best valid configuration; return False if none is valid.

        Args:
            Q: solutions, closest first [rad], shape (m, n).
        """
        objectives, validity = self._request.objectives, self._request.validity
        if objectives:
            Q = np.array(sorted(Q, key=lambda q: sum(each.value(q) for each in objectives)))
        for q in Q:
            reason = rejection(validity, q)
            if not reason:
                self._status, self._q = IkStatus.SOLVED, q
                return True
            self._refusals[reason] += 1
            if self.late():
                break
        return False

    def fail(self, X_BT: Array, near: Array, limits: Array, ideal: Array) -> None:
        """Set the reason why there is no solution.

        Args:
            X_BT: the target in the base, shape (4, 4).
            near: the seed [rad], shape (n,).
            limits: joint limits of the request [rad], shape (2, n).
            ideal: solutions without limits [rad], shape (m, n).
        """
        chain = self._chain
        self._q = np.clip(near, *limits)
        tried = f" for {self.attempts} values of the free joint" if self.attempts > 1 else ""
        distance = float(np.linalg.norm(X_BT[:3, 3] - chain.origin))
        if self._refusals:
            self._status = IkStatus.REFUSED
            common = "; ".join(f"{t} ({c}x)" for t, c in self._refusals.most_common(3))
            text = f"all {self._refusals.total()} solutions{tried} were refused: {common}"
        elif len(ideal):
            outside = np.maximum(limits[0] - ideal, ideal - limits[1]).clip(min=0.0)
            nearest = int(np.argmin(outside.max(axis=1)))
            text = f"the target is reached{tried} only beyond the limits; the nearest needs "
            text += self._joints(ideal[nearest], limits, outside[nearest])
        elif distance > chain.length:
            self._status, text = IkStatus.OUT_OF_REACH, too_far(chain, X_BT)
        else:
            text = f"no joint values reach the target{tried}, with or without limits"
        if self._status is IkStatus.NOT_FOUND and self.late():
            self._status = IkStatus.TIMED_OUT
            text = f"no solution within {self._settings.timeout:g} s; {text}"
        self._reason = f"{text[0].upper()}{text[1:]}."

    def result(self, X_BT: Array) -> IkResult:
        """Return the result, with the elapsed time [s]."""
        errors = pose_error(self._chain.kinematics.pose(self._q, self._chain.tip), X_BT)
        x = errors.tolist()
        took = compute_time() - self._began
        away = (math.hypot(*x[:3]), math.hypot(*x[3:]))
        return IkResult(self._status, self._q, errors, *away, 0, self.attempts, took, self._reason)

    def _joints(self, q: Array, limits: Array, outside: Array) -> str:
        """Return which joints exceed their limits, and by how much."""
        parts = [
            f"{name} at {q[k]:.4g} (allowed {limits[0, k]:.4g} to {limits[1, k]:.4g})"
            for k, name in enumerate(self._chain.joint_names)
            if outside[k] > 0.0
        ]
        return ", ".join(parts) if parts else "a joint at its limit"


def grid(free: int, near: Array, limits: Array) -> Array:
    """Return the current value and 24 more, evenly spaced over the range, shape (m,)."""
    if free < 0:
        return near[:1]
    now, low, high = _range(free, near, limits)
    values = low + (high - low) * _SHARES
    values[0] = now
    return np.asarray(values)


def blocks(free: int, near: Array, limits: Array, attempts: int, patient: bool) -> Iterator[Array]:
    """Yield values to be tried together: the current one, then increasingly fine over the range.

    Values tried together are sorted by their distance from the current one.

    Args:
        free: index of the joint.
        near: current joint positions [rad], shape (n,).
        limits: lower and upper joint limits [rad], shape (2, n).
        attempts: total number of values.
        patient: True to yield all of them at once.
    """
    if free < 0:
        yield near[:1]
        return
    now, low, high = _range(free, near, limits)
    if not patient:
        yield np.array([now])
    more = low + (high - low) * _even(attempts - 1 if high > low else 0)
    if patient:
        yield np.append(now, more)
        return
    for start in range(0, len(more), SWEEP):
        block = more[start : start + SWEEP]
        yield block[np.argsort(np.abs(block - now))]


@dataclass(frozen=True)
class SearchBounds:
    """Bounds of a search over the redundant joint.

    Raises:
        InvalidConfig: neither attempts nor time are bounded.
    """

    fixed: Sequence[str] = ()
    """Joints that keep their positions."""
    max_attempts: int | None = None
    """Max number of values of the redundant joint; None: unlimited."""
    max_time: float = math.inf
    """Timeout [s]."""
    max_distance: float = math.inf
    """Max distance of a solution from the current positions [rad]."""
    norm: float = math.inf
    """p of the norm of that distance, at least 1."""
    random_seed: int = 0
    """For reproducible values."""

    def __post_init__(self) -> None:
        """Check that the search ends."""
        if self.max_attempts is None and self.max_time == math.inf:
            raise InvalidConfig("the search is unbounded: set max_attempts, max_time or both.")


def samples(free: int, near: Array, limits: Array, bounds: SearchBounds) -> Iterator[Array]:
    """Yield the current value, shape (1,), then random ones within some bounds."""
    if free < 0:
        yield near[:1]
        return
    now, low, high = _range(free, near, limits)
    yield from free_joint_samples(
        [now],
        [low],
        [high],
        max_distance=bounds.max_distance,
        max_attempts=bounds.max_attempts,
        seed=bounds.random_seed,
    )


@functools.lru_cache(maxsize=8)
def _even(count: int) -> Array:
    """Return numbers that fill the range from 0 to 1 with increasing density."""
    return frozen(halton(count, 1)[:, 0])


def _range(free: int, near: Array, limits: Array) -> tuple[float, float, float]:
    """Return the current value, and the range of others; one turn without limits."""
    low, high = limits[:, free].tolist()
    now = min(max(float(near[free]), low), high)
    if math.isinf(low):
        low, high = now - math.pi, min(high, now + math.pi)
    return now, low, low + 2.0 * math.pi if math.isinf(high) else high


class AnalyticIk:
    """Solves a chain of six revolute joints, or of seven with one redundant, in closed form.

    Each solution moves the tip to the target within 1e-9 m and 1e-9 rad, as verified by forward
    kinematics, and is within the joint limits; for an arm with six joints the solutions are
    complete. Tolerances of a request are not used. Thread-safe.
    """

    chain: IkChain
    free_joint: str | None
    """The redundant joint; None for an arm with six joints."""
    form: str
    """Name of the closed form."""

    def __init__(
        self,
        chain: IkChain,
        settings: IkSettings | None = None,
        *,
        free_joint: str | None = None,
        tolerance: float = 1e-6,
    ) -> None:
        """Find the closed form that fits. Compiles, or loads, a kernel.

        Args:
            chain: the chain to solve.
            settings: of :meth:`solve`; ``attempts`` counts values of the redundant joint.
            free_joint: for seven joints: the redundant one; None: of those with a closed form, the
                one with solutions for the most poses.
            tolerance: max deviation of the axes from intersecting or being parallel [m, rad].
                Factory-calibrated arms need some 0.01; solutions are exact nevertheless.

        Raises:
            InvalidConfig: no closed form fits; names the axes that would have to intersect or be
                parallel.
            UnknownJoint: the redundant joint is not in the chain.
        """
        self.chain = chain
        self.settings = settings or IkSettings()
        self._arm = ClosedFormArm(chain, free_joint, tolerance)
        self._free = self._arm.free
        self.free_joint = None if self._free < 0 else chain.joint_names[self._free]
        self.form = self._arm.structure.name
        self._limits = np.array([chain.lower, chain.upper])
        chain.kinematics.warm_up([chain.tip])

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of ``q``, in its order."""
        return self.chain.joint_names

    def solutions(
        self,
        target: ArrayLike,
        seed: ArrayLike | None = None,
        *,
        free_values: ArrayLike | None = None,
        turns: Turns = "all",
        norm: float = math.inf,
        weights: ArrayLike | None = None,
    ) -> Array:
        """Return all solutions within the limits, closest to the seed first.

        Args:
            target: pose of the tip in the base, ``X_BT``, shape (4, 4).
            seed: joint positions [rad], shape (n,); None: the middle of the ranges. Joints that are
                undetermined, as in singular configurations, keep the seed's value.
            free_values: of the redundant joint [rad], shape (m,); None: the seed's and 24 more,
                evenly spaced over its range.
            turns: "all": include solutions that differ by full turns; "nearest": of these only the
                one closest to the seed.
            norm: p of the distance to the seed, at least 1; ``math.inf`` is the maximum norm.
            weights: of the joints in that distance, shape (n,); None: equal.

        Returns:
            Shape (k, n); k = 0 without a solution.

        Raises:
            InvalidCommand: a wrong shape, values that are not finite, or an invalid pose.
            InvalidConfig: the norm is below 1, a weight is negative, or free values were given for
                an arm with six joints.
        """
        near = self._near(seed)
        if not norm >= 1.0:
            raise InvalidConfig(
                f"norm is {norm}; it must be at least 1 (math.inf: the max joint displacement).",
                field="norm",
            )
        if weights is not None:
            weights = self._checked_weights(weights)
        Q = self._arm.solutions(
            as_pose(target, "target"),
            near,
            self._limits,
            self._values(free_values, near),
            Metric(norm, weights),
        )
        if turns == "nearest" or not self.chain.turning:
            return Q
        Q = with_all_turns(Q, self._limits)
        away = distance(Q, near, 1.0 if weights is None else weights, norm)
        return np.asarray(Q[np.argsort(away, kind="stable")])

    def search(
        self, target: ArrayLike, current: ArrayLike, bounds: SearchBounds
    ) -> Iterator[Array]:
        """Yield solutions for the redundant joint's current value, then for random ones.

        Args:
            target: pose of the tip in the base, shape (4, 4).
            current: joint positions [rad], shape (n,).
            bounds: of the search.

        Raises:
            UnknownJoint: a fixed joint is not in the chain.
            InvalidCommand: as :meth:`solutions`.
        """
        near = as_configurations(current, self.joint_names, "current")[0]
        X_BT = as_pose(target, "target")
        limits = limits_with(
            self.chain, {name: near[joint_index(self.chain, name)] for name in bounds.fixed}
        )
        return self._search(X_BT, near, limits, bounds)

    def solve(self, request: IkRequest) -> IkResult:
        """Return the solution closest to the seed, or to the middle of the ranges.

        With a redundant joint its value in the seed is tried first, then others until there is a
        solution; all that the settings allow if they prefer the closest or there are objectives.

        Raises:
            InvalidCommand: an input has a wrong shape, is not finite or is not a valid pose.
            UnknownJoint: a locked joint is not in the chain.
        """
        settings = request.settings or self.settings
        answer = Answer(self.chain, request, settings)
        near = self._near(request.seed)
        X_BT = as_pose(request.target, "target")
        if request.base_pose is not None:
            X_BT = target_in_base(X_BT, request.base_pose)
        limits = limits_with(self.chain, request.locked) if request.locked else self._limits
        patient = bool(request.objectives) or settings.prefer == "closest"
        enough = 1 if request.validity is None and not patient else ALL
        for values in blocks(self._free, near, limits, settings.attempts, patient):
            answer.attempts += len(values)
            Q = self._arm.solutions(X_BT, near, limits, values, enough=enough)
            if len(Q) and answer.accept(Q):
                break
            if answer.late():
                break
        if not answer.found:
            ideal = self._arm.solutions(X_BT, near, None, grid(self._free, near, limits))
            answer.fail(X_BT, near, limits, ideal)
        return answer.result(X_BT)

    def _search(
        self, X_BT: Array, near: Array, limits: Array, bounds: SearchBounds
    ) -> Iterator[Array]:
        deadline = compute_time() + bounds.max_time
        metric = Metric(bounds.norm)
        for value in samples(self._free, near, limits, bounds):
            for q in self._arm.solutions(X_BT, near, limits, value, metric):
                if distance(q, near, norm=bounds.norm) <= bounds.max_distance:
                    yield q
            if compute_time() > deadline:
                return

    def _values(self, given: ArrayLike | None, near: Array) -> Array:
        """Return the values of the redundant joint for a list of solutions."""
        if given is None:
            return grid(self._free, near, self._limits)
        if self._free < 0:
            raise InvalidConfig(f"{self.chain.robot_name}: a six-joint arm has no free joint.")
        try:
            values = np.array(given, dtype=np.float64, ndmin=1)
        except (TypeError, ValueError):
            values = np.empty((0, 0))
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InvalidCommand(
                f"free_values must be a list of finite numbers, got {given!r}.", field="free_values"
            )
        return values

    def _checked_weights(self, given: ArrayLike) -> Array:
        weights = np.array(given, dtype=np.float64)
        if weights.shape != (len(self.joint_names),) or not (weights >= 0.0).all():
            raise InvalidConfig(
                f"weights must be {len(self.joint_names)} numbers that are not negative "
                f"({', '.join(self.joint_names)}), got {given!r}."
            )
        return weights

    def _near(self, seed: ArrayLike | None) -> Array:
        """Return the seed, or the middle of the ranges."""
        if seed is None:
            return self.chain.centre
        return np.asarray(as_configurations(seed, self.joint_names, "seed")[0])
