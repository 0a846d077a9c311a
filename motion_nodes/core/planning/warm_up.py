# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels of planning in a separate process.

The kernels are compiled once per machine, which takes half a minute and holds Python's global lock:
a process that controls a robot would be blocked. A node therefore compiles in another process
and then loads the cached code.

``python -m motion_nodes.core.planning.warm_up ROBOT [PARENT]`` is that process; it ends with the
process whose id is PARENT. Jerk-limited timing, whose kernel takes as long as all others, is
compiled beside it by ``python -m motion_nodes.core.planning.warm_up --timing [PARENT]``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from motion_nodes.core.planning.path_constraints import TaskSpaceRegion
from motion_nodes.core.planning.pipeline import PlanOptions, plan
from motion_nodes.core.planning.planners import SHIPPED, DirectMotion
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest, PoseGoal
from motion_nodes.core.planning.shortcut import shorten_path
from motion_nodes.core.robot.kinematics import GroupKinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import AllowedCollisions, Scene
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.errors import MotionError
from motion_nodes.kernels import jit
from motion_nodes.kernels.parent_death import die_with

_LOG = logging.getLogger(__name__)
_DIRECT, _DEFAULT = "planning-direct", "planning"
_ALL, _USED = "planning-all", "planning-used"
"""Markers in the cache: straight motions; the default planner and its environment; all planners;
one plan made."""
_planned = threading.Event()
"""Whether this process has made a plan, so that nothing is left to compile."""
_TIMING = "--timing"
_asides: list[subprocess.Popen[bytes]] = []
"""Processes of :func:`compile_timing_aside`; Python warns of running ones that are dropped."""
_POLL = 0.05  # [s]
_LITTLE = 0.05  # [rad or m]
_FAR = 1000.0  # [m]


def small_motion(checker: CollisionChecker, tip: str | None = None) -> PlanRequest:
    """Return a trivial planning request (all collisions allowed) that exercises every kernel.

    Args:
        checker: of the joints that move a little from ``home``.
        tip: link whose pose is the goal; None: a joint goal at the current positions.
    """
    room, robot = checker.snapshot(), checker.robot
    links = dict.fromkeys(robot.tree.frame_names, True)
    room.set_scene(Scene(allowed=AllowedCollisions(defaults=links)))
    indices, clip = robot.indices(room.joint_names), room.limits.clip
    start = clip(robot.home[indices])
    goal = clip(start + _LITTLE)
    goal = np.where(goal == start, clip(start - _LITTLE), goal)
    if tip is None:
        return PlanRequest(room, start, (JointGoal(goal),), timeout=0.05)
    X_BT = GroupKinematics(robot, room.joint_names, robot.home).pose(goal, tip)
    return PlanRequest(room, start, (PoseGoal(tip, X_BT),))


def _time_a_bend() -> None:
    """Time-parameterize a path with a corner: a straight one is timed in closed form."""
    names, one = ("a", "b"), np.ones(2)
    limits = JointLimits(names, -one, one, velocity=one, effort=one, acceleration=one, jerk=one)
    path = _LITTLE * np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    retime(path, limits, blending=CornerBlending(PlanOptions().blend))


def _shorten_a_bend(request: PlanRequest) -> None:
    """Shorten a path with a corner: the straight one of :func:`small_motion` is not shortened."""
    path = np.tile(request.start, (3, 1))
    path[1, 0] += _LITTLE
    shorten_path(request.checker, path, timeout=_LITTLE)


def compile_timing_aside() -> None:
    """Begin to compile jerk-limited timing in another process; its users wait for the result."""
    command = [sys.executable, "-m", "motion_nodes.core.planning.warm_up", _TIMING]
    with contextlib.suppress(OSError):  # it is compiled where it is used, then
        _asides.append(subprocess.Popen([*command, str(os.getpid())], stdin=subprocess.DEVNULL))


def warm_up(checker: CollisionChecker, planners: Iterable[str] = ("",)) -> None:
    """Compile or load the kernels of planning, so that no request has to wait for it.

    The first time on a machine this takes some seconds per planner; later starts load the code.

    Args:
        checker: robot and joints of later requests.
        planners: names of planners; empty: the default one.
    """
    _time_a_bend()
    request = small_motion(checker)
    for name in planners:
        with contextlib.suppress(MotionError):
            plan(request, PlanOptions(planner=name))


