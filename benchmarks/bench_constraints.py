# SPDX-License-Identifier: Apache-2.0
"""A cup kept upright around a shelf: this package's planner, and sscbirrt on the same problems.

    python bench_constraints.py [--count 50] [--robot franka]

Both plan between the same collision-free upright configurations with the same compiled check of
states. sscbirrt (PyPI) takes part if it is installed; it gets robot, inverse kinematics and
collision check as Python objects, as its documentation shows, and returns a path without time,
while the time of this package includes shortening, timing and verification at 1 mm. Paths are
judged by forward kinematics at 1 mm steps.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import time

import numpy as np

import motion_nodes as mn
from motion_nodes.scene.checker import CollisionChecker

DOWN = np.diag([1.0, -1.0, -1.0])
TILT = 0.15  # [rad]
TIMEOUT = 10.0  # [s]
GROUPS = {"franka": "arm", "ur10e": "ur_manipulator"}


def shelf() -> mn.World:
    """Return a wall with a board above it."""
    world = mn.World()
    world.add("wall", mn.Box(0.3, 0.02, 0.6), mn.pose(xyz=(0.55, 0.0, 0.3)))
    world.add("board", mn.Box(0.3, 0.5, 0.02), mn.pose(xyz=(0.55, 0.0, 0.85)))
    return world


def problems(arm: mn.JointGroup, world: mn.World, count: int) -> list[tuple[np.ndarray, ...]]:
    """Return upright configurations on both sides of the wall."""
    rng, checker, found = np.random.default_rng(7), arm.checker(world), []
    while len(found) < count:
        ends = []
        for side in (1.0, -1.0):
            X = np.eye(4)
            X[:3, :3] = mn.pose(rpy=(0.0, 0.0, rng.uniform(-1.0, 1.0)))[:3, :3] @ DOWN
            X[:3, 3] = (rng.uniform(0.4, 0.6), side * rng.uniform(0.15, 0.4), rng.uniform(0.2, 0.6))
            solved = arm.ik(X, "home", world=world, validity=lambda q: checker.is_free(q))
            if solved.success:
                ends.append(solved.q)
        if len(ends) == 2:
            found.append(tuple(ends))
    return found


def largest_tilt(arm: mn.JointGroup, checker: CollisionChecker, path: np.ndarray) -> float:
    """Return the largest tilt along a path, at steps of about 1 mm [rad]."""
    step = checker.resolution / 20.0
    rows = [path[:1]]
    for a, b in itertools.pairwise(path):
        parts = max(1, math.ceil(float(np.linalg.norm((b - a) / step))))
        rows.append(a + np.linspace(0.0, 1.0, parts + 1)[1:, None] * (b - a))
    axes = arm.fk_batch(np.vstack(rows))[:, 2, 2]
    return float(np.arccos(np.clip(-axes, -1.0, 1.0)).max())


def ours(arm: mn.JointGroup, world: mn.World, start: np.ndarray, goal: np.ndarray) -> object:
    """Plan with this package; return the driven path or None."""
    upright = mn.TaskSpaceRegion.rotation_within(arm.tip or "", DOWN, (TILT, TILT, math.inf))
    plan = arm.plan(start, goal, world, constraints=[upright], timeout=TIMEOUT)
    if plan.motion is None:
        return None
    return plan.motion.states(np.linspace(0.0, plan.motion.duration, 400))[0]


def sscbirrt(arm: mn.JointGroup, world: mn.World, start: np.ndarray, goal: np.ndarray) -> object:
    """Plan with sscbirrt; return the path or None."""
    from sscbirrt import CBiRRT, CBiRRTConfig
    from tsr import TSR

    checker = arm.checker(world)

    class Robot:
        dof = len(start)
        joint_limits = (np.array(arm.limits.lower), np.array(arm.limits.upper))

        def forward_kinematics(self, q: np.ndarray) -> np.ndarray:
            return np.array(arm.fk(q))

    class Ik:
        def solve(self, pose: np.ndarray, q_init: np.ndarray | None = None) -> list[np.ndarray]:
            found = arm.ik(pose, q_init)
            return [found.q] if found.success else []

    class Collisions:
        def is_valid(self, q: np.ndarray) -> bool:
            return bool(checker.is_free(np.asarray(q, float)))

    frame = np.eye(4)
    frame[:3, :3] = DOWN
    far = [-10.0, 10.0]
    bounds = np.array([far, far, far, [-TILT, TILT], [-TILT, TILT], [-math.pi, math.pi]])
    region = TSR(T0_w=frame, Tw_e=np.eye(4), Bw=bounds)
    planner = CBiRRT(Robot(), Ik(), Collisions(), CBiRRTConfig(timeout=TIMEOUT))
    path = planner.plan(start=start, goal=goal, constraint_tsrs=[region], seed=1)
    return None if path is None else np.array(path)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--robot", choices=tuple(GROUPS), default="franka")
    given = parser.parse_args()
    arm, world = mn.load_robot(given.robot)[GROUPS[given.robot]], shelf()
    checker, tasks = arm.checker(world), problems(arm, world, given.count)
    planners = {"motion_nodes": ours}
    if importlib.util.find_spec("sscbirrt"):
        planners["sscbirrt"] = sscbirrt
    ours(arm, world, *tasks[0])  # compiles
    print("| planner | solved | upright | p50 [ms] | p95 [ms] | length p50 [rad] |")
    print("|---|---|---|---|---|---|")
    for name, plan in planners.items():
        times, tilts, lengths = [], [], []
        for start, goal in tasks:
            began = time.perf_counter()
            path = plan(arm, world, start, goal)
            times.append(1e3 * (time.perf_counter() - began))
            if path is not None:
                tilts.append(largest_tilt(arm, checker, path))
                lengths.append(float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum()))
        upright = sum(tilt <= math.hypot(TILT, TILT) + 2e-3 for tilt in tilts)
        p50, p95 = np.percentile(times, (50, 95))
        print(
            f"| {name} | {len(tilts)}/{len(tasks)} | {upright} | {p50:.0f} | {p95:.0f} | "
            f"{np.median(lengths) if lengths else math.nan:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
