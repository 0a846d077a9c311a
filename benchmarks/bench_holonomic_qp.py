# SPDX-License-Identifier: Apache-2.0
"""Isaac Sim's quadratic programme of holonomic bases: our closed form beside general solvers.

Run: ``python benchmarks/bench_holonomic_qp.py`` (20 s). The peers are OSQP, which the source
uses, and ProxQP (``pip install -r requirements/bench.txt``); those that are not installed are
left out. SciPy's SLSQP is always there.

Every peer is set up once and gets a new right-hand side for each command, as in a control loop.
Contenders take turns in short rounds on one core; medians over the rounds are shown.
"""

from __future__ import annotations

import importlib.util
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from report import Report, arguments, progress, ratio
from scipy import sparse
from scipy.optimize import minimize

from motion_nodes.bases.base import Twist2
from motion_nodes.bases.holonomic import HolonomicConfig
from motion_nodes.bases.holonomic_layout import HolonomicWheel
from motion_nodes.bases.holonomic_qp import HolonomicQpBase

Array = np.ndarray
Solve = Callable[[Array], Array]


def ring(n: int) -> HolonomicQpBase:
    """Return a base on ``n`` omni wheels around its middle."""
    angles = np.arange(n) * math.tau / n + 0.3
    wheels = tuple(
        HolonomicWheel(
            name=f"wheel_{i}",
            radius=0.04,
            x=0.1 * math.cos(a),
            y=0.1 * math.sin(a),
            axis_yaw=float(a),
        )
        for i, a in enumerate(angles)
    )
    return HolonomicQpBase(HolonomicConfig(wheels=wheels, left_handed=True))


def closed_form(base: HolonomicQpBase) -> Solve:
    """Return ours, checks of the command included."""
    return lambda twist: base.wheels_from_twist(Twist2(*twist))


def osqp_solver(base: HolonomicQpBase, **settings: object) -> Solve:
    """Return OSQP; ``settings`` as its own."""
    import osqp

    solver = osqp.OSQP()
    solver.setup(
        P=sparse.diags(base.cost, format="csc"),
        q=np.zeros(len(base.cost)),
        A=sparse.csc_matrix(base.constraint),
        l=np.zeros(3),
        u=np.zeros(3),
        verbose=False,
        **settings,
    )

    def solve(twist: Array) -> Array:
        solver.update(l=twist, u=twist)
        return np.asarray(solver.solve().x)

    return solve


def proxqp_solver(base: HolonomicQpBase) -> Solve:
    """Return ProxQP's dense solver at its usual accuracy."""
    import proxsuite

    n = len(base.cost)
    qp = proxsuite.proxqp.dense.QP(n, 3, 0)
    qp.init(np.diag(base.cost), np.zeros(n), base.constraint, np.zeros(3))

    def solve(twist: Array) -> Array:
        qp.update(b=twist)
        qp.solve()
        return np.asarray(qp.results.x)

    return solve


def slsqp_solver(base: HolonomicQpBase) -> Solve:
    """Return SciPy's general solver."""

    def solve(twist: Array) -> Array:
        constraint = {
            "type": "eq",
            "fun": lambda x: base.constraint @ x - twist,
            "jac": lambda x: base.constraint,
        }
        return minimize(
            lambda x: 0.5 * x @ (base.cost * x),
            np.zeros(len(base.cost)),
            jac=lambda x: base.cost * x,
            constraints=constraint,
            method="SLSQP",
            options={"ftol": 1e-12},
        ).x

    return solve


def contenders(base: HolonomicQpBase) -> dict[str, Solve]:
    """Return what is installed, ours first."""
    found = {"motion_nodes, closed form": closed_form(base)}
    if importlib.util.find_spec("osqp"):
        # The source gives the solver speeds divided by the greatest one; its accuracy is relative.
        found["OSQP as it comes (1e-3)"] = osqp_solver(base)
        found["OSQP to 1e-9, polished"] = osqp_solver(
            base, eps_abs=1e-9, eps_rel=1e-9, polishing=True, max_iter=20000
        )
    if importlib.util.find_spec("proxsuite"):
        found["ProxQP (1e-5)"] = proxqp_solver(base)
    found["SciPy SLSQP"] = slsqp_solver(base)
    return found


def round_time(solve: Solve, twists: Array) -> float:
    """Return the time of one solution [us]."""
    begin = time.perf_counter_ns()
    for twist in twists:
        solve(twist)
    return (time.perf_counter_ns() - begin) * 1e-3 / len(twists)


def measure(n: int, rounds: int, commands: int) -> list[list[str | float | None]]:
    """Return one row for each contender on a base with ``n`` wheels."""
    base = ring(n)
    solvers = contenders(base)
    twists = np.random.default_rng(n).uniform(-1.0, 1.0, (commands, 3))
    # An independent optimum: the KKT system itself, solved for each command.
    system = np.block(
        [[np.diag(base.cost), base.constraint.T], [base.constraint, np.zeros((3, 3))]]
    )
    exact = np.array([np.linalg.solve(system, np.r_[np.zeros(n), t])[:n] for t in twists])
    errors = {
        name: float(max(np.abs(solve(t) - x).max() for t, x in zip(twists, exact, strict=True)))
        for name, solve in solvers.items()
    }
    times: dict[str, list[float]] = {name: [] for name in solvers}
    for _ in range(rounds):
        for name, solve in solvers.items():
            share = 10 if name.startswith("SciPy") else 1
            times[name].append(round_time(solve, twists[: max(1, commands // share)]))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians["motion_nodes, closed form"]
    return [
        [name, medians[name], ratio(medians[name], ours), f"{errors[name]:.1e}"] for name in solvers
    ]


def main() -> None:
    """Print the table of each base."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--commands", type=int, default=200, help="in each round")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    report = Report("Wheel speeds by quadratic programme")
    for n in (3, 4, 8):
        progress(f"{n} wheels")
        report.table(
            f"{n} omni wheels, {options.commands} random commands up to 1 m/s and 1 rad/s",
            ("solver", "us per command", "by ours", "largest error [rad/s]"),
            measure(n, options.rounds, options.commands),
            "Error: against the KKT system of each command, solved by elimination.",
        )
    json_file: Path | None = options.json
    report.write(json_file)


if __name__ == "__main__":
    main()
