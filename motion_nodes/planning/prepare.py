# SPDX-License-Identifier: Apache-2.0
"""Have what planning needs compiled, in a process of its own.

The kernels are compiled once on a machine, which takes half a minute and holds Python's lock all
the while: in a process that controls a robot nothing else would run. So a node has another process
do it, and then loads what that one has kept.

``python -m motion_nodes.planning.prepare ROBOT`` is that process.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from motion_nodes.kernels import jit
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.loader import load_robot
from motion_nodes.model.robot import Group, Robot
from motion_nodes.planning.pipeline import plan, warm_up
from motion_nodes.planning.planners import planner_names
from motion_nodes.planning.problem import PlanRequest, PoseGoal
from motion_nodes.scene.allowed import AllowedCollisions
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene

_DEFAULT, _ALL = "planning", "planning-all"
"""Marks in the cache: the default planner and what is around it; all planners."""
_POLL = 0.05  # [s]


def small_motion(robot: Robot, group: Group, tip: str) -> PlanRequest:
    """Return a request that uses all that a request for a pose does, and is soon done.

    Args:
        robot: with the group.
        group: that moves a little from ``home``.
        tip: link of the goal.
    """
    links = dict.fromkeys(robot.tree.frame_names, True)
    scene = Scene(allowed=AllowedCollisions(defaults=links))
    checker = CollisionChecker(robot, group.joints, scene=scene)
    middle = group.limits.clip(np.zeros(len(group.joints)))
    q = robot.home.copy()
    q[group.indices] += np.clip(middle - q[group.indices], -0.05, 0.05)
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    goal = PoseGoal(tip, kinematics.pose(q, tip))
    return PlanRequest(checker, robot.home[group.indices], (goal,))


def load_planning(robot: Robot) -> None:
    """Load, or compile, what planning with the default planner needs, for each group with a tip."""
    for group in robot.groups.values():
        if group.tip is not None:
            plan(small_motion(robot, group, group.tip))
    jit.mark_compiled(_DEFAULT)


def is_prepared() -> bool:
    """Return whether all planners' kernels are compiled on this machine, or cannot be kept."""
    return jit.is_compiled(_ALL) is not False


def compile_apart(robot: str, ready: Callable[[], None], given_up: Callable[[], bool]) -> None:
    """Have another process compile what planning needs, unless that was done on this machine.

    Without a cache nothing of that can be kept: then it is compiled where it is used.

    Args:
        robot: name, or path of its description.
        ready: called once, when the default planner's part can be loaded, or has to be compiled
            here because the other process could not.
        given_up: asked all the while; True ends the other process.
    """
    if is_prepared():
        ready()
        return
    command = [sys.executable, "-m", "motion_nodes.planning.prepare", robot]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        waiting = True
        while process.poll() is None:
            if given_up():
                process.terminate()
                return
            if waiting and jit.is_compiled(_DEFAULT):
                waiting = False
                ready()
            time.sleep(_POLL)
        if waiting and not given_up():
            ready()


def main() -> None:
    """Compile for the robot that the command line names, out of the way of all else."""
    with contextlib.suppress(OSError):
        os.nice(15)
    robot = load_robot(sys.argv[1])
    load_planning(robot)
    for group in robot.groups.values():
        if group.tip is not None:
            warm_up(CollisionChecker(robot, group.joints), planner_names())
    jit.mark_compiled(_ALL)


if __name__ == "__main__":
    main()
