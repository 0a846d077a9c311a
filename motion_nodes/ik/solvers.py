# SPDX-License-Identifier: Apache-2.0
"""Solvers of inverse kinematics by name."""

from __future__ import annotations

from collections.abc import Callable

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkSettings, IkSolver
from motion_nodes.ik.solver import LeastSquaresIk
from motion_nodes.ik.solver_chain import FallbackIk
from motion_nodes.ik.transpose import JacobianTransposeIk

Maker = Callable[[IkChain, IkSettings | None], IkSolver]

DEFAULT = "damped_least_squares"


def _analytic(chain: IkChain, settings: IkSettings | None) -> IkSolver:
    # Imported only when wanted: its kernel needs Numba, which takes its time.
    from motion_nodes.ik.analytic.solver import AnalyticIk

    return AnalyticIk(chain, settings)


_MAKERS: dict[str, Maker] = {
    DEFAULT: LeastSquaresIk,
    "jacobian_transpose": JacobianTransposeIk,
    "analytic": _analytic,
    "analytic_then_iterative": FallbackIk,
}


def register(name: str, maker: Maker) -> None:
    """Make a solver known under a name.

    Args:
        name: by which users choose it.
        maker: makes one for a chain and settings, or raises ``InvalidConfig`` if it cannot serve
            it.

    Raises:
        InvalidConfig: the name is taken.
    """
    if name in _MAKERS:
        raise InvalidConfig(f"there already is an IK solver '{name}'.")
    _MAKERS[name] = maker


def solver_names() -> tuple[str, ...]:
    """Return the names there are, the default first."""
    return tuple(_MAKERS)


def make_solver(
    chain: IkChain, name: str = DEFAULT, settings: IkSettings | None = None
) -> IkSolver:
    """Return a solver for a chain.

    Args:
        chain: what to solve for.
        name: which solver.
        settings: how it searches where a request does not say.

    Raises:
        InvalidConfig: there is no such solver, or it cannot serve this chain.
    """
    if name not in _MAKERS:
        raise InvalidConfig(f"there is no IK solver '{name}'.{did_you_mean(name, _MAKERS)}")
    return _MAKERS[name](chain, settings)
