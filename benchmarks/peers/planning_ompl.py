# SPDX-License-Identifier: Apache-2.0
"""The problems of bench_planning.py by OMPL's RRTConnect, with our compiled checks.

Run by it as ``PYTHON planning_ompl.py PROBLEMS STEP ROUNDS MODEL`` in a Python that has ``ompl``
besides this package and what it needs. Both planners use the same checker, at the same steps; the
time inside these checks is reported too, the rest is OMPL and the calls from its C++ to Python.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from ompl import base, geometric
from ompl import util as ompl_util

sys.path.append(str(Path(__file__).resolve().parents[1]))
from planning_problems import Problem, ProblemSet

from motion_nodes.scene.checker import CollisionChecker

LIMIT = 1.0  # [s]


class Edges(base.MotionValidator):
    """Edges by our checker."""

    def __init__(self, information: base.SpaceInformation, checker: CollisionChecker) -> None:
        super().__init__(information)
        self._checker, self.inside = checker, 0.0

    def checkMotion(self, a: object, b: object, *_: object) -> bool:
        """Return whether an edge is collision-free."""
        start, end, began = joints(a), joints(b), time.perf_counter()
        free = self._checker.edge_free(start, end)
        self.inside += time.perf_counter() - began
        return free


def joints(state: object) -> np.ndarray:
    """Return the joint values of a state."""
    return np.array([state[k] for k in range(7)])  # type: ignore[index]


def plan(checker: CollisionChecker, problem: Problem) -> dict[str, object]:
    """Return the time of the search, how much of it our checks took, and the paths' lengths."""
    space, bounds = base.RealVectorStateSpace(7), base.RealVectorBounds(7)
    ends = [space.allocState(), space.allocState()]
    for k in range(7):
        bounds.setLow(k, float(checker.limits.lower[k]))
        bounds.setHigh(k, float(checker.limits.upper[k]))
        ends[0][k], ends[1][k] = float(problem.start[k]), float(problem.goals[0][k])
    space.setBounds(bounds)
    setup = geometric.SimpleSetup(space)
    setup.setStateValidityChecker(lambda state: checker.is_free(joints(state)))
    information = setup.getSpaceInformation()
    edges = Edges(information, checker)
    information.setMotionValidator(edges)
    setup.setStartAndGoalStates(ends[0], ends[1])
    planner = geometric.RRTConnect(information)
    planner.setRange(1.0)
    setup.setPlanner(planner)
    setup.setup()
    began = time.perf_counter()
    setup.solve(LIMIT)
    search, inside = time.perf_counter() - began, edges.inside
    if not setup.haveExactSolutionPath():
        return {"solved": False}
    first = setup.getSolutionPath().length()
    began = time.perf_counter()
    setup.simplifySolution()
    wall = search + time.perf_counter() - began
    return {"solved": True, "search": search, "wall": wall, "checks": inside, "first": first,
            "length": setup.getSolutionPath().length()}  # fmt: skip


def main() -> None:
    """Plan, and print."""
    ompl_util.setLogLevel(ompl_util.LOG_WARN)
    problems = ProblemSet(Path(sys.argv[1]).parent)
    for number, problem in enumerate(problems.problems[:: int(sys.argv[2])]):
        answer = plan(problems.checker(problem, True), problem)
        print(json.dumps({"family": problem.family, "problem": number, **answer}))


if __name__ == "__main__":
    main()
