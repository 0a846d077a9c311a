# SPDX-License-Identifier: Apache-2.0
"""Planning on the MotionBenchMaker problems: RRT-Connect and shortening beside vamp.

Run: ``python benchmarks/bench_planning.py --problems FOLDER`` (a minute), or with the folder in
MOTION_BENCH_MAKER; ``planning_problems.py`` documents its contents. vamp runs in this Python if it
can be imported, else in that of ``--vamp-python``.

Both planners have the same spheres, pairs, shapes and steps along edges; cylinders are capsules, in
the family ``box`` boxes, as for vamp. Search is the time of the tree search alone, by the planner's
own clock; end to end is one call to plan and one to shorten from Python, with our checks of start
and goals. Creating the world and the first call of each process are not counted. ``--verify``
verifies the short path of each problem's first seed by the URDF's geometry. ``--classic`` gives RRT
and RRT* a second each for 35 of the problems with shelves; RRT* uses it up. ``--shipped`` measures
the shipped robot instead, with its own spheres and shapes, cylinders, and the whole pipeline with
verification. ``--trajopt`` compares the durations of motions of TrajOpt and RRTConnect.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from harness import Cell, Report, Spread, arguments, progress, ratio, script_command
from planning_problems import Problem, ProblemSet, find_problems

from motion_nodes.planning.path_verification import PathVerifier
from motion_nodes.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.planning.planners import make_planner
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.planning.rrt_connect import RrtConnect
from motion_nodes.planning.shortcut import shorten_path

LIMIT = 1.0  # [s] Later answers do not count
CLASSIC = 35  # Problems of the classic planners
UNHURRIED = 100.0  # [s] Where iterations are limited


@dataclass
class Answer:
    """Result of a planner for a problem; times in seconds, lengths in rad."""

    family: str
    solved: bool
    problem: int
    search: float = math.nan
    wall: float = math.nan
    first: float = math.nan
    length: float = math.nan
    valid: bool | None = None
    """Result of the verification of the short path; None: not verified."""


def request_of(problems: ProblemSet, problem: Problem, timeout: float) -> PlanRequest:
    """Return a problem as a request, its scene packed, as the peers' worlds are."""
    checker = problems.checker(problem, True)
    checker.kernel()
    goals = tuple(JointGoal(goal) for goal in problem.goals)
    return PlanRequest(checker, problem.start, goals, timeout)


def ours(problems: ProblemSet, step: int, rounds: int, verify: bool) -> list[Answer]:
    """Plan and shorten every `step`-th problem."""
    planner, answers = RrtConnect(), []
    for number, problem in enumerate(problems.problems[::step]):
        request = request_of(problems, problem, LIMIT)
        if not answers:  # the first call compiles
            shorten_path(request.checker, planner.plan(replace(request, timeout=300.0)).path)
        for seed in range(rounds):
            request = replace(request, random_seed=seed)
            begin = time.perf_counter()
            result = planner.plan(request)
            if result.path is None:
                answers.append(Answer(problem.family, False, number))
                continue
            path = shorten_path(request.checker, result.path, random_seed=seed)
            wall = time.perf_counter() - begin
            length = float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
            free = PathVerifier(request.checker).verify(path).free if verify and not seed else None
            answers.append(Answer(problem.family, True, number, result.search_time, wall,
                                  result.cost, length, valid=free))  # fmt: skip
    return answers


