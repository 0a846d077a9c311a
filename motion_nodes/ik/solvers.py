# SPDX-License-Identifier: Apache-2.0
"""Solvers of inverse kinematics by name.

Iterative fallback where there is no closed form, or where it has no solution. :class:`SubChainIk`
moves some joints of a chain and locks the others. :class:`FallbackIk` tries the closed form first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.joint_sampling import interval_samples
from motion_nodes.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    IkSolver,
    IkTolerance,
    Validity,
    as_configurations,
)
from motion_nodes.ik.request_validation import joint_index
from motion_nodes.ik.solver import LeastSquaresIk
from motion_nodes.ik.transpose import JacobianTransposeIk
from motion_nodes.typing import Array

ROUGH = IkTolerance(1e-3, 1e-3 * math.pi)
"""Default tolerance: a millimetre, and 0.18 degrees."""
ITERATIONS = 200
"""Max number of iterations per seed."""
Maker = Callable[[IkChain, IkSettings | None], IkSolver]
DEFAULT = "damped_least_squares"


class SubChainIk:
    """Solver that moves only some of a chain's joints."""

    def __init__(
        self,
        chain: IkChain,
        joints: Sequence[str] | None = None,
        *,
        tolerance: IkTolerance = ROUGH,
        iterations: int = ITERATIONS,
    ) -> None:
        """Compile, or load, the solver of the chain.

        Args:
            chain: the joints between base and tip.
            joints: those of them that may move; default: all.
            tolerance: tolerance of a solution.
            iterations: max number of iterations per seed.

        Raises:
            UnknownJoint: a joint is not in the chain.
            InvalidConfig: no joint may move, or no iteration is allowed.
        """
        moving = chain.joint_names if joints is None else tuple(joints)
        self._moving = [joint_index(chain, name) for name in moving]
        if not moving:
            raise InvalidConfig(f"{chain.robot_name}: no joint of the sub-chain may move.")
        self.chain = chain
        self._held = [name for name in chain.joint_names if name not in moving]
        self._solver = LeastSquaresIk(
            chain, IkSettings(tolerance=tolerance, attempts=1, max_iterations=iterations)
        )

    def solutions(
        self,
        target: ArrayLike,
        current: ArrayLike,
        *,
        max_attempts: int = 1,
        max_solutions: int | None = None,
        first_close: bool = True,
        validity: Validity | None = None,
        random_seed: int = 0,
    ) -> Iterator[Array]:
        """Yield solutions as they are found.

        Args:
            target: pose of the tip in the base, shape (4, 4).
            current: positions of all joints of the chain [rad or m], shape (n,).
            max_attempts: max number of seeds.
            max_solutions: max number of solutions; None: unlimited.
            first_close: whether the first seed is the current positions; the others are random
                within the limits (of joints without limits within half a turn of the current
                position).
            validity: further condition on a solution, such as being collision-free.
            random_seed: for reproducible seeds.

        Raises:
            InvalidCommand: a wrong shape, values that are not finite, or an invalid pose; or a
                locked joint is outside its limits.
        """
        now = as_configurations(current, self.chain.joint_names, "current")[0]
        found = 0
        for start in self._starts(now, max_attempts, first_close, random_seed):
            result = self._solver.solve(self._request(target, now, start, validity))
            if result.success:
                yield result.q
                found += 1
                if max_solutions is not None and found >= max_solutions:
                    return

    def _request(
        self, target: ArrayLike, now: Array, start: Array, validity: Validity | None
    ) -> IkRequest:
        names = self.chain.joint_names
        locked = {name: float(now[names.index(name)]) for name in self._held}
        return IkRequest(target, seed=start, locked=locked, validity=validity)

    def _starts(
        self, now: Array, attempts: int, first_close: bool, random_seed: int
    ) -> Iterator[Array]:
        """Yield seeds in which locked joints keep their positions."""
        if first_close and attempts > 0:
            yield now
            attempts -= 1
        chain, moving = self.chain, self._moving
        low = np.where(np.isfinite(chain.lower), chain.lower, now - math.pi)[moving]
        high = np.where(np.isfinite(chain.upper), chain.upper, now + math.pi)[moving]
        shares = interval_samples(np.zeros(len(moving)), np.ones(len(moving)), seed=random_seed)
        for _, share in zip(range(attempts), shares, strict=False):
            start = now.copy()
            start[moving] = low + share * (high - low)
            yield start


class FallbackIk:
    """Solves in closed form if the chain has one; otherwise, or without a solution, iteratively."""

    def __init__(self, chain: IkChain, settings: IkSettings | None = None) -> None:
        """Create both solvers; a chain without closed form has only the iterative one."""
        # Imported on demand: its kernel needs Numba, which is slow to import.
        from motion_nodes.ik.analytic_solver import AnalyticIk

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
    from motion_nodes.ik.analytic_solver import AnalyticIk

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
