# SPDX-License-Identifier: Apache-2.0
"""The same problems by OMPL's RRTConnect, with our compiled checks of states and edges.

Run: ``PYTHON planning_ompl.py FOLDER STEP`` in a Python that has ``ompl`` besides this package and
what it needs; each STEP-th problem, one second each. Both planners ask the same checker, at the
same steps; how much of OMPL's time is the way from its C++ to Python and back is told as well.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from ompl import base, geometric
from ompl import util as ompl_util
from planning_problems import Problem, find_problems

from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.planning.rrt_connect import RrtConnect
from motion_nodes.planning.shortcut import shorten_path
from motion_nodes.scene.checker import CollisionChecker

LIMIT = 1.0
"""[s]"""


class Edges(base.MotionValidator):
    """Edges by our checker."""

    def __init__(self, information: base.SpaceInformation, checker: CollisionChecker) -> None:
        super().__init__(information)
        self._checker = checker
        self.asked, self.inside = 0, 0.0

    def checkMotion(self, a: object, b: object, *_: object) -> bool:
        """Return whether an edge is free."""
        start, end = numbers(a), numbers(b)
        began = time.perf_counter()
        free = self._checker.edge_free(start, end)
        self.inside += time.perf_counter() - began
        self.asked += 1
        return free


def numbers(state: object) -> np.ndarray:
    """Return the joint values of a state."""
    return np.array([state[k] for k in range(7)])  # type: ignore[index]


def plan(checker: CollisionChecker, problem: Problem) -> tuple[float, float, float] | None:
    """Return the time of the search, how much of it our checks took, and the path's length."""
    space = base.RealVectorStateSpace(7)
    bounds = base.RealVectorBounds(7)
    for k, (low, high) in enumerate(zip(checker.limits.lower, checker.limits.upper, strict=True)):
        bounds.setLow(k, float(low))
        bounds.setHigh(k, float(high))
    space.setBounds(bounds)
    setup = geometric.SimpleSetup(space)
    setup.setStateValidityChecker(lambda state: checker.is_free(numbers(state)))
    information = setup.getSpaceInformation()
    edges = Edges(information, checker)
    information.setMotionValidator(edges)
    ends = [space.allocState(), space.allocState()]
    for state, q in zip(ends, (problem.start, problem.goals[0]), strict=True):
        for k in range(7):
            state[k] = float(q[k])
    setup.setStartAndGoalStates(ends[0], ends[1])
    planner = geometric.RRTConnect(information)
    planner.setRange(1.0)
    setup.setPlanner(planner)
    setup.setup()
    began = time.perf_counter()
    setup.solve(LIMIT)
    took = time.perf_counter() - began
    if not setup.haveExactSolutionPath():
        return None
    return took, edges.inside, setup.getSolutionPath().length()


def main() -> None:
    """Plan, and print medians."""
    ompl_util.setLogLevel(ompl_util.LOG_WARN)
    problems = find_problems(Path(sys.argv[1]))
    assert problems is not None
    planner, ours, theirs = RrtConnect(), [], []
    for problem in problems.problems[:: int(sys.argv[2])]:
        checker = problems.checker(problem, True)
        goals = (JointGoal(problem.goals[0]),)
        planner.plan(PlanRequest(checker, problem.start, goals, 300.0))
        found = planner.plan(PlanRequest(checker, problem.start, goals, LIMIT, random_seed=1))
        short = shorten_path(checker, found.path) if found.path is not None else None
        ours.append((found, short))
        theirs.append(plan(checker, problem))
    count, solved = len(ours), [x for x in theirs if x is not None]
    mine = [1e6 * found.time for found, _ in ours if found.success]
    print(f"problems {count}; solved by us {len(mine)}, by OMPL {len(solved)}")
    print(f"median: ours {statistics.median(mine):.0f} us", end=", ")
    print(f"OMPL {1e6 * statistics.median(x[0] for x in solved):.0f} us", end=", ")
    print(f"of these in our checks {1e6 * statistics.median(x[1] for x in solved):.0f} us")
    lengths = [
        sum(float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(short))
        for _, short in ours
        if short is not None
    ]
    print(f"mean length: ours, shortened {statistics.mean(lengths):.2f} rad", end=", ")
    print(f"OMPL, first path {statistics.mean(x[2] for x in solved):.2f} rad")


if __name__ == "__main__":
    main()
