# SPDX-License-Identifier: Apache-2.0
"""Solvers of inverse kinematics by name: combined ones, and the transposed Jacobian.

:class:`FallbackIk` tries the closed form first, and solves iteratively where there is none or it
has no solution.

The transposed Jacobian descends locally from the seed:

    q <- q + dq,   dq = alpha_1 d_1 + alpha_2 d_2 + ...
    d_1 = J^T e,   alpha_1 = <e, J J^T e> / |J J^T e|^2

where e is the logarithm of the displacement to the target, as for a unit dual quaternion: the twist
of the screw motion from tip to target. The first direction and its step length are those of the
plain method, which alone takes hundreds of steps if J is ill-conditioned. The further directions
are J^T times the residual of e, made conjugate to the previous ones (conjugate gradients on the
normal equations), at most one per joint. They need products with J and J^T only: no matrix is
inverted, and directions in which the arm cannot move (singular configurations) are omitted.

A step ends at the edge of a trust region, which is adapted to the accuracy of the linear model;
joints that reach a limit stay there and the others compensate. For redundant arms the solution is
close to the seed, but not the closest. The method is for targets near the current pose; distant
ones may end in a local minimum, which is reported as a stall.

Sources: W. Wolovich, H. Elliott, "A computational technique for inverse kinematics", CDC 1984 (the
transpose); S. Buss, "Introduction to inverse kinematics", 2004, section 4 (alpha_1); A. Bjorck,
"Numerical methods for least squares problems", 1996, section 7.4 (CGLS); T. Steihaug, "The
conjugate gradient method and trust regions in large scale optimization", SIAM J. Numer. Anal. 20,
1983 (the edge of the region).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    IkSolver,
    IkStatus,
    IkTolerance,
    as_configurations,
    limits_with,
    pose_error,
    rejection,
    target_in_base,
    too_far,
    what_is_nearest,
)
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.robot.poses import rotation_vector
from motion_nodes.errors import InvalidCommand, InvalidConfig, did_you_mean
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.typing import Array

_STALLED = 40
"""Number of steps in which the error must decrease by a tenth; otherwise the search has stalled."""
_FIRST_RADIUS, _MAX_RADIUS, _MIN_RADIUS = 0.3, 1.0, 1e-7
"""Initial and max step length; a step that must be shorter than the min has stalled [rad or m]."""
_LEAST_GAIN = 1e-6
"""Min relative reduction of the error per step; below it the trust region shrinks."""
_PRECISE = 1e-3
"""Relative gradient norm at which conjugate directions end."""
_ENDED = {
    IkStatus.NOT_FOUND: "stalled",
    IkStatus.TIMED_OUT: "timed out",
    IkStatus.ITERATION_LIMIT: "not converged",
}
Maker = Callable[[IkChain, IkSettings | None], IkSolver]
DEFAULT = "damped_least_squares"


class _Descent(NamedTuple):
    q: Array
    status: IkStatus
    iterations: int


class JacobianTransposeIk:
    """Solves one chain from the given seeds; no random seeds are used.

    Thread-safe.
    """

    chain: IkChain

    def __init__(self, chain: IkChain, settings: IkSettings | None = None) -> None:
        """Compile, or load, the chain's kinematics.

        Args:
            chain: the chain to solve.
            settings: only ``tolerance``, ``timeout`` and ``max_iterations`` are used.
        """
        self.chain = chain
        self.settings = settings or IkSettings()
        # Position weight [1/m]: makes position errors comparable to rotation errors.
        self._weight = 2.0 / chain.size if chain.size > 1e-6 else 1.0
        chain.kinematics.warm_up([chain.tip])

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of ``q``, in its order."""
        return self.chain.joint_names

    def solve(self, request: IkRequest) -> IkResult:
        """Descend from the seed, then from further given seeds, until one converges.

        Without any, from the middle of the ranges.

        Raises:
            InvalidCommand: an input has a wrong shape, is not finite or is not a valid pose; or the
                request has objectives, which this solver does not support.
            UnknownJoint: a locked joint is not in the chain.
        """
        began = compute_time()
        if request.objectives:
            raise InvalidCommand(
                "the transposed Jacobian does not support objectives; damped_least_squares does."
            )
        settings = request.settings or self.settings
        X_BT = target_in_base(request.target, request.base_pose)
        limits = limits_with(self.chain, request.locked or {})
        refusal, ends, iterations = "", [], 0
        for start in self._starts(request):
            end = self._descend(start, X_BT, limits, settings, began, iterations)
            iterations += end.iterations
            reason = rejection(request.validity, end.q) if end.status is IkStatus.SOLVED else ""
            if reason:
                refusal, end = reason, end._replace(status=IkStatus.REFUSED)
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
        """Return the given seeds, ``seed`` first; else the middle of the ranges."""
        starts: list[Array] = []
        for given, what in ((request.seed, "seed"), (request.initial_guesses, "initial_guesses")):
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
        """Descend from one seed until it converges, stalls, or a limit is reached."""
        tolerance, most = settings.tolerance, settings.max_iterations
        q, iterations = np.clip(start, *limits), 0
        X_BE, J = self.chain.kinematics.pose_and_jacobian(q, self.chain.tip)
        e, size = self._missing(X_BE, X_BT, tolerance)
        mark, radius = size, _FIRST_RADIUS
        while True:
            if tolerance.accepts(pose_error(X_BE, X_BT)):
                return _Descent(q, IkStatus.SOLVED, iterations)
            if most is not None and before + iterations >= most:
                return _Descent(q, IkStatus.ITERATION_LIMIT, iterations)
            if compute_time() - began > settings.timeout:
                return _Descent(q, IkStatus.TIMED_OUT, iterations)
            if iterations % _STALLED == _STALLED - 1:
                if size > 0.9 * mark:
                    return _Descent(q, IkStatus.NOT_FOUND, iterations)
                mark = size
            iterations += 1
            while True:
                dq = self._step(q, J, e, limits, radius)
                ahead = np.clip(q + dq, *limits)
                X_ahead, J_ahead = self.chain.kinematics.pose_and_jacobian(ahead, self.chain.tip)
                e_ahead, size_ahead = self._missing(X_ahead, X_BT, tolerance)
                if size_ahead < size * (1.0 - _LEAST_GAIN):
                    break
                radius = 0.25 * min(radius, float(np.linalg.norm(dq)))
                if radius < _MIN_RADIUS:
                    return _Descent(q, IkStatus.NOT_FOUND, iterations)
            if size_ahead < 0.5 * size:
                radius = min(2.0 * radius, _MAX_RADIUS)
            q, X_BE, J, e, size = ahead, X_ahead, J_ahead, e_ahead, size_ahead

    def _step(self, q: Array, J: Array, e: Array, limits: Array, radius: float) -> Array:
        """Return the step that minimises the error in the linear model, within limits.

        Args:
            q: joint positions [rad or m], shape (n,).
            J: Jacobian, shape (6, n).
            e: error with weighted linear part, shape (6,).
            limits: lower and upper joint limits, shape (2, n).
            radius: max length of the step.

        Returns:
            Change of the joint positions, shape (n,); a joint stops at its limit.
        """
        scaled = J.copy()
        scaled[:3] *= self._weight
        dq, fixed = np.zeros(len(q)), limits[1] <= limits[0]
        for _ in range(len(q)):
            scaled[:, fixed] = 0.0
            rest = conjugate_step(scaled, e, max(radius - float(np.linalg.norm(dq)), 0.1 * radius))
            beyond = ((q + rest < limits[0]) | (q + rest > limits[1])) & ~fixed
            if not beyond.any():
                return dq + rest
            dq[beyond] = np.clip(q + rest, *limits)[beyond] - q[beyond]
            e = e - scaled[:, beyond] @ dq[beyond]
            fixed = fixed | beyond
        return dq

    def _missing(self, X_BE: Array, X_BT: Array, tolerance: IkTolerance) -> tuple[Array, float]:
        """Return the error in the base's axes, its linear part weighted, and its norm."""
        if tolerance.free.any():
            local, R = np.where(tolerance.free, 0.0, -pose_error(X_BE, X_BT)), X_BT[:3, :3]
        else:
            local, R = screw_twist(X_BE, X_BT), X_BE[:3, :3]
        e = np.concatenate([self._weight * (R @ local[:3]), R @ local[3:]])
        return e, math.sqrt(float(e @ e))

    def _size(self, q: Array, X_BT: Array, tolerance: IkTolerance) -> float:
        """Return the norm of the error at joint positions."""
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
        """Return the result, with the elapsed time."""
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
        took = compute_time() - began
        return IkResult(status, end.q, errors, *away, iterations, attempts, took, reason)


