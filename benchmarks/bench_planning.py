# SPDX-License-Identifier: Apache-2.0
"""Planning on the MotionBenchMaker problems: RRT-Connect and shortening compared with vamp.

Run: ``python benchmarks/bench_planning.py --problems FOLDER`` (a minute); ``planning_problems.py``
documents the folder's contents. vamp runs in the Python of ``--vamp-python``.

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

import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import Options, Report, Row, Spread, benchmark, median, progress
from harness.timing import mean, peer_lines
from planning_problems import Problem, ProblemSet

from motion_nodes.core.planning.anytime_planner import AnytimeRrtConnect, AnytimeSettings
from motion_nodes.core.planning.path_verification import PathVerifier
from motion_nodes.core.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.core.planning.planners import make_planner
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.planning.rrt_connect import RrtConnect
from motion_nodes.core.planning.shortcut import shorten_path

LIMIT = 1.0  # Timeout of a planner [s]
CLASSIC = 35  # Number of problems for the classic planners
UNHURRIED = 100.0  # Timeout if iterations are limited [s]
COMPILING = 300.0  # Timeout of the first call, which compiles [s]
PEER = "peers/planning_vamp.py"
BUDGETS = (1e-3, 3e-3, 10e-3, 30e-3, 0.1, 0.3, 1.0)  # Times of anytime planners [s]
RATIOS = {"ratio": "search us", "ratio p95": "p95 us", "ratio p99": "p99 us",
          "ratio end to end": "end to end us"}  # fmt: skip


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


class Motion(NamedTuple):
    """Motion of a planner for a problem; NaN: none."""

    spent: float = math.nan
    """Time of planning [ms]."""
    duration: float = math.nan
    length: float = math.nan

    @property
    def exists(self) -> bool:
        """Whether there is a motion."""
        return math.isfinite(self.duration)


class Motions(NamedTuple):
    """Motions of all planners for a problem."""

    family: str
    connect: Motion
    trajopt: Motion
    vamp: Motion


class Shipped(NamedTuple):
    """A plan of the shipped pipeline."""

    family: str
    fair: bool
    """Whether start and some goal are collision-free by the collision shapes."""
    plan: MotionPlan


def request_of(problems: ProblemSet, problem: Problem, timeout: float) -> PlanRequest:
    """Return a problem as a request with a packed scene, like the peers' worlds."""
    checker = problems.checker(problem)
    checker.kernel()
    goals = tuple(JointGoal(goal) for goal in problem.goals)
    return PlanRequest(checker, problem.start, goals, timeout)


