# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics beside the solvers that people use: success, time, and time to an honest no.

Run: ``python benchmarks/bench_ik.py`` (ten minutes, one without peers; ``--poses N``). Peers are
used where they can be imported: ``pip install roboticstoolbox-python pytracik pin``.

Poses come from joint values drawn within the limits, so all can be reached; solvers know nothing of
those values. A solution counts if pinocchio finds the tip within 1e-6 m and 1e-6 rad (and a tenth
more, since peers bound other norms), all joints are inside their limits, and it came within 10 ms.
Solvers take turns in rounds of 50 poses, so that a busy machine slows all of them alike; times are
of single calls from Python, first calls left out.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import pinocchio as pin
from ik_contenders import BUDGET, CONTENDERS, TOLERANCE, Solve
from report import Cell, Report, arguments, progress, ratio

from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkSettings, IkTolerance
from motion_nodes.ik.solver import LeastSquaresIk
from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import inverse
from motion_nodes.model.robot import Robot

ROBOTS = ("franka", "ur10e")
PEER = "roboticstoolbox ik_LM (C++)"
ROUND = 50


class Judge:
    """Where tips are, according to pinocchio."""

    def __init__(self, robot: Robot, chain: IkChain) -> None:
        """Build the robot there."""
        self.model = pin.buildModelFromXML(robot.urdf)
        self.data = self.model.createData()
        self.chain = chain
        self.places = [self.model.joints[self.model.getJointId(n)].idx_q for n in chain.joint_names]
        self.base, self.tip = (self.model.getFrameId(f) for f in (chain.base, chain.tip))

    def pose(self, q: np.ndarray) -> np.ndarray:
        """Return the pose of the tip in the base."""
        whole = pin.neutral(self.model)
        whole[self.places] = q
        pin.framesForwardKinematics(self.model, self.data, whole)
        return self.data.oMf[self.base].actInv(self.data.oMf[self.tip]).homogeneous

    def accepts(self, q: np.ndarray | None, X: np.ndarray) -> bool:
        """Return whether joint values are a solution."""
        if q is None or not ((self.chain.lower <= q) & (q <= self.chain.upper)).all():
            return False
        error = inverse(X) @ self.pose(q)
        turn = np.linalg.norm(pin.log3(error[:3, :3]))
        return bool(max(np.linalg.norm(error[:3, 3]), turn) <= 1.1 * TOLERANCE)


def contenders(robot: Robot, chain: IkChain) -> dict[str, Solve]:
    """Return the solvers there are; say which are missing."""
    found = {}
    for name, make in CONTENDERS.items():
        try:
            found[name] = make(robot, chain)
        except ImportError as error:
            progress(f"without {name}: {error}")
    return found


