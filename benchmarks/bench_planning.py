# SPDX-License-Identifier: Apache-2.0
"""Planning: RRT-Connect and shortening on the MotionBenchMaker problems, beside vamp.

Run: ``python benchmarks/bench_planning.py --problems FOLDER`` (a minute), or with the folder in
``MOTION_BENCH_MAKER``; what has to be in it says ``planning_problems.py``. vamp is used where this
Python can import it, or one named by ``--vamp-python``; its build needs Eigen and a C++ compiler.

Both planners have the same spheres, pairs, steps along edges and shapes, and a cylinder is what
vamp takes it for: a capsule, in the family ``box`` a box. Search is the time of the tree search
alone, without making its memory: vamp by its own clock, ours with the way from Python into the
kernel and back. End to end is one call to plan and one to shorten from Python; ours checks start
and goals as well. Making the world is not counted, nor is the first call of each process.

``--mplib-python`` adds mplib on some of the problems, with the same spheres and shapes.

``--exact`` adds a run with true cylinders, and has coal check paths that were planned there as the
node plans them, verification included. ``--verify`` verifies the short path of each problem's first
seed with other code at ten times the resolution; without it nothing is verified, and the table says
so. ``--anytime`` shows length against time. ``--shipped`` measures the robot as it is shipped
instead, with its own spheres and shapes, true cylinders and the whole pipeline, verification
included.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from planning_problems import ProblemSet, find_problems, write_model
from report import Report, arguments, progress, ratio

from motion_nodes.planning.anytime_planner import AnytimeRrtConnect
from motion_nodes.planning.path_verification import PathVerifier
from motion_nodes.planning.pipeline import MotionPlan, plan
from motion_nodes.planning.planning_problem import (
    JointGoal,
    PlanRequest,
    PlanResult,
)
from motion_nodes.planning.rrt_connect import RrtConnect
from motion_nodes.planning.search_settings import AnytimeSettings, RrtConnectSettings
from motion_nodes.planning.shortcut import shorten_path

LIMIT = 1.0
"""Later answers do not count [s]."""
MOMENTS = (0.002, 0.005, 0.015, 0.05, 0.15)
"""When the anytime planner's best path is looked at [s]."""


@dataclass
class Answer:
    """What a planner did with a problem; times in seconds."""

    family: str
    solved: bool
    search: float = math.nan
    wall: float = math.nan
    first: float = math.nan
    length: float = math.nan
    problem: int = -1
    """Number of the problem; -1 where it was not kept."""
    valid: bool | None = None
    """What verification said of the short path; None: it was not verified."""


def ours(
    problems: ProblemSet, rounds: int, as_reference: bool, threads: int, verify: bool, step: int = 1
) -> list[Answer]:
    """Plan and shorten each problem, or each so many-th."""
    planner = RrtConnect(RrtConnectSettings(threads=threads))
    answers = []
    for problem in problems.problems[::step]:
        checker = problems.checker(problem, as_reference)
        goals = tuple(JointGoal(goal) for goal in problem.goals)
        if not answers:
            path = planner.plan(PlanRequest(checker, problem.start, goals, timeout=300.0)).path
            shorten_path(checker, path)
        checker.kernel()  # packs the scene, as vamp's environment is made before
        for number in range(rounds):
            request = PlanRequest(checker, problem.start, goals, LIMIT, random_seed=number)
            begin = time.perf_counter()
            result = planner.plan(request)
            if result.path is None:
                answers.append(Answer(problem.family, False))
                continue
            path = shorten_path(checker, result.path, random_seed=number)
            wall = time.perf_counter() - begin
            length = float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
            valid = None
            if verify and number == 0:
                valid = PathVerifier(checker).verify(path).free
            answers.append(
                Answer(problem.family, True, result.search_time, wall, result.cost, length, valid)
            )
    return answers


def vamps(problems: ProblemSet, rounds: int, python: str | None) -> list[Answer]:
    """Return vamp's answers; none where it cannot be imported."""
    return [Answer(**row) for row in _ask_vamp(python, str(problems.file), str(rounds))]


