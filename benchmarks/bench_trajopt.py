# SPDX-License-Identifier: Apache-2.0
"""Durations of optimized motions beside those of shortened paths, on MotionBenchMaker problems.

Run: ``python benchmarks/bench_trajopt.py --problems FOLDER`` (some minutes for all 349 problems).

Both planners run through the whole pipeline, with limits of velocity, acceleration, jerk and
effort. Processor time of the planning thread is measured: other load changes it less.
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from harness import Cell, Report, arguments, progress
from planning_problems import Problem, ProblemSet, find_problems

from motion_nodes.planning.pipeline import PlanOptions, plan
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest

PLANNERS = ("RRTConnect", "TrajOpt")


def solve(problems: ProblemSet, problem: Problem, planner: str) -> tuple[float, float]:
    """Return the duration of the motion [s], NaN if there is none, and processor time [ms]."""
    goals = tuple(JointGoal(goal) for goal in problem.goals)
    request = PlanRequest(problems.checker(problem, True), problem.start, goals)
    began = time.thread_time()
    found = plan(request, PlanOptions(planner=planner, verify=False))
    spent = time.thread_time() - began
    return found.motion.duration if found.motion is not None else np.nan, 1e3 * spent


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--problems", type=Path, help="folder of the problems")
    parser.add_argument("--count", type=int, default=50, help="problems of each family")
    options = parser.parse_args()
    problems = find_problems(options.problems)
    if problems is None:
        raise SystemExit("no problems; see planning_problems.py")
    families: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems.problems:
        families[problem.family].append(problem)
    for planner in PLANNERS:  # compiles what is needed
        solve(problems, problems.problems[0], planner)
    report, rows, every = Report("Optimized motions"), [], []
    for family, members in families.items():
        progress(f"optimized motions: {family}")
        found = np.array(
            [
                [solve(problems, p, planner) for planner in PLANNERS]
                for p in members[: options.count]
            ]
        )
        rows.append(row(family, found))
        every.append(found)
    rows.append(row("all", np.concatenate(every)))
    report.table(
        "MotionBenchMaker, Panda",
        ("family", "problems", "solved by RRTConnect", "by TrajOpt", "motion time [s]",
         "TrajOpt [s]", "ratio, median", "ratio, max", "planning [ms], median",
         "TrajOpt [ms]", "p95 [ms]"),
        rows,
        "Motion times are means of problems that both solve; planning is processor time, without\n"
        "verification: the reference's robot has spheres only.",
    )  # fmt: skip
    report.write(options.json)


def row(family: str, found: np.ndarray) -> list[Cell]:
    """Return the figures of some problems; ``found`` has shape (problems, planners, 2)."""
    times, spent = found[..., 0], found[..., 1]
    solved = np.isfinite(times)
    both = solved.all(axis=1)
    ratio = times[both, 1] / times[both, 0]
    return [
        family, len(found), int(solved[:, 0].sum()), int(solved[:, 1].sum()),
        *times[both].mean(axis=0).tolist(), float(np.median(ratio)), float(ratio.max()),
        *np.median(spent, axis=0).tolist(), float(np.percentile(spent[:, 1], 95)),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
