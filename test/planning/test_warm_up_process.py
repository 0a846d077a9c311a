# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled in other processes: these end with the one that started them, and fit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from patience import wait_until

from motion_nodes.core.planning import warm_up
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.kernels.timing.jerk_limited import jerk_limited_motion

PARENT = """
import os, sys, threading, time
from pathlib import Path
from motion_nodes.core.planning.warm_up import compile_apart
from motion_nodes.core.scene.exact_warm_up import compile_exact_checks

def plan():
    compile_apart("franka", lambda: None, lambda: None, lambda: False)

work = {"plan": plan, "exact": compile_exact_checks}[sys.argv[1]]
threading.Thread(target=work, daemon=True).start()
children = []
while not children:
    time.sleep(0.001)
    tasks = Path("/proc/self/task").glob("*/children")
    children = [pid for task in tasks for pid in task.read_text().split()]
print(*children, flush=True)
sys.stdin.read()
os._exit(0)  # as a node whose threads are not joined
"""


def runs(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
@pytest.mark.parametrize("work", ["plan", "exact"])
@pytest.mark.parametrize("compiling", [False, True], ids=["while it imports", "while it compiles"])
@pytest.mark.parametrize("killed", [False, True], ids=["the parent ends", "the parent is killed"])
def test_no_compiling_process_outlives_its_parent(work, compiling, killed, tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, work],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        child = int(parent.stdout.readline())
        try:
            if compiling:  # it is nice only after its imports
                wait_until(lambda: os.getpriority(os.PRIO_PROCESS, child) > 0, "it gives way")
            assert runs(child)
            if killed:
                parent.kill()
            parent.stdin.close()
            parent.wait(10.0)
            wait_until(lambda: not runs(child), "it has ended", 10.0)
        finally:
            if runs(child):
                os.kill(child, signal.SIGKILL)


LOADED = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from motion_nodes.core.planning import warm_up
from motion_nodes.core.robot.loader import load_robot

def loaded():
    found = (each for each in gc.get_objects() if isinstance(each, Dispatcher))
    return {each.__name__: len(each.signatures) for each in found if each.signatures}

robot = load_robot(sys.argv[1])
"""

STRAIGHT = f"""{LOADED}
from dataclasses import replace
from motion_nodes.core.planning.pipeline import PlanOptions, plan
from motion_nodes.core.scene.checker import CollisionChecker

warm_up.load_direct_motions(robot)
before = loaded()
options = warm_up.straight_motion(PlanOptions(velocity_scaling=0.5))
for group in robot.groups.values():
    checker = CollisionChecker(robot, group.joints)
    for tip in {{None, group.tip if group.tips else None}}:
        request = replace(warm_up.small_motion(checker, tip), timeout=5.0)
        assert plan(request, options).trajectory is not None
    home = robot.home[group.indices]
    far = checker.limits.clip(home + 0.7)
    plan(replace(request, goals=(warm_up.JointGoal(far),)), options)
assert loaded() == before, {{k: v for k, v in loaded().items() if before.get(k) != v}}
"""


@pytest.mark.parametrize("name", ["franka", "so101", "g1"])
def test_straight_motions_need_no_other_kernels(name):
    subprocess.run([sys.executable, "-c", STRAIGHT, name], check=True, timeout=300.0)


AROUND = f"""{LOADED}
import numpy as np
import motion_nodes as mn

warm_up.load_planning(robot)
before = loaded()
arm = mn.load_robot(sys.argv[1])["arm"]
middle = robot.home[robot.indices(arm.joint_names)]
turn = 0.8 * np.eye(len(middle))[0]
start, goal = middle - turn, middle + turn
world = mn.World()
world.add("wall", mn.Box(0.3, 0.02, 0.3), mn.pose(xyz=arm.fk(middle)[:3, 3]))
plan = arm.plan(start, goal, world)
assert plan.success and len(plan.path) > 2, plan.reason
assert loaded() == before, {{k: v for k, v in loaded().items() if before.get(k) != v}}
"""


@pytest.mark.parametrize("name", ["franka", "so101"])
def test_a_plan_around_an_obstacle_needs_no_other_kernels(name):
    subprocess.run([sys.executable, "-c", AROUND, name], check=True, timeout=300.0)


@pytest.mark.parametrize("name", ["franka", "ur10e", "so101"])
def test_the_timing_compiled_aside_is_that_of_every_robot(name):
    warm_up._time_a_bend()
    compiled = len(jerk_limited_motion.signatures)
    assert compiled
    robot = load_robot(name)
    group = next(each for each in robot.groups.values() if each.tip is not None)
    limits = CollisionChecker(robot, group.joints).limits
    corner = limits.clip(robot.home[group.indices])
    ends = [
        limits.clip(corner + 0.1 * sign) for sign in (-1.0, np.tile((1.0, -1.0), 9)[: len(corner)])
    ]
    retime([ends[0], corner, ends[1]], limits, blending=CornerBlending(PlanOptions().blend))
    assert len(jerk_limited_motion.signatures) == compiled