def vamp(python: str, problems: ProblemSet, step: int, rounds: int) -> list[Answer]:
    """Return the answers of ``peers/planning_vamp.py``; none if it fails."""
    progress(f"vamp: {rounds} seeds")
    words = [str(problems.file), str(step), str(rounds)]
    command = [python, *script_command("peers/planning_vamp.py", *words)[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        progress(f"without vamp: it ended with code {done.returncode}")
        return []
    lines = (line for line in done.stdout.splitlines() if line.startswith("{"))
    return [Answer(**json.loads(line)) for line in lines]


def table(report: Report, title: str, mine: list[Answer], theirs: list[Answer]) -> None:
    """Print families and all together."""
    rows: list[list[Cell]] = []
    for family in [*dict.fromkeys(answer.family for answer in mine), "all"]:
        a, b = ([x for x in part if family in (x.family, "all")] for part in (mine, theirs))
        left, right = figures(a), figures(b)
        ratios = [ratio(m, t) for m, t in zip(left[1:4], right[1:4], strict=True)]
        rows.append([family, *left, *right, *ratios][: 16 if theirs else 7])
    columns = ["solved %", "search us", "p95 us", "end to end us", "first rad", "short rad"]
    heads = ["family", *columns, *(f"vamp: {column}" for column in columns)]
    heads = [*heads, "ratio", "ratio p95", "ratio end to end"][: 16 if theirs else 7]
    report.table(title, heads, rows, f"{verified(mine)} {seeds(theirs)}")


def figures(answers: Sequence[Answer]) -> list[float]:
    """Return solved [%], median and p95 of search, median end to end [us], mean lengths [rad]."""
    solved = [x for x in answers if x.solved]
    if not solved:
        return [0.0 if answers else math.nan] + [math.nan] * 5
    search, walls = (
        1e6 * np.array([getattr(x, key) for x in solved]) for key in ("search", "wall")
    )
    lengths = [float(np.mean([getattr(x, key) for x in solved])) for key in ("first", "length")]
    return [100.0 * len(solved) / len(answers), *np.percentile(search, (50, 95)).tolist(),
            float(np.median(walls)), *lengths]  # fmt: skip


def verified(answers: Sequence[Answer]) -> str:
    """Return the numbers of verified and of rejected paths, as text."""
    found = [x.valid for x in answers if x.valid is not None]
    if not found:
        return "Verification was not run (--verify)."
    return (
        f"Refused by verification: {found.count(False)} of {len(found)} paths; it is by the "
        "URDF's geometry, which the problems' spheres do not contain."
    )


def seeds(answers: Sequence[Answer]) -> str:
    """Return in how many problems vamp's seeds led to different first paths, as text."""
    lengths: dict[int, list[float]] = {}
    for answer in answers:
        lengths.setdefault(answer.problem, []).append(answer.first)
    several = [rows for rows in lengths.values() if len(rows) > 1]
    if not several:
        return ""
    count = sum(len(set(rows)) > 1 for rows in several)
    return f"vamp: different first paths by seed in {count} of {len(several)} problems."


def classic(report: Report, problems: ProblemSet) -> None:
    """Show how many problems with shelves the classic planners solve within a second."""
    shelves = [p for p in problems.problems if p.family.startswith("bookshelf")]
    places = np.linspace(0, len(shelves) - 1, CLASSIC).round().astype(int)
    rows: list[list[Cell]] = []
    for name in ("RRTConnect", "RRT", "RRTstar"):
        progress(name)
        planner = make_planner(name)
        planner.plan(request_of(problems, shelves[0], LIMIT))
        results = [planner.plan(request_of(problems, shelves[k], LIMIT)) for k in places]
        solved = np.array([(x.time, x.cost) for x in results if x.path is not None]).reshape(-1, 2)
        rows.append([name, f"{len(solved)} of {CLASSIC}", Spread.of(solved[:, 0]).p50,
                     Spread.of(solved[:, 0]).maximum, Spread.of(solved[:, 1]).p50])  # fmt: skip
    heads = ["planner", "solved", "median s", "max s", "median length rad"]
    report.table(f"Classic planners, shelves, {LIMIT:g} s each", heads, rows)


def shipped(report: Report, problems: ProblemSet, rounds: int, step: int) -> None:
    """Show what the pipeline makes of the problems with the shipped spheres and shapes."""
    answers: list[tuple[str, bool, MotionPlan]] = []
    for problem in problems.problems[::step]:
        checker = problems.shipped_checker(problem)
        goals = tuple(JointGoal(goal) for goal in problem.goals)
        request = PlanRequest(checker, problem.start, goals, LIMIT)
        if not answers:
            plan(replace(request, timeout=300.0))
        checker.kernel()
        fair = checker.exact.is_free(problem.start) and checker.exact.are_free(problem.goals).any()
        for seed in range(rounds):
            made = plan(replace(request, random_seed=seed))
            answers.append((problem.family, bool(fair), made))
    rows: list[list[Cell]] = []
    for family in [*dict.fromkeys(name for name, *_ in answers), "all"]:
        asked = [answer for answer in answers if family in (answer[0], "all")]
        made = [found for _, fair, found in asked if fair]
        solved = [found for found in made if found.success]
        times = np.array([
            [sum(s.time for s in found.stages if s.name == name) for name in ("path", "verify")]
            + [found.time] for found in solved
        ] or [[math.nan] * 3])  # fmt: skip
        rows.append([
            family, len(asked), len(asked) - len(made), len(solved), ratio(len(solved), len(made)),
            *(1e3 * np.median(times, axis=0)).tolist(), 1e3 * float(np.percentile(times[:, 2], 95)),
            *(sum(any(text in note for note in found.notes) for found in made)
              for text in ("only collision spheres", "searched again")),
        ])  # fmt: skip
    count = sum(map(len, problems.shipped_robot.spheres.values()))
    report.table(
        f"The robot as shipped ({count} spheres), whole pipeline, {rounds} seeds a problem",
        ["family", "requests", "ends in collision", "solved", "of the others", "search ms",
         "verify ms", "all ms", "p95 ms", "ends within spheres", "searched again"],
        rows,
        "Ends in collision: start or all goals, by the collision shapes. Medians of solved ones.",
    )  # fmt: skip


def trajopt(report: Report, problems: ProblemSet, step: int) -> None:
    """Compare the motions of RRTConnect and TrajOpt; their iterations are limited, not times."""
    planners = ("RRTConnect", "TrajOpt")
    found: dict[str, list[list[float]]] = {}
    for number, problem in enumerate((problems.problems[0], *problems.problems[::step])):
        request = request_of(problems, problem, UNHURRIED)
        row: list[float] = []
        for name in planners:
            begin = time.thread_time()
            made = plan(request, PlanOptions(planner=name, verify=False))
            spent, motion = 1e3 * (time.thread_time() - begin), [math.nan, math.nan]
            if made.motion is not None and made.trajectory is not None:
                steps = np.linalg.norm(np.diff(made.trajectory.positions, axis=0), axis=1)
                motion = [made.motion.duration, float(steps.sum())]
            row += [*motion, spent]
        if number:  # the first one compiles
            found.setdefault(problem.family, []).append(row)
            progress(f"{problem.family}: {row[0]:.3f} s, TrajOpt {row[3]:.3f} s")
    rows: list[list[Cell]] = []
    for family in [*found, "all"]:
        numbers = np.array([x for name, each in found.items() if family in (name, "all")
                             for x in each])  # fmt: skip
        solved = np.isfinite(numbers[:, [0, 3]])
        both = numbers[solved.all(axis=1)]
        ratios = Spread.of(both[:, 3] / both[:, 0])
        rows.append([family, len(numbers), *solved.sum(axis=0).tolist(),
                     *both[:, [0, 3]].mean(axis=0).tolist(), ratios.p50, ratios.maximum,
                     *both[:, [1, 4]].mean(axis=0).tolist(),
                     *np.median(numbers[:, [2, 5]], axis=0).tolist()])  # fmt: skip
    report.table(
        "Motions of TrajOpt beside shortened paths of RRTConnect",
        ["family", "problems", "solved by RRTConnect", "by TrajOpt", "motion time [s]",
         "TrajOpt [s]", "ratio, median", "ratio, max", "length [rad]", "TrajOpt [rad]",
         "planning [ms], median", "TrajOpt [ms]"],
        rows,
        "Motion times and lengths: means of problems that both solve; planning: processor time.",
    )  # fmt: skip


def main() -> int:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--problems", type=Path, metavar="FOLDER", help="folder of the problems")
    parser.add_argument("--rounds", type=int, default=5, help="seeds a problem")
    parser.add_argument("--vamp-python", metavar="FILE", help="a Python that has vamp")
    parser.add_argument("--verify", action="store_true", help="verify the paths")
    parser.add_argument("--shipped", action="store_true", help="the shipped spheres and shapes")
    parser.add_argument("--classic", action="store_true", help="RRT and RRT* as well")
    parser.add_argument("--trajopt", action="store_true", help="TrajOpt beside RRTConnect instead")
    parser.add_argument("--every", type=int, default=1, help="stride of all problems")
    options = parser.parse_args()
    problems = find_problems(options.problems)
    if problems is None:
        print("No problems: name their folder with --problems or in MOTION_BENCH_MAKER.")
        return 0
    report = Report("Planning: MotionBenchMaker, Franka Panda")
    rounds, every = options.rounds, options.every
    if options.shipped:
        shipped(report, problems, rounds, every)
    elif options.trajopt:
        trajopt(report, problems, every)
    else:
        here = sys.executable if importlib.util.find_spec("vamp") else None
        python = options.vamp_python or here
        theirs = vamp(python, problems, every, rounds) if python else []
        mine = ours(problems, every, rounds, options.verify)
        table(report, f"RRT-Connect, then shortening, {rounds} seeds a problem", mine, theirs)
    if options.classic:
        classic(report, problems)
    report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
