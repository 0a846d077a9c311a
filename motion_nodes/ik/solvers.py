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
    # Imported on demand: its kernel needs Numba, which is slow to import.
    from motion_nodes.ik.analytic.solver import AnalyticIk

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
