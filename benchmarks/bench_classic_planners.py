# SPDX-License-Identifier: Apache-2.0
"""Planning: RRT and RRT* on the MotionBenchMaker problems, beside RRT-Connect.

Run: ``python benchmarks/bench_classic_planners.py --problems FOLDER`` (two minutes), or with the
folder in ``MOTION_BENCH_MAKER``; what has to be in it says ``planning_problems.py``. 35 problems of
the three families of shelves, and 35 of all families, evenly chosen, with a second for each. RRT*
uses up that second; RRT and RRT-Connect return their first path. ``--cpu`` counts the process's own
time instead of the clock's, for machines that are busy with other things.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from planning_problems import Problem, ProblemSet, find_problems
from report import Report, arguments

from motion_nodes.planning.planners import make_planner
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest

COUNT = 35
PLANNERS = ("RRTConnect", "RRT", "RRTstar")


def evenly(problems: Sequence[Problem]) -> list[Problem]:
    """Return a number of the problems, evenly chosen."""
    return [problems[i] for i in np.linspace(0, len(problems) - 1, COUNT).round().astype(int)]


def run(
    problems: ProblemSet, chosen: Sequence[Problem], name: str, timeout: float, seed: int
) -> list[tuple[float, float]]:
    """Return duration [s] and length of the path of each problem; NaN where there is none."""
    planner, answers = make_planner(name), []
    for problem in chosen:
        checker = problems.checker(problem, True)
        goals = tuple(JointGoal(goal) for goal in problem.goals)
        checker.kernel()
        begin = time.perf_counter()
        result = planner.plan(PlanRequest(checker, problem.start, goals, timeout, seed))
        took = time.perf_counter() - begin
        answers.append((took, result.cost) if result.path is not None else (np.nan, np.nan))
    return answers


def main(options: argparse.Namespace) -> int:
    """Print the table."""
    problems = find_problems(options.problems)
    if problems is None:
        print("No problems: name their folder with --problems or in MOTION_BENCH_MAKER.")
        return 0
    if options.cpu:
        time.perf_counter = time.process_time
    shelves = [p for p in problems.problems if p.family.startswith("bookshelf")]
    report = Report("Classic planners: MotionBenchMaker, Franka Panda")
    rows = []
    for title, chosen in (("shelves", evenly(shelves)), ("all", evenly(problems.problems))):
        for name in options.planners.split(","):
            run(problems, chosen[:1], name, options.timeout, 0)  # compiles
            for seed in range(options.rounds):
                answers = np.array(run(problems, chosen, name, options.timeout, seed))
                solved = np.isfinite(answers[:, 0])
                times = answers[solved, 0] if solved.any() else np.array([np.nan])
                rows.append([
                    title, name, seed, f"{solved.sum()} of {len(chosen)}", np.median(times),
                    times.max(), np.nanmean(answers[:, 1]) if solved.any() else np.nan,
                ])  # fmt: skip
    columns = ["problems", "planner", "seed", "solved", "median s", "max s", "mean length rad"]
    report.table(f"{options.timeout:g} s for each problem", columns, rows)
    report.write(options.json)
    return 0


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--problems", type=Path, metavar="FOLDER", help="where the problems are")
    parser.add_argument("--timeout", type=float, default=1.0, help="for each problem [s]")
    parser.add_argument("--rounds", type=int, default=1, help="seeds of each problem")
    parser.add_argument("--planners", default=",".join(PLANNERS), help="names, commas between")
    parser.add_argument("--cpu", action="store_true", help="count the process's own time")
    sys.exit(main(parser.parse_args()))