@contextlib.contextmanager
def announced_compilation() -> Iterator[None]:
    """Context manager of a plan: logs a message first if the planner has to be compiled."""
    names = () if _planned.is_set() else (_DEFAULT, _USED)
    first = bool(names) and not any(jit.is_compiled(name) is not False for name in names)
    if first:
        _LOG.warning(
            "compiling the planner, once on this machine: the first plan takes about half a minute "
            "(`motion warm-up` does this in advance)"
        )
        compile_timing_aside()
    yield
    if first:
        jit.mark_compiled(_USED)
    _planned.set()


def warm_up_constraints(checker: CollisionChecker, tip: str) -> None:
    """Compile or load the kernels of planning with path constraints.

    Args:
        checker: of a robot that motions will be planned for.
        tip: link that its joints move.
    """
    anywhere = TaskSpaceRegion(tip, np.eye(4), (-_FAR,) * 6, (_FAR,) * 6)
    with contextlib.suppress(MotionError):
        plan(replace(small_motion(checker), constraints=(anywhere,), timeout=1.0))


def straight_motion(options: PlanOptions) -> PlanOptions:
    """Return the options of a straight motion; its kernels are the first to be compiled."""
    return replace(
        options,
        planner=DirectMotion.name,
        settings=None,
        attempts=1,
        shorten=False,
        preferred_clearance=0.0,
        recovery=None,
    )


def load_direct_motions(robot: Robot) -> None:
    """Load or compile the kernels of straight motions between joint positions.

    They are a fifth of those of planning; most first motions need no others.
    """
    for group in robot.groups.values():
        if group.joints:
            checker = CollisionChecker(robot, group.joints)
            plan(small_motion(checker), straight_motion(PlanOptions()))
    jit.mark_compiled(_DIRECT)


def load_planning(robot: Robot) -> None:
    """Load or compile the kernels of the default planner, for each group with tips."""
    for group in robot.groups.values():
        if group.tips:
            request = small_motion(CollisionChecker(robot, group.joints), group.tip)
            plan(request)
            _shorten_a_bend(request)
    _time_a_bend()
    jit.mark_compiled(_DEFAULT)


def load_all_planning(robot: Robot) -> None:
    """Load or compile the kernels of all planners, for each group with a tip."""
    load_planning(robot)
    for group in robot.groups.values():
        if group.tip is not None:
            checker = CollisionChecker(robot, group.joints)
            warm_up(checker, SHIPPED)
            warm_up_constraints(checker, group.tip)
    jit.mark_compiled(_ALL)


def is_prepared() -> bool:
    """Return whether all planners' kernels are compiled on this machine, or there is no cache."""
    return jit.is_compiled(_ALL) is not False


def compile_apart(
    robot: str, direct: Callable[[], None], ready: Callable[[], None], given_up: Callable[[], bool]
) -> None:
    """Compile the kernels of planning in another process, unless cached on this machine.

    Without a cache the code is compiled where it is used. The other process ends with this one, or
    with the calling thread.

    Args:
        robot: name, or path of its description.
        direct: called at most once, when the code of straight motions can be loaded before that of
            the default planner.
        ready: called once, when the default planner's code can be loaded, or has to be compiled
            here because the other process failed.
        given_up: polled; True ends the other process.
    """
    if is_prepared():
        ready()
        return
    command = [sys.executable, "-m", "motion_nodes.core.planning.warm_up", robot, str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        waiting, indirect = True, True
        while process.poll() is None:
            if given_up():
                process.terminate()
                return
            if waiting and jit.is_compiled(_DEFAULT):
                waiting = indirect = False
                ready()
            elif indirect and jit.is_compiled(_DIRECT):
                indirect = False
                direct()
            time.sleep(_POLL)
        if waiting and not given_up():
            ready()


def main() -> None:
    """Compile for the robot named on the command line, at low priority."""
    for parent in sys.argv[2:]:
        die_with(int(parent))
    with contextlib.suppress(OSError):
        os.nice(5)
    if sys.argv[1] == _TIMING:
        _time_a_bend()
        return
    if not is_prepared():
        compile_timing_aside()
    robot = load_robot(sys.argv[1])
    load_direct_motions(robot)
    load_all_planning(robot)


if __name__ == "__main__":
    main()
