# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics by the transposed Jacobian: from where the arm is, downhill to the target.

    q <- q + alpha J^T e,   alpha = <e, J J^T e> / |J J^T e|^2

where e is the logarithm of the displacement that is missing, as a unit dual quaternion has it: the
twist of the one screw motion that leads to the target. No matrix is inverted, so nothing special
happens near singular configurations, and the joints move no further than they need to. It is for
targets near to where the arm is; far ones may end in a corner, which is said.

Sources: W. Wolovich, H. Elliott, "A computational technique for inverse kinematics", CDC 1984 (the
transpose); S. Buss, "Introduction to inverse kinematics", 2004, section 4 (alpha).
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from motion_nodes.errors import BadCommand
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.pose_error import pose_error, rotation_vector
from motion_nodes.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    IkStatus,
    IkTolerance,
    as_configurations,
)
from motion_nodes.ik.reasons import too_far, what_is_nearest
from motion_nodes.ik.request_parts import limits_with, target_in_base
from motion_nodes.model.tree import Array

_STALLED = 200
"""Steps in which the error must become less by a tenth, or the search has stalled."""
_LEAST_STEP = 1e-3
"""A step is halved until the error becomes less, down to this share."""


class _Descent(NamedTuple):
    q: Array
    status: IkStatus
    iterations: int


class JacobianTransposeIk:
    """Solves for one chain, from the seed alone; random starts are not made.

    May be called from several threads.
    """

    chain: IkChain

    def __init__(self, chain: IkChain, settings: IkSettings | None = None) -> None:
        """Compile, or load, the chain's kinematics.

        Args:
            chain: what to solve for.
            settings: how; of them ``tolerance``, ``timeout`` and ``max_iterations`` count.
        """
        self.chain = chain
        self.settings = settings or IkSettings()
        # Metres times this are as much as radians.
        self._weight = 2.0 / chain.size if chain.size > 1e-6 else 1.0
        chain.kinematics.warm_up([chain.tip])

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of ``q``, in its order."""
        return self.chain.joint_names

    def solve(self, request: IkRequest) -> IkResult:
        """Go downhill from the seed, then from further given starts, until one leads there.

        Without any, from the middle of the ranges.

        Raises:
            BadCommand: something in the request has a wrong shape, is not finite or is no pose;
                or it has objectives, which this solver cannot serve.
            UnknownJoint: a locked joint is not one of the chain's.
        """
        began = time.perf_counter()
        if request.objectives:
            raise BadCommand(
                "the transposed Jacobian serves no objectives; damped_least_squares does."
            )
        settings = request.settings or self.settings
        X_BT = target_in_base(request.target, request.base_pose)
        limits = limits_with(self.chain, request.locked or {})
        refusal, ends, iterations = "", [], 0
        for start in self._starts(request):
            end = self._descend(start, X_BT, limits, settings, began, iterations)
            iterations += end.iterations
            if end.status is IkStatus.SOLVED and request.validity is not None:
                answer: object = request.validity(end.q.copy())
                if answer is not True and answer is not np.True_:
                    refusal = answer if isinstance(answer, str) else "not valid"
                    end = end._replace(status=IkStatus.REFUSED)
            ends.append(end)
            if end.status not in (IkStatus.NOT_FOUND, IkStatus.REFUSED):
                break
        best = min(
            ends,
            key=lambda end: (
                end.status is not IkStatus.SOLVED,
                self._size(end.q, X_BT, settings.tolerance),
            ),
        )
        return self._result(best, X_BT, limits, settings, (iterations, len(ends), refusal), began)

    def _starts(self, request: IkRequest) -> list[Array]:
        """Return the given starts, the seed first; the middle of the ranges if there are none."""
        starts: list[Array] = []
        for given, what in ((request.seed, "seed"), (request.starts, "starts")):
            if given is not None:
                starts += list(as_configurations(given, self.joint_names, what))
        return starts or [self.chain.centre]

    def _descend(
        self,
        start: Array,
        X_BT: Array,
        limits: Array,
        settings: IkSettings,
        began: float,
        before: int,
    ) -> _Descent:
        """Go downhill from one start until it is there, or stalls, or must stop."""
        tolerance, most = settings.tolerance, settings.max_iterations
        q, iterations = np.clip(start, *limits), 0
        X_BE, J = self.chain.kinematics.pose_and_jacobian(q, self.chain.tip)
        e, size = self._missing(X_BE, X_BT, tolerance)
        mark = size
        while True:
            if tolerance.accepts(pose_error(X_BE, X_BT)):
                return _Descent(q, IkStatus.SOLVED, iterations)
            if most is not None and before + iterations >= most:
                return _Descent(q, IkStatus.ITERATION_LIMIT, iterations)
            if time.perf_counter() - began > settings.timeout:
                return _Descent(q, IkStatus.TIMED_OUT, iterations)
            if iterations % _STALLED == _STALLED - 1:
                if size > 0.9 * mark:
                    return _Descent(q, IkStatus.NOT_FOUND, iterations)
                mark = size
            dq, share = self._step(q, J, e, limits), 1.0
            iterations += 1
            while True:
                ahead = np.clip(q + share * dq, *limits)
                X_BE, J_ahead = self.chain.kinematics.pose_and_jacobian(ahead, self.chain.tip)
                e_ahead, size_ahead = self._missing(X_BE, X_BT, tolerance)
                if size_ahead < size:
                    break
                share *= 0.5
                if share < _LEAST_STEP:
                    return _Descent(q, IkStatus.NOT_FOUND, iterations)
            q, J, e, size = ahead, J_ahead, e_ahead, size_ahead

    def _step(self, q: Array, J: Array, e: Array, limits: Array) -> Array:
        """Return the step of the best length, without joints that are pushed beyond their limits.

        Args:
            q: joint values, shape (n,).
            J: Jacobian, shape (6, n).
            e: what is missing, its linear part weighted, shape (6,).
            limits: lower and upper ones, shape (2, n).
        """
        scaled = J.copy()
        scaled[:3] *= self._weight
        dq = scaled.T @ e
        dq[((q <= limits[0]) & (dq < 0.0)) | ((q >= limits[1]) & (dq > 0.0))] = 0.0
        there = scaled @ dq
        square = float(there @ there)
        if square < 1e-300:
            return dq
        return np.asarray(float(e @ there) / square * dq)

    def _missing(self, X_BE: Array, X_BT: Array, tolerance: IkTolerance) -> tuple[Array, float]:
        """Return what is missing in the base's axes, its linear part weighted, and its length."""
        if tolerance.free.any():
            local, R = np.where(tolerance.free, 0.0, -pose_error(X_BE, X_BT)), X_BT[:3, :3]
        else:
            local, R = screw_twist(X_BE, X_BT), X_BE[:3, :3]
        e = np.concatenate([self._weight * (R @ local[:3]), R @ local[3:]])
        return e, math.sqrt(float(e @ e))

    def _size(self, q: Array, X_BT: Array, tolerance: IkTolerance) -> float:
        """Return how much is missing at some joint values."""
        return self._missing(self.chain.kinematics.pose(q, self.chain.tip), X_BT, tolerance)[1]

    def _result(
        self,
        end: _Descent,
        X_BT: Array,
        limits: Array,
        settings: IkSettings,
        counts: tuple[int, int, str],
        began: float,
    ) -> IkResult:
        """Return the result; the time ends now."""
        iterations, attempts, refusal = counts
        errors = pose_error(self.chain.kinematics.pose(end.q, self.chain.tip), X_BT)
        counting = np.where(settings.tolerance.free, 0.0, errors).tolist()
        away = (math.hypot(*counting[:3]), math.hypot(*counting[3:]))
        status, reason = end.status, ""
        if status is not IkStatus.SOLVED:
            nearest = what_is_nearest(self.joint_names, end.q, (limits[0], limits[1]), away)
            parts = [f"the solution was refused: {refusal}"]
            if status is not IkStatus.REFUSED:
                parts = [f"{_ENDED[status]} after {iterations} steps", nearest]
            if float(np.linalg.norm(X_BT[:3, 3] - self.chain.origin)) > self.chain.length:
                parts.insert(0, too_far(self.chain, X_BT))
                status = IkStatus.OUT_OF_REACH if status is IkStatus.NOT_FOUND else status
            text = "; ".join(parts)
            reason = f"{text[0].upper()}{text[1:]}."
        took = time.perf_counter() - began
        return IkResult(status, end.q, errors, *away, iterations, attempts, took, reason)