def conjugate_step(J: Array, e: Array, radius: float) -> Array:
    """Return the step towards least squares of ``e - J dq`` by conjugate directions.

    Args:
        J: Jacobian, shape (m, n).
        e: error, shape (m,).
        radius: max length of the step.

    Returns:
        ``dq``, shape (n,); its first direction is ``J^T e``.
    """
    dq, left = np.zeros(J.shape[1]), e
    direction = gradient = J.T @ e
    square = first = float(gradient @ gradient)
    for _ in range(min(J.shape)):
        moved = J @ direction
        curvature = float(moved @ moved)
        if square <= _PRECISE**2 * first or curvature <= 1e-14 * float(direction @ direction):
            break
        step = square / curvature
        ahead = dq + step * direction
        if float(ahead @ ahead) > radius * radius:
            return dq + _to_edge(dq, direction, radius) * direction
        dq, left = ahead, left - step * moved
        gradient = J.T @ left
        before, square = square, float(gradient @ gradient)
        direction = gradient + square / before * direction
    return dq


def _to_edge(start: Array, direction: Array, radius: float) -> float:
    """Return the factor of a direction from inside a ball about zero to its surface."""
    a, b = float(direction @ direction), float(start @ direction)
    c = float(start @ start) - radius * radius
    return (math.sqrt(max(b * b - a * c, 0.0)) - b) / a


