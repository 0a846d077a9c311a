# SPDX-License-Identifier: Apache-2.0
"""Selection of a result from the solutions of a closed form."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.failure_messages import too_far
from motion_nodes.ik.pose_error import pose_error
from motion_nodes.ik.problem import IkRequest, IkResult, IkSettings, IkStatus, rejection
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.typing import Array


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
