# SPDX-License-Identifier: Apache-2.0
"""All solutions of inverse kinematics in closed form, beside other analytic solvers.

Run: ``python benchmarks/bench_analytic_ik.py`` (a minute; ``--poses N``). Peers are used where they
can be imported: ``make bench`` installs ssik, ur_analytic_ik and frankik; ``pip install EAIK
geofikpy``.

Poses come from joint values drawn within the limits. A solution counts if pinocchio finds the tip
within 1e-6 m and 1e-6 rad, all joints are inside their limits (full turns taken off where a solver
knows none), and no other one of that pose is the same. Solvers take turns in rounds of 50 poses.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator

import numpy as np
from analytic_contenders import CONTENDERS, VALUES, Contender, Pose
from bench_ik import Judge
from report import Cell, Report, arguments, progress, ratio

from motion_nodes.ik.chain import IkChain
from motion_nodes.model.loader import load_robot

ROBOTS = ("ur10e", "franka")
ROUND = 50
COLUMNS = ("solver", "solved %", "solutions a pose", "not valid %", "median us", "p95 us", "ratio")


def contenders(chain: IkChain) -> dict[str, Contender]:
    """Return the solvers there are for an arm; say which are missing."""
    found = {}
    for name, make in CONTENDERS.items():
        try:
            found[name] = make(chain)
        except ImportError as error:
            progress(f"{chain.robot_name} without {name}: {error}")
    return found


def valid(judge: Judge, answers: np.ndarray, X: Pose) -> int:
    """Return how many different configurations are solutions."""
    good = []
    for q in np.asarray(answers, dtype=float).reshape(-1, len(judge.chain.lower)):
        turned = judge.chain.unwrap_near(_within(judge.chain, q), judge.chain.centre)
        if judge.accepts(turned, X):
            good.append(np.round(turned, 4))
    return len({tuple(q) for q in good})


def _within(chain: IkChain, q: np.ndarray) -> np.ndarray:
    """Return joint values with full turns taken off until they are within the limits."""
    turn = 2.0 * np.pi
    q = np.where(q > chain.upper, q - turn * np.ceil((q - chain.upper) / turn), q)
    return np.where(q < chain.lower, q + turn * np.ceil((chain.lower - q) / turn), q)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep what C++ prints off the screen."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def measure(
    solvers: dict[str, Contender], targets: np.ndarray, judge: Judge
) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return for each solver, pose by pose: the time [s], solutions, and what was returned."""
    figures = {name: np.zeros((3, len(targets))) for name in solvers}
    for first in range(0, len(targets), ROUND):
        part = targets[first : first + ROUND]
        for name, solver in solvers.items():
            own = [np.ascontiguousarray(solver.before @ X @ solver.behind) for X in part]
            answers = []
            gc.collect()
            gc.disable()
            with silence():
                solver.solve(own[-1])  # what others left in the caches is not its fault
                for i, X in enumerate(own, first):
                    begin = time.perf_counter()
                    answers.append(solver.solve(X))
                    figures[name][0, i] = time.perf_counter() - begin
            gc.enable()
            for i, (X, found) in enumerate(zip(part, answers, strict=True), first):
                figures[name][1:, i] = valid(judge, found, X), len(found)
    return {name: (rows[0], rows[1], rows[2]) for name, rows in figures.items()}


def main() -> None:
    """Measure both arms."""
    parser = arguments(__doc__)
    parser.add_argument("--poses", type=int, default=1000, metavar="N", help="poses per robot")
    options = parser.parse_args()
    report = Report("Analytic inverse kinematics")
    for name in ROBOTS:
        robot = load_robot(name)
        chain = IkChain.of_group(robot, "arm")
        judge, solvers = Judge(robot, chain), contenders(chain)
        rng = np.random.default_rng(0)
        Q = rng.uniform(chain.lower, chain.upper, (options.poses, len(chain.lower)))
        targets = np.array([judge.pose(q) for q in Q])
        progress(f"{name}: {options.poses} poses")
        figures = measure(solvers, targets, judge)
        own = float(np.median(figures["motion_nodes analytic"][0]))
        lines: list[list[Cell]] = []
        for solver, (times, good, returned) in figures.items():
            bad = 100.0 * float((returned - good).sum()) / max(1.0, float(returned.sum()))
            median, p95 = np.median(times) * 1e6, np.percentile(times, 95) * 1e6
            share, mean = f"{100.0 * (good > 0).mean():.1f}", f"{good.mean():.2f}"
            solved: list[Cell] = [solver, share, mean, f"{bad:.1f}"]
            lines.append([*solved, float(median), float(p95), ratio(own * 1e6, float(median))])
        tried = f", {VALUES} values of joint 7" if name == "franka" else ""
        report.table(
            f"{name}: all solutions of {options.poses} reachable poses{tried}",
            COLUMNS,
            lines,
            "Ratio: our median by the solver's. Not valid: beyond the limits, twice, or no "
            "solution. ssik chooses the values of joint 7 itself.",
        )
    report.write(options.json)


if __name__ == "__main__":
    main()