def screw_twist(X_BE: Array, X_BT: Array) -> Array:
    """Return the twist from E to T in one second, in E: linear [m], angular [rad].

    The same as ``dual_quaternion.log(dual_quaternion.from_pose(X_ET))``; for one pose plain floats
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


class FallbackIk:
    """Solves in closed form if the chain has one; otherwise, or without a solution, iteratively."""

    def __init__(self, chain: IkChain, settings: IkSettings | None = None) -> None:
        """Create both solvers; a chain without closed form has only the iterative one."""
        # Imported on demand: its kernel needs Numba, which is slow to import.
        from motion_nodes.core.ik.analytic_solver import AnalyticIk

        self.chain = chain
        self.settings = settings or IkSettings()
        self._solvers: list[IkSolver] = [LeastSquaresIk(chain, self.settings)]
        self.why_not = ""
        """Why the chain has no closed form; empty if it has one."""
        try:
            self._solvers.insert(0, AnalyticIk(chain, self.settings))
        except InvalidConfig as error:
            self.why_not = str(error)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of ``q``, in its order."""
        return self.chain.joint_names

    def solve(self, request: IkRequest) -> IkResult:
        """Return the first solver's solution, or the last one's result.

        The timeout and the duration in the result are those of both together.
        """
        settings = request.settings or self.settings
        time, result = 0.0, None
        for solver in self._solvers:
            left = settings.timeout - time
            if result is not None and left <= 0.0:
                break
            rest = dataclasses.replace(settings, timeout=left) if time else settings
            result = solver.solve(request._replace(settings=rest))
            time += result.time
            if result.success:
                break
        assert result is not None
        return result._replace(time=time)


def _analytic(chain: IkChain, settings: IkSettings | None) -> IkSolver:
    # Imported on demand: its kernel needs Numba, which is slow to import.
    from motion_nodes.core.ik.analytic_solver import AnalyticIk

    return AnalyticIk(chain, settings)


_MAKERS: dict[str, Maker] = {
    DEFAULT: LeastSquaresIk,
    "jacobian_transpose": JacobianTransposeIk,
    "analytic": _analytic,
    "analytic_then_iterative": FallbackIk,
}


def register(name: str, maker: Maker) -> None:
    """Register a solver under a name.

    Args:
        name: by which users select it.
        maker: creates one for a chain and settings, or raises ``InvalidConfig`` if it does not
            support the chain.

    Raises:
        InvalidConfig: the name is taken.
    """
    if name in _MAKERS:
        raise InvalidConfig(f"there already is an IK solver '{name}'.", field=name)
    _MAKERS[name] = maker


def solver_names() -> tuple[str, ...]:
    """Return the registered names, the default first."""
    return tuple(_MAKERS)


def make_solver(
    chain: IkChain, name: str = DEFAULT, settings: IkSettings | None = None
) -> IkSolver:
    """Return a solver for a chain.

    Args:
        chain: the chain to solve.
        name: name of the solver.
        settings: default settings.

    Raises:
        InvalidConfig: unknown name, or the solver does not support this chain.
    """
    if name not in _MAKERS:
        raise InvalidConfig(
            f"there is no IK solver '{name}'.{did_you_mean(name, _MAKERS)}", field=name
        )
    return _MAKERS[name](chain, settings)
