# SPDX-License-Identifier: Apache-2.0
"""Planning on the MotionBenchMaker problems: RRT-Connect and shortening compared with vamp.

Run: ``python benchmarks/bench_planning.py --problems FOLDER`` (a minute), or with the folder in
MOTION_BENCH_MAKER; ``planning_problems.py`` documents its contents. vamp runs in this Python if it
can be imported, else in that of ``--vamp-python``.

Both planners use the same spheres, pairs, shapes and steps along edges; cylinders are capsules, in
the family ``box`` boxes, as for vamp. Search is the time of the tree search by the planner's clock;
end to end is one call to plan and one to shorten from Python, including our checks of start and
goals. Creation of the world and the first call of each process are not timed. ``--verify`` verifies
the short path of each problem's first seed with the URDF's geometry. ``--classic`` runs RRT and
RRT* on 35 problems with shelves for one second each, which RRT* always uses. ``--shipped`` measures
the shipped robot instead, with its spheres and shapes, cylinders, and the whole pipeline including
verification. ``--trajopt`` compares the durations of motions of TrajOpt and RRTConnect,
``--anytime`` lengths of paths after 1 ms to 1 s with those of vamp's AORRTC.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import planning_anytime
from harness import Report, Row, Spread, benchmark, median, progress, ratio, script_command
from planning_problems import Problem, ProblemSet, find_problems

from motion_nodes.planning.path_verification import PathVerifier
from motion_nodes.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.planning.planners import make_planner
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.planning.rrt_connect import RrtConnect
from motion_nodes.planning.shortcut import shorten_path

LIMIT = 1.0  # Timeout of a planner [s]
CLASSIC = 35  # Number of problems for the classic planners
UNHURRIED = 100.0  # Timeout if iterations are limited [s]


class Answer(NamedTuple):
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
    motion: float = math.nan
    """Duration of the motion by toppra."""
    retimed: float = math.nan
    """Wall time including toppra."""


def request_of(problems: ProblemSet, problem: Problem, timeout: float) -> PlanRequest:
    """Return a problem as a request with a packed scene, like the peers' worlds."""
    checker = problems.checker(problem)
    checker.kernel()
    goals = tuple(JointGoal(goal) for goal in problem.goals)
    return PlanRequest(checker, problem.start, goals, timeout)


def families(names: Iterable[str]) -> list[str]:
    """Return the families, and the name of all together."""
    return [*dict.fromkeys(names), "all"]


def ours(problems: ProblemSet, step: int, rounds: int, verify: bool) -> list[Answer]:
    """Plan and shorten every ``step``-th problem."""
    planner, answers = RrtConnect(), list[Answer]()
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


def vamp(python: str, problems: ProblemSet, step: int, rounds: int, *more: str) -> list[Answer]:
    """Return the answers of ``peers/planning_vamp.py``; none if it fails."""
    progress(f"vamp: {rounds} seeds")
    return [Answer(**x) for x in peer_answers(python, problems, step, str(rounds), *more)]


