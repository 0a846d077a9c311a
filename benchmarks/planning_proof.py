# SPDX-License-Identifier: Apache-2.0
"""Paths looked at by coal: the robot's spheres and the scene's true shapes, finer than planned."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from collision_peers import with_coal
from planning_problems import FINGERS, ProblemSet

from motion_nodes.planning.pipeline import PlanOptions, plan
from motion_nodes.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.scene.exact_checks import ROUNDING

FINER = 4
"""So many times finer than the planner's steps."""


@dataclass(frozen=True)
class Proof:
    """What coal said of the paths of a planning set."""

    problems: int
    solved: int
    again: int
    """Paths that our own second look refused, so that they were searched again."""
    touching: int
    """Paths with a configuration that touches something for coal."""
    configurations: int


def prove(problems: ProblemSet, step: int) -> Proof:
    """Plan as the node does, up to the time for the path, and have coal look at each path.

    Args:
        problems: with true cylinders.
        step: each so many-th problem.
    """
    options = PlanOptions(retime=False)
    home = problems.robot.home.copy()
    for name, value in FINGERS.items():
        home[problems.robot.joint_names.index(name)] = value
    robot = replace(problems.robot, home=home)
    chosen = problems.problems[::step]
    solved = again = touching = seen = 0
    for problem in chosen:
        checker = problems.checker(problem, False)
        goals = tuple(JointGoal(goal) for goal in problem.goals)
        made = plan(PlanRequest(checker, problem.start, goals, 5.0), options)
        again += bool(made.notes)
        if made.path is None:
            continue
        solved += 1
        free = with_coal(robot, checker.scene, depth=ROUNDING)
        Q = _along(made.path, checker.resolution / FINER)
        seen += len(Q)
        touching += not all(free(q) for q in Q)
    return Proof(len(chosen), solved, again, touching, seen)


def _along(path: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return configurations along a path that are no farther from each other than the steps."""
    pieces = [path[:1]]
    for a, b in itertools.pairwise(path):
        count = max(1, int(np.ceil(np.linalg.norm((b - a) / steps))))
        pieces.append(a + np.linspace(0.0, 1.0, count + 1)[1:, np.newaxis] * (b - a))
    return np.concatenate(pieces)
