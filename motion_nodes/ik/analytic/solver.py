# SPDX-License-Identifier: Apache-2.0
"""The analytic solver: all solutions of an arm that has a closed form, nearest first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.ik.analytic.answer import Answer
from motion_nodes.ik.analytic.arm import ALL, ClosedFormArm, with_all_turns
from motion_nodes.ik.analytic.free_joint import blocks, grid, samples
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.joint_sampling import distance
from motion_nodes.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    as_configurations,
    as_pose,
)
from motion_nodes.ik.request_validation import joint_index, limits_with, target_in_base
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.typing import Array

Turns = Literal["all", "nearest"]


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
            norm=norm,
            weights=weights,
        )
        if turns == "nearest" or not self.chain.turning:
            return Q
        Q = with_all_turns(Q, self._limits)
        away = distance(Q, near, 1.0 if weights is None else weights, norm)
        return np.asarray(Q[np.argsort(away, kind="stable")])

    def search(
        self,
        target: ArrayLike,
        current: ArrayLike,
        *,
        fixed: Sequence[str] = (),
        max_attempts: int | None = None,
        max_time: float = math.inf,
        max_distance: float = math.inf,
        norm: float = math.inf,
        random_seed: int = 0,
    ) -> Iterator[Array]:
        """Yield solutions for the redundant joint's current value, then for random ones.

        Args:
            target: pose of the tip in the base, shape (4, 4).
            current: joint positions [rad], shape (n,).
            fixed: joints that keep their positions.
            max_attempts: max number of values of the redundant joint.
            max_time: timeout [s].
            max_distance: max distance of a solution from the current positions [rad].
            norm: of that distance.
            random_seed: for reproducible values.

        Raises:
            InvalidConfig: neither attempts nor time are bounded.
            UnknownJoint: a fixed joint is not in the chain.
            InvalidCommand: as :meth:`solutions`.
        """
        if max_attempts is None and max_time == math.inf:
            raise InvalidConfig("the search is unbounded: set max_attempts, max_time or both.")
        near = as_configurations(current, self.joint_names, "current")[0]
        X_BT = as_pose(target, "target")
        limits = limits_with(
            self.chain, {name: near[joint_index(self.chain, name)] for name in fixed}
        )
        ends = (max_attempts, compute_time() + max_time)
        return self._search(X_BT, near, limits, ends, (max_distance, norm), random_seed)

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
        self,
        X_BT: Array,
        near: Array,
        limits: Array,
        ends: tuple[int | None, float],
        within: tuple[float, float],
        random_seed: int,
    ) -> Iterator[Array]:
        attempts, deadline = ends
        max_distance, norm = within
        for value in samples(self._free, near, limits, attempts, max_distance, random_seed):
            Q = self._arm.solutions(X_BT, near, limits, value, norm=norm)
            for q in Q:
                if distance(q, near, norm=norm) <= max_distance:
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