def mplibs(problems: ProblemSet, python: str, step: int) -> list[Answer]:
    """Return mplib's answers to each so many-th problem."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(problems, Path(folder))
        script = str(Path(__file__).with_name("planning_mplib.py"))
        command = [python, script, str(problems.file), folder, str(step)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        progress(f"without mplib: it ended with code {done.returncode}")
        return []
    lines = (line for line in done.stdout.splitlines() if line.startswith("{"))
    return [Answer(**json.loads(line)) for line in lines]


def _ask_vamp(python: str | None, *words: str) -> list[dict[str, Any]]:
    if python is None and importlib.util.find_spec("vamp") is None:
        progress("without vamp: it cannot be imported, and no --vamp-python was given")
        return []
    command = [python or sys.executable, str(Path(__file__).with_name("planning_vamp.py")), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        progress(f"without vamp: it ended with code {done.returncode}")
        return []
    return [json.loads(line) for line in done.stdout.splitlines()]


def table(
    report: Report, title: str, mine: list[Answer], peer: list[Answer], name: str = "vamp"
) -> None:
    """Print families and all together."""
    families = list(dict.fromkeys(answer.family for answer in mine))
    rows = []
    for family in [*families, "all"]:
        a = [x for x in mine if family in (x.family, "all")]
        b = [x for x in peer if family in (x.family, "all")]
        ours_, theirs = _figures(a), _figures(b)
        rows.append([
            family,
            100.0 * sum(x.solved for x in a) / len(a),
            *ours_,
            *theirs,
            *(ratio(m, t) for m, t in zip(ours_[:3], theirs[:3], strict=True)),
        ])  # fmt: skip
    columns = [
        "family", "solved %", "search us", "p95 us", "end to end us", "first", "short",
        f"{name} us", "p95 us", "end to end us", "first", "short",
        "ratio", "ratio p95", "ratio end to end",
    ]  # fmt: skip
    note = f"Lengths in rad. {_verified(mine)}"
    if peer:
        note += f" Solved by {name}: {sum(x.solved for x in peer)} of {len(peer)}.{_variety(peer)}"
    report.table(title, columns, rows, note)


def _verified(answers: Sequence[Answer]) -> str:
    """Return in words how many paths were verified, and how many of them were refused."""
    verified = [x.valid for x in answers if x.valid is not None]
    if not verified:
        return "Verification was not run (--verify)."
    return f"Paths refused by verification: {verified.count(False)} of {len(verified)} verified."


def _variety(answers: Sequence[Answer]) -> str:
    """Return in words for how many problems different seeds led to different paths."""
    lengths: dict[int, list[float]] = {}
    for answer in answers:
        if answer.solved and answer.problem >= 0:
            lengths.setdefault(answer.problem, []).append(answer.first)
    several = [rows for rows in lengths.values() if len(rows) > 1]
    if not several:
        return ""
    differing = sum(len(set(rows)) > 1 for rows in several)
    return f" Seeds led to different first paths in {differing} of {len(several)} problems."


def _figures(answers: Iterable[Answer]) -> list[float]:
    """Return median and p95 of the search, median end to end [us], mean lengths [rad]."""
    solved = [x for x in answers if x.solved]
    if not solved:
        return [math.nan] * 5
    search = np.array([x.search for x in solved]) * 1e6
    return [
        float(np.median(search)),
        float(np.percentile(search, 95)),
        float(np.median([x.wall for x in solved])) * 1e6,
        float(np.mean([x.first for x in solved])),
        float(np.mean([x.length for x in solved])),
    ]


def shipped(report: Report, problems: ProblemSet, rounds: int) -> None:
    """Show what the pipeline makes of the problems with the shipped spheres and shapes."""
    answers: list[tuple[str, bool, MotionPlan]] = []
    for problem in problems.problems:
        checker = problems.shipped_checker(problem)
        goals = tuple(JointGoal(goal) for goal in problem.goals)
        if not answers:
            plan(PlanRequest(checker, problem.start, goals, timeout=300.0))
        checker.kernel()
        fair = checker.exact.is_free(problem.start) and checker.exact.are_free(problem.goals).any()
        for number in range(rounds):
            request = PlanRequest(checker, problem.start, goals, LIMIT, random_seed=number)
            answers.append((problem.family, bool(fair), plan(request)))
    rows = []
    for family in [*dict.fromkeys(name for name, *_ in answers), "all"]:
        asked = [answer for answer in answers if family in (answer[0], "all")]
        made = [found for _, fair, found in asked if fair]
        solved = [found for found in made if found.success]
        again = sum(any("searched again" in note for note in found.notes) for found in made)
        ends = sum(any("only collision spheres" in note for note in found.notes) for found in made)
        row: list[Any] = [family, len(asked), len(asked) - len(made), len(solved)]
        row.append(100.0 * len(solved) / len(made) if made else math.nan)
        for names in (("path",), ("verify",), ()):
            times = [
                sum(stage.time for stage in found.stages if stage.name in names)
                if names
                else found.time
                for found in solved
            ]
            row.append(1e3 * float(np.median(times)) if times else math.nan)
        whole = [1e3 * found.time for found in solved] or [math.nan]
        rows.append([*row, float(np.percentile(whole, 95)), ends, again])
    columns = [
        "family", "requests", "ends in collision", "solved", "% of the others", "search ms",
        "verify ms", "all ms", "p95 ms", "ends within spheres", "searched again",
    ]  # fmt: skip
    count = sum(map(len, problems.shipped_robot.spheres.values()))
    report.table(
        f"The robot as shipped ({count} spheres), whole pipeline, {rounds} seeds a problem",
        columns,
        rows,
        "Ends in collision: start or all goals, by the collision shapes. Medians of solved ones.",
    )


def coal(report: Report, problems: ProblemSet, step: int) -> None:
    """Show what coal says of our paths."""
    # Imported here: pinocchio and coal are needed for this only.
    from planning_proof import FINER, prove

    proof = prove(problems, step)
    report.table(
        "Paths as the node plans them, looked at by coal",
        ["problems", "solved %", "searched again %", "configurations", "touching paths"],
        [
            [
                proof.problems,
                100.0 * proof.solved / proof.problems,
                100.0 * proof.again / proof.problems,
                proof.configurations,
                proof.touching,
            ]
        ],
        f"The robot's spheres, true shapes, {FINER} times as many configurations as were planned "
        "with.",
    )


def anytime(report: Report, problems: ProblemSet, step: int, python: str | None) -> None:
    """Show the length of the best path against time, on some of the problems, beside AORRTC."""
    peer = _ask_vamp(python, str(problems.file), "1", str(step))
    ours_, theirs = [], []
    for number, problem in enumerate(problems.problems[::step]):
        seen: list[tuple[float, float]] = []

        def note(result: PlanResult, seen: list[tuple[float, float]] = seen) -> None:
            seen.append((result.time, result.cost))

        planner = AnytimeRrtConnect(AnytimeSettings(optimization_time=MOMENTS[-1]), note)
        checker = problems.checker(problem, True)
        goals = tuple(JointGoal(goal) for goal in problem.goals)
        if not ours_:
            planner.plan(PlanRequest(checker, problem.start, goals, timeout=300.0))
            AnytimeRrtConnect(AnytimeSettings(optimization_time=60.0 * 5e-3)).plan(
                PlanRequest(checker, problem.start, goals)
            )
            seen.clear()
        planner.plan(PlanRequest(checker, problem.start, goals))
        ours_.append((problem.family, _best_at(seen)))
        if peer:
            theirs.append((problem.family, _best_at(peer[number]["seen"])))
    rows = []
    for family in [*dict.fromkeys(name for name, _ in ours_), "all"]:
        row: list[Any] = [family]
        for found in (ours_, theirs):
            lengths = np.array([x for name, x in found if family in (name, "all")])
            # Where a moment comes before the first path of some, a mean would be of easy ones.
            row += lengths.mean(axis=0).tolist() if len(lengths) else [math.nan] * len(MOMENTS)
        rows.append(row)
    names = [f"{1e3 * moment:g} ms" for moment in MOMENTS]
    columns = ["family", *names, *(f"AORRTC {name}" for name in names)]
    report.table("Anytime: mean length of the best path [rad]", columns, rows)


def _best_at(seen: Sequence[tuple[float, float]]) -> list[float]:
    """Return the length of the best path at each moment, NaN before the first one."""
    return [min((cost for t, cost in seen if t <= moment), default=math.nan) for moment in MOMENTS]


def main(options: argparse.Namespace) -> int:
    """Print the tables."""
    problems = find_problems(options.problems)
    if problems is None:
        print("No problems: name their folder with --problems or in MOTION_BENCH_MAKER.")
        return 0
    report = Report("Planning: MotionBenchMaker, Franka Panda")
    rounds = options.rounds
    if options.shipped:
        shipped(report, problems, rounds)
        report.write(options.json)
        return 0
    peer = vamps(problems, rounds, options.vamp_python)
    mine = ours(problems, rounds, True, 1, options.verify)
    table(report, f"RRT-Connect, then shortening, {rounds} seeds a problem", mine, peer)
    if options.threads > 1:
        two = ours(problems, rounds, True, options.threads, False)
        table(report, f"The same with {options.threads} threads", two, peer)
    if options.exact:
        table(report, "With true cylinders", ours(problems, rounds, False, 1, options.verify), [])
        coal(report, problems, options.proof_step)
    if options.mplib_python:
        theirs = mplibs(problems, options.mplib_python, options.step)
        some = ours(problems, 1, True, 1, False, options.step)
        table(report, f"Each {options.step}th problem, beside mplib", some, theirs, "mplib")
    if options.anytime:
        anytime(report, problems, options.step, options.vamp_python)
    report.write(options.json)
    return 0


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--problems", type=Path, metavar="FOLDER", help="where the problems are")
    parser.add_argument("--rounds", type=int, default=5, help="seeds a problem")
    parser.add_argument("--threads", type=int, default=1, help="of a further run side by side")
    parser.add_argument("--vamp-python", metavar="FILE", help="a Python that has vamp")
    parser.add_argument("--mplib-python", metavar="FILE", help="a Python that has mplib")
    parser.add_argument("--exact", action="store_true", help="true cylinders as well, and coal")
    parser.add_argument("--proof-step", type=int, default=1, help="each so many-th path for coal")
    parser.add_argument("--verify", action="store_true", help="look at each path again")
    parser.add_argument("--shipped", action="store_true", help="the shipped spheres and shapes")
    parser.add_argument("--anytime", action="store_true", help="length against time")
    parser.add_argument(
        "--step", type=int, default=7, help="each so many-th problem for that and mplib"
    )
    sys.exit(main(parser.parse_args()))