def by_family(results: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the results of each family, then all together."""
    for family in dict.fromkeys(each.family for each in results):
        yield family, [each for each in results if each.family == family]
    yield "all", list(results)


def length_of(path: np.ndarray) -> float:
    """Return the length of a path, shape (k, n) [rad]."""
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def ours(problems: ProblemSet, step: int, rounds: int, verify: bool) -> list[Answer]:
    """Plan and shorten every ``step``-th problem."""
    planner, answers = RrtConnect(), list[Answer]()
    for number, problem in enumerate(problems.problems[::step]):
        request = request_of(problems, problem, LIMIT)
        if not answers:
            shorten_path(request.checker, planner.plan(replace(request, timeout=COMPILING)).path)
        for seed in range(rounds):
            request = replace(request, random_seed=seed)
            begin = time.perf_counter()
            result = planner.plan(request)
            if result.path is None:
                answers.append(Answer(problem.family, False, number))
                continue
            path = shorten_path(request.checker, result.path, random_seed=seed)
            wall = time.perf_counter() - begin
            free = PathVerifier(request.checker).verify(path).free if verify and not seed else None
            answers.append(Answer(problem.family, True, number, result.search_time, wall,
                                  result.cost, length_of(path), valid=free))  # fmt: skip
    return answers


def vamp(python: str, problems: ProblemSet, step: int, *more: str) -> list[Answer]:
    """Return vamp's answers; none without a Python that has it."""
    if not python:
        return []
    progress("vamp")
    return [Answer(**x) for x in peer_lines(python, PEER, str(problems.file), str(step), *more)]


def rows_beside(mine: Sequence[Answer], theirs: Sequence[Answer]) -> list[Row]:
    """Return the rows of the families and of all together."""
    rows, peers = list[Row](), dict(by_family(theirs))
    for family, answers in by_family(mine):
        own = figures(answers)
        rows.append({"family": family, **own})
        if theirs:
            peer = figures(peers[family])
            rows[-1] |= {f"vamp: {name}": value for name, value in peer.items()}
            rows[-1] |= {head: own[name] / peer[name] for head, name in RATIOS.items()}
    return rows


def figures(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the number of solved problems, search and end-to-end times, and mean lengths."""
    solved = [x for x in answers if x.solved]
    search = Spread.of(1e6 * x.search for x in solved)
    return {
        "solved %": 100.0 * len(solved) / len(answers), "search us": search.p50,
        "p95 us": search.p95, "p99 us": search.p99,
        "end to end us": Spread.of(1e6 * x.wall for x in solved).p50,
        "first rad": mean(x.first for x in solved), "short rad": mean(x.length for x in solved),
    }  # fmt: skip


def notes(mine: Sequence[Answer], theirs: Sequence[Answer]) -> str:
    """Return the results of verification, and whether vamp's seeds give different paths."""
    checked = [x.valid for x in mine if x.valid is not None]
    text = "Verification was not run (--verify)."
    if checked:
        text = (f"Refused by verification: {checked.count(False)} of {len(checked)} paths; it is "
                "by the URDF's geometry, which the problems' spheres do not contain.")  # fmt: skip
    lengths = defaultdict[int, set[float]](set)
    for answer in theirs:
        lengths[answer.problem].add(answer.first)
    if lengths:
        several = sum(len(each) > 1 for each in lengths.values())
        text += f" vamp: different first paths by seed in {several} of {len(lengths)} problems."
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
    plans: list[Shipped] = []
    for problem in problems.problems[::step]:
        checker = problems.shipped_checker(problem)
        goals = tuple(JointGoal(goal) for goal in problem.goals)
        request = PlanRequest(checker, problem.start, goals, LIMIT)
        if not plans:
            plan(replace(request, timeout=COMPILING))
        checker.kernel()
        fair = checker.exact.is_free(problem.start) and checker.exact.are_free(problem.goals).any()
        plans += [Shipped(problem.family, bool(fair), plan(replace(request, random_seed=seed)))
                  for seed in range(rounds)]  # fmt: skip
    rows: list[Row] = []
    for family, asked in by_family(plans):
        made = [each.plan for each in asked if each.fair]
        solved = [each for each in made if each.success]
        total = Spread.of(1e3 * each.time for each in solved)
        rows.append({
            "family": family, "requests": len(asked), "ends in collision": len(asked) - len(made),
            "solved": len(solved), "search ms": stage(solved, "path"),
            "verify ms": stage(solved, "verify"), "all ms": total.p50, "p95 ms": total.p95,
            "searched again": sum("searched again" in str(each.notes) for each in made),
        })  # fmt: skip
    count = sum(map(len, problems.shipped_robot.spheres.values()))
    report.table(
        f"The robot as shipped ({count} spheres), whole pipeline, {rounds} seeds a problem", rows,
        "Ends in collision: start or all goals, by the collision shapes. Medians of solved ones.",
    )  # fmt: skip


def stage(plans: Sequence[MotionPlan], name: str) -> float:
    """Return the median time of a stage of the pipeline [ms]."""
    return median(1e3 * sum(s.time for s in each.stages if s.name == name) for each in plans)


def motion_by(planner: str, request: PlanRequest) -> Motion:
    """Plan a motion; the time is processor time."""
    begin = time.thread_time()
    made = plan(request, PlanOptions(planner=planner, verify=False))
    spent = 1e3 * (time.thread_time() - begin)
    if made.motion is None or made.trajectory is None:
        return Motion(spent)
    return Motion(spent, made.motion.duration, length_of(made.trajectory.positions))


def trajopt(report: Report, problems: ProblemSet, step: int, python: str) -> None:
    """Compare motions of RRTConnect and TrajOpt, with limited iterations instead of time.

    vamp's paths are timed by toppra, without limits of jerk and effort.
    """
    bounds = problems.checker(problems.problems[0]).limits
    named = {name: getattr(bounds, name).tolist() for name in ("velocity", "acceleration")}
    peers = {x.problem: Motion(1e3 * x.retimed, x.motion, x.length)
             for x in vamp(python, problems, step, "1", json.dumps(named))}  # fmt: skip
    for planner in ("RRTConnect", "TrajOpt"):
        motion_by(planner, request_of(problems, problems.problems[0], UNHURRIED))  # compiles
    found: list[Motions] = []
    for number, problem in enumerate(problems.problems[::step]):
        request = request_of(problems, problem, UNHURRIED)
        connect, optimized = (motion_by(name, request) for name in ("RRTConnect", "TrajOpt"))
        found.append(Motions(problem.family, connect, optimized, peers.get(number, Motion())))
        progress(f"{problem.family}: {connect.duration:.3f} s, TrajOpt {optimized.duration:.3f} s")
    rows = [row_of_motions(*each, beside=bool(peers)) for each in by_family(found)]
    report.table(
        "Motions of TrajOpt beside shortened paths of RRTConnect", rows,
        "Motion times and lengths: means of problems that both solve; planning: processor time.",
    )  # fmt: skip


def row_of_motions(family: str, found: Sequence[Motions], *, beside: bool) -> Row:
    """Return the row of a family; ``beside``: with vamp's motions."""
    both = [x for x in found if x.connect.exists and x.trajopt.exists]
    ratios = Spread.of(x.trajopt.duration / x.connect.duration for x in both)
    row: Row = {
        "family": family, "problems": len(found),
        "solved by RRTConnect": sum(x.connect.exists for x in found),
        "by TrajOpt": sum(x.trajopt.exists for x in found),
        "motion time [s]": mean(x.connect.duration for x in both),
        "TrajOpt [s]": mean(x.trajopt.duration for x in both),
        "ratio, median": ratios.p50, "ratio, max": ratios.maximum,
        "length [rad]": mean(x.connect.length for x in both),
        "TrajOpt [rad]": mean(x.trajopt.length for x in both),
        "planning [ms], median": median(x.connect.spent for x in found),
        "TrajOpt [ms]": median(x.trajopt.spent for x in found),
    }  # fmt: skip
    if beside:
        peers = [x for x in found if x.trajopt.exists and x.vamp.exists]
        ratios = Spread.of(x.trajopt.duration / x.vamp.duration for x in peers)
        row |= {"vamp and toppra [s]": mean(x.vamp.duration for x in peers),
                "ratio to it, median": ratios.p50, "ratio to it, max": ratios.maximum,
                "vamp and toppra [ms]": median(x.vamp.spent for x in peers)}  # fmt: skip
    return row


Seen = Sequence[tuple[float, float]]
"""Times [s] and lengths [rad] of paths."""


def improved_path(request: PlanRequest) -> Seen:
    """Return the improved paths for a request, whose checker has been used before."""
    seen: list[tuple[float, float]] = []
    AnytimeRrtConnect(AnytimeSettings(optimization_time=0.1)).plan(request)
    settings = AnytimeSettings(optimization_time=BUDGETS[-1])
    AnytimeRrtConnect(settings, lambda x: seen.append((x.time, x.cost))).plan(request)
    return seen


def best_at(seen: Seen) -> list[float]:
    """Return the length of the best path within each budget, infinite without one."""
    return [min((x for t, x in seen if t <= budget), default=np.inf) for budget in BUDGETS]


def rows_by_budget(mine: Sequence[Seen], theirs: Sequence[Seen]) -> list[Row]:
    """Return a row per budget; means are of the problems that both have solved by then."""
    ours, peers = (np.array([best_at(seen) for seen in each]) for each in (mine, theirs))
    best, rows = np.minimum(ours, peers).min(axis=1), list[Row]()
    for budget, own, peer in zip(BUDGETS, ours.T, peers.T, strict=True):
        solved = np.isfinite(own), np.isfinite(peer)
        both = solved[0] & solved[1]
        length, length_of_peer = mean(own[both]), mean(peer[both])
        rows.append({
            "budget [ms]": 1e3 * budget, "solved": int(solved[0].sum()),
            "by AORRTC": int(solved[1].sum()), "mean length [rad]": length,
            "of AORRTC [rad]": length_of_peer, "ratio": length / length_of_peer,
            "beyond the best [%]": mean(100.0 * (own[both] / best[both] - 1.0)),
            "AORRTC [%]": mean(100.0 * (peer[both] / best[both] - 1.0)),
        })  # fmt: skip
    return rows


@benchmark("Planning: MotionBenchMaker, Franka Panda",
           problems=(Path, "folder of the problems"), rounds=(5, "seeds a problem"),
           vamp_python=("", "a Python that has vamp"), verify=(False, "verify the paths"),
           shipped=(False, "the shipped spheres and shapes"), classic=(False, "RRT and RRT* too"),
           trajopt=(False, "TrajOpt beside RRTConnect instead"),
           anytime=(False, "lengths against time beside vamp's AORRTC instead"),
           every=(1, "stride of all problems"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Print the tables."""
    if options.problems is None:
        sys.exit("No problems: name their folder with --problems.")
    problems, rounds, every = ProblemSet(options.problems), options.rounds, options.every
    python = options.vamp_python
    if options.shipped:
        shipped(report, problems, rounds, every)
    elif options.anytime:
        mine = [improved_path(request_of(problems, x, UNHURRIED))
                for x in problems.problems[::every]]  # fmt: skip
        peers = peer_lines(python, PEER, str(problems.file), str(every), "aorrtc")
        report.table("Lengths of paths against time, beside AORRTC",
                     rows_by_budget(mine, [peer["seen"] for peer in peers]))  # fmt: skip
    elif options.trajopt:
        trajopt(report, problems, every, python)
    else:
        peers = vamp(python, problems, every, str(rounds))
        mine = ours(problems, every, rounds, options.verify)
        report.table(f"RRT-Connect, then shortening, {rounds} seeds a problem",
                     rows_beside(mine, peers), notes(mine, peers))  # fmt: skip
    if options.classic:
        classic(report, problems)