def measure(
    solvers: dict[str, Solve],
    targets: np.ndarray,
    start: np.ndarray | None,
    judge: Judge | None,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return for each solver the time for each pose [s], and whether it was solved."""
    times = {name: np.empty(len(targets)) for name in solvers}
    solved = {name: np.zeros(len(targets), dtype=bool) for name in solvers}
    for first in range(0, len(targets), ROUND):
        part = targets[first : first + ROUND]
        for name, solve in solvers.items():
            answers = []
            gc.collect()
            gc.disable()
            solve(part[-1], start)  # what others left in the caches is not its fault
            for i, X in enumerate(part, first):
                begin = time.perf_counter()
                answers.append(solve(X, start))
                times[name][i] = time.perf_counter() - begin
            gc.enable()
            for i, (X, q) in enumerate(zip(part, answers, strict=True), first):
                good = q is not None if judge is None else judge.accepts(q, X)
                solved[name][i] = good and times[name][i] <= BUDGET
    return {name: (times[name], solved[name]) for name in solvers}


def rows(figures: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[list[Cell]]:
    """Return lines of a table."""
    medians = {name: float(np.median(times)) * 1e6 for name, (times, _) in figures.items()}
    peer = medians.get(PEER, float("nan"))
    lines: list[list[Cell]] = []
    for name, (times, solved) in figures.items():
        p95, worst = float(np.percentile(times, 95)) * 1e6, float(times.max()) * 1e6
        share = f"{100.0 * solved.mean():.1f}"
        lines.append([name, share, medians[name], p95, worst, ratio(medians[name], peer)])
    return lines


COLUMNS = ("solver", "solved %", "median us", "p95 us", "max us", "median / ik_LM")


def reachable(report: Report, name: str, count: int) -> None:
    """Measure poses that can be reached, and poses that cannot."""
    robot = load_robot(name)
    chain = IkChain.of_group(robot, "arm")
    judge, solvers = Judge(robot, chain), contenders(robot, chain)
    low, high = np.maximum(chain.lower, -np.pi), np.minimum(chain.upper, np.pi)
    Q = np.random.default_rng(0).uniform(low, high, (count, len(low)))
    targets = np.array([judge.pose(q) for q in Q])
    progress(f"{name}: {count} poses, no start given")
    figures = measure(solvers, targets, None, judge)
    report.table(f"{name}: {count} reachable poses, no start given", COLUMNS, rows(figures))
    progress(f"{name}: {count} poses, from the middle of the ranges")
    figures = measure(solvers, targets, chain.centre.copy(), judge)
    note = "The solution from the start is preferred, so that others that are found first wait."
    title = f"{name}: the same poses, from the middle of the joints' ranges"
    report.table(title, COLUMNS, rows(figures), note)
    few = targets[: max(10, count // 20)].copy()
    few[:, :3, 3] += chain.length * few[:, :3, 3] / np.linalg.norm(few[:, :3, 3], axis=1)[:, None]
    progress(f"{name}: {len(few)} poses out of reach")
    figures = measure(solvers, few, None, None)
    title = f"{name}: {len(few)} poses out of reach, time to a no"
    report.table(title, COLUMNS, rows(figures), "Each with its own limit of starts or time.")


def batches(report: Report, count: int) -> None:
    """Measure many poses at once."""
    lines: list[list[Cell]] = []
    for name in ROBOTS:
        chain = IkChain.of_group(load_robot(name), "arm")
        settings = IkSettings(tolerance=IkTolerance(TOLERANCE, TOLERANCE))
        solver = LeastSquaresIk(chain, settings)
        low, high = np.maximum(chain.lower, -np.pi), np.minimum(chain.upper, np.pi)
        Q = np.random.default_rng(1).uniform(low, high, (count, len(low)))
        targets = chain.kinematics.pose_batch(Q, chain.tip)
        cores = len(os.sched_getaffinity(0))
        speeds, solved = [], 1.0
        for threads in (1, cores):
            runs = [solver.solve_batch(targets, threads=threads) for _ in range(5)]
            speeds.append(count / min(run.time for run in runs))
            solved = min(solved, float(runs[0].solved.mean()))
        lines.append([name, f"{100.0 * solved:.2f}", *speeds, speeds[1] / speeds[0]])
    columns = ("robot", "solved %", "poses/s, 1 thread", f"poses/s, {cores} threads", "gain")
    report.table(f"Batches of {count} poses: solve_batch", columns, lines)


START = """
import time
begin = time.perf_counter()
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.solver import LeastSquaresIk
from motion_nodes.model.loader import load_robot
robot = load_robot("franka")
ready = time.perf_counter()
LeastSquaresIk(IkChain.of_group(robot, "arm"))
import sys
print(ready - begin, time.perf_counter() - ready, int("numba" in sys.modules))
"""


def starts(report: Report) -> None:
    """Measure how long a solver takes to come to be."""
    lines: list[list[Cell]] = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MOTION_NODES_CACHE_DIR": folder}
        for label in ("empty cache: compiled", "filled cache: loaded"):
            done = subprocess.run(
                [sys.executable, "-c", START],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            imports, made, numba = (float(word) for word in done.stdout.split())
            needed = "yes" if numba else "no"
            lines.append([label, imports * 1e3, made * 1e3, needed])
    columns = ("fresh process", "imports and robot ms", "solver ms", "Numba needed")
    report.table("Start: franka", columns, lines)


def main() -> None:
    """Print all tables."""
    parser = arguments(__doc__)
    parser.add_argument("--poses", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=20000)
    options = parser.parse_args()
    report = Report("Inverse kinematics")
    for name in ROBOTS:
        reachable(report, name, options.poses)
    batches(report, options.batch)
    starts(report)
    report.write(options.json)


if __name__ == "__main__":
    main()