def peer_answers(python: str, problems: ProblemSet, step: int, *more: str) -> list[dict[str, Any]]:
    """Return what ``peers/planning_vamp.py`` prints; nothing if it fails."""
    command = script_command("peers/planning_vamp.py", str(problems.file), str(step), *more)
    done = subprocess.run([python, *command[1:]], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        progress(f"without vamp: it ended with code {done.returncode}")
        return []
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def rows_beside(mine: Sequence[Answer], theirs: Sequence[Answer]) -> list[Row]:
    """Return the rows of the families and of all together."""
    rows: list[Row] = []
    for family in families(answer.family for answer in mine):
        a, b = (figures([x for x in part if family in (x.family, "all")])
                for part in (mine, theirs))  # fmt: skip
        rows.append({"family": family, **a})
        if theirs:
            rows[-1] |= {f"vamp: {name}": value for name, value in b.items()}
            for head, name in (("ratio", "search us"), ("ratio p95", "p95 us"),
                               ("ratio p99", "p99 us"),
                               ("ratio end to end", "end to end us")):  # fmt: skip
                rows[-1][head] = ratio(a[name], b[name])
    return rows


def figures(answers: Sequence[Answer]) -> dict[str, float]:
    """Return the number of solved problems, search and end-to-end times, and mean lengths."""
    solved = [x for x in answers if x.solved]
    search, walls = (Spread.of(1e6 * getattr(x, name) for x in solved)
                     for name in ("search", "wall"))  # fmt: skip
    return {
        "solved %": 100.0 * len(solved) / max(1, len(answers)), "search us": search.p50,
        "p95 us": search.p95, "p99 us": search.p99, "end to end us": walls.p50,
        "first rad": sum(x.first for x in solved) / len(solved) if solved else math.nan,
        "short rad": sum(x.length for x in solved) / len(solved) if solved else math.nan,
    }  # fmt: skip


def notes(mine: Sequence[Answer], theirs: Sequence[Answer]) -> str:
    """Return the results of verification, and whether vamp's seeds give different paths."""
    checked = [x.valid for x in mine if x.valid is not None]
    text = "Verification was not run (--verify)."
    if checked:
        text = (f"Refused by verification: {checked.count(False)} of {len(checked)} paths; it is "
                "by the URDF's geometry, which the problems' spheres do not contain.")  # fmt: skip
    lengths: dict[int, list[float]] = {}
    for answer in theirs:
        lengths.setdefault(answer.problem, []).append(answer.first)
    several = [len(set(each)) > 1 for each in lengths.values() if len(each) > 1]
    if several:
        text += (f" vamp: different first paths by seed in {sum(several)} of {len(several)} "
                 "problems.")  # fmt: skip
    return text


def classic(report: Report, problems: ProblemSet) -> None:
    """Measure the success rate of the classic planners within a second, for shelves."""
    shelves = [p for p in problems.problems if p.family.startswith("bookshelf")]
    places = np.linspace(0, len(shelves) - 1, CLASSIC).round().astype(int)
    rows: list[Row] = []
    for name in ("RRTConnect", "RRT", "RRTstar"):
        progress(name)
        planner = make_planner(name)
        planner.plan(request_of(problems, shelves[0], LIMIT))
        results = [planner.plan(request_of(problems, shelves[k], LIMIT)) for k in places]
        solved = [x for x in results if x.path is not None]
        times = Spread.of(x.time for x in solved)
        rows.append({"planner": name, "solved": f"{len(solved)} of {CLASSIC}",
                     "median s": times.p50, "max s": times.maximum,
                     "median length rad": median(x.cost for x in solved)})  # fmt: skip
    report.table(f"Classic planners, shelves, {LIMIT:g} s each", rows)


def shipped(report: Report, problems: ProblemSet, rounds: int, step: int) -> None:
    """Measure the whole pipeline with the shipped spheres and shapes."""
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
    rows: list[Row] = []
    for family in families(name for name, *_ in answers):
        asked = [answer for answer in answers if family in (answer[0], "all")]
        made = [found for _, fair, found in asked if fair]
        solved = [found for found in made if found.success]
        stages = {
            name: median(1e3 * sum(s.time for s in found.stages if s.name == stage)
                         for found in solved)
            for name, stage in (("search ms", "path"), ("verify ms", "verify"))
        }  # fmt: skip
        total = Spread.of(1e3 * found.time for found in solved)
        noted = {
            name: sum(any(text in note for note in found.notes) for found in made)
            for name, text in (("ends within spheres", "only collision spheres"),
                               ("searched again", "searched again"))
        }  # fmt: skip
        rows.append({
            "family": family, "requests": len(asked), "ends in collision": len(asked) - len(made),
            "solved": len(solved), "of the others": ratio(len(solved), len(made)), **stages,
            "all ms": total.p50, "p95 ms": total.p95, **noted,
        })  # fmt: skip
    count = sum(map(len, problems.shipped_robot.spheres.values()))
    report.table(
        f"The robot as shipped ({count} spheres), whole pipeline, {rounds} seeds a problem", rows,
        "Ends in collision: start or all goals, by the collision shapes. Medians of solved ones.",
    )  # fmt: skip


def trajopt(report: Report, problems: ProblemSet, step: int, python: str) -> None:
    """Compare motions of RRTConnect and TrajOpt, with limited iterations instead of time.

    vamp's paths are timed by toppra, without limits of jerk and effort.
    """
    found: list[tuple[str, list[float]]] = []
    bounds = problems.checker(problems.problems[0]).limits
    limits = json.dumps({"velocity": bounds.velocity.tolist(),
                         "acceleration": bounds.acceleration.tolist()})  # fmt: skip
    peers = vamp(python, problems, step, 1, limits) if python else []
    theirs = {answer.problem: answer for answer in peers}
    for number, problem in enumerate((problems.problems[0], *problems.problems[::step])):
        request, row = request_of(problems, problem, UNHURRIED), list[float]()
        for name in ("RRTConnect", "TrajOpt"):
            begin = time.thread_time()
            made = plan(request, PlanOptions(planner=name, verify=False))
            spent, motion = 1e3 * (time.thread_time() - begin), [math.nan, math.nan]
            if made.motion is not None and made.trajectory is not None:
                steps = np.linalg.norm(np.diff(made.trajectory.positions, axis=0), axis=1)
                motion = [made.motion.duration, float(steps.sum())]
            row += [*motion, spent]
        peer = theirs.get(number - 1)
        row += [math.nan, math.nan] if peer is None else [peer.motion, 1e3 * peer.retimed]
        if number:  # the first one compiles
            found.append((problem.family, row))
            progress(f"{problem.family}: {row[0]:.3f} s, TrajOpt {row[3]:.3f} s")
    rows: list[Row] = []
    for family in families(name for name, _ in found):
        numbers = np.array([x for name, x in found if family in (name, "all")])
        solved = np.isfinite(numbers[:, [0, 3]])
        means = numbers[solved.all(axis=1)].mean(axis=0).tolist()
        ratios = Spread.of((numbers[:, 3] / numbers[:, 0])[solved.all(axis=1)])
        count = solved.sum(axis=0).tolist()
        rows.append({
            "family": family, "problems": len(numbers), "solved by RRTConnect": count[0],
            "by TrajOpt": count[1], "motion time [s]": means[0], "TrajOpt [s]": means[3],
            "ratio, median": ratios.p50, "ratio, max": ratios.maximum, "length [rad]": means[1],
            "TrajOpt [rad]": means[4], "planning [ms], median": median(numbers[:, 2]),
            "TrajOpt [ms]": median(numbers[:, 5]),
        })  # fmt: skip
        if theirs:
            both = np.isfinite(numbers[:, [3, 6]]).all(axis=1)
            beside = Spread.of((numbers[:, 3] / numbers[:, 6])[both])
            rows[-1] |= {"vamp and toppra [s]": float(numbers[both, 6].mean()),
                         "ratio to it, median": beside.p50, "ratio to it, max": beside.maximum,
                         "vamp and toppra [ms]": median(numbers[both, 7])}  # fmt: skip
    report.table(
        "Motions of TrajOpt beside shortened paths of RRTConnect", rows,
        "Motion times and lengths: means of problems that both solve; planning: processor time.",
    )  # fmt: skip


@benchmark("Planning: MotionBenchMaker, Franka Panda",
           problems=(Path, "folder of the problems"), rounds=(5, "seeds a problem"),
           vamp_python=("", "a Python that has vamp"), verify=(False, "verify the paths"),
           shipped=(False, "the shipped spheres and shapes"), classic=(False, "RRT and RRT* too"),
           trajopt=(False, "TrajOpt beside RRTConnect instead"),
           anytime=(False, "lengths against time beside vamp's AORRTC instead"),
           every=(1, "stride of all problems"))  # fmt: skip
def main(report: Report, options: Any) -> None:
    """Print the tables."""
    problems, rounds, every = find_problems(options.problems), options.rounds, options.every
    if problems is None:
        print("No problems: name their folder with --problems or in MOTION_BENCH_MAKER.")
        return
    here = sys.executable if importlib.util.find_spec("vamp") else ""
    python = options.vamp_python or here
    if options.shipped:
        shipped(report, problems, rounds, every)
    elif options.anytime:
        requests = [request_of(problems, x, UNHURRIED) for x in problems.problems[::every]]
        theirs = peer_answers(python, problems, every, "aorrtc")
        rows = planning_anytime.rows_of(planning_anytime.ours(requests), theirs)
        report.table("Lengths of paths against time, beside AORRTC", rows)
    elif options.trajopt:
        trajopt(report, problems, every, python)
    else:
        theirs = vamp(python, problems, every, rounds) if python else []
        mine = ours(problems, every, rounds, options.verify)
        report.table(f"RRT-Connect, then shortening, {rounds} seeds a problem",
                     rows_beside(mine, theirs), notes(mine, theirs))  # fmt: skip
    if options.classic:
        classic(report, problems)