_ENDED = {
    IkStatus.NOT_FOUND: "stalled",
    IkStatus.TIMED_OUT: "out of time",
    IkStatus.ITERATION_LIMIT: "not there",
}


def screw_twist(X_BE: Array, X_BT: Array) -> Array:
    """Return the twist that leads from E to T in one second, in E: linear [m], angular [rad].

    The same as ``dual_quaternion.log(dual_quaternion.from_pose(X_ET))``; for one pose plain numbers
    are faster.

    Source: K. Lynch, F. Park, "Modern Robotics", 2017, eq. 3.92.
    """
    X_ET = X_BE[:3, :3].T @ X_BT[:3]
    X_ET[:, 3] -= X_BE[:3, :3].T @ X_BE[:3, 3]
    x, y, z = rotation_vector(X_ET)
    a, b, c = X_ET[:, 3].tolist()
    square = x * x + y * y + z * z
    half = 0.5 * math.sqrt(square)
    rest = (1.0 - half / math.tan(half)) / square if half > 1e-3 else 1.0 / 12.0
    u, v, w = y * c - z * b, z * a - x * c, x * b - y * a
    return np.array(
        [
            a - 0.5 * u + rest * (y * w - z * v),
            b - 0.5 * v + rest * (z * u - x * w),
            c - 0.5 * w + rest * (x * v - y * u),
            x,
            y,
            z,
        ]
    )
