# SPDX-License-Identifier: Apache-2.0
"""RMPflow: time of an evaluation, arrival from random starts, clearance while obstacles move.

Run: ``python benchmarks/bench_rmpflow.py`` (about twenty minutes; ``--scenes N``, ``--starts N``).

Times are of one call from Python, for all spheres of the robot, beside the same policy in NumPy
(leaf by leaf) and with pinocchio's kinematics and arrays of all pairs, in the same run; results are
compared first. Peers have no leaf for links among each other, so it is off, but for the last rows.
Obstacles are boxes, cylinders, cones, capsules and spheres in turn, or spheres alone. Starts and
scenes are seeded; how scenes are drawn stands in ``rmpflow_scenes.py``. Clearance is that of the
robot's geometry by coal. A robot that would have been hit had it stood still is counted, so that it
is seen how often there was something to do.
"""

from __future__ import annotations

import os
import statistics
import timeit

import numpy as np
from report import Cell, Report, arguments, progress, ratio
from rmpflow_peers import WithPinocchio
from rmpflow_scenes import FRAME, draw_scene, run_scene
from rmpflow_truth import Truth

from motion_nodes.kernels.rmp_memory import Obstacles
from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.rmpflow.evaluation import Goal
from motion_nodes.rmpflow.evaluator import Evaluator
from motion_nodes.rmpflow.packing import pack_obstacles
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import world_object
from motion_nodes.scene.shapes import Capsule, Cone

ROBOTS = ("franka", "ur10e")
MIXED = (Sphere(0.05), Box((0.1, 0.2, 0.05)), Cylinder(0.05, 0.2), Cone(0.08, 0.2),
         Capsule(0.04, 0.2))  # fmt: skip
CALLS = 200
LONGEST = 15.0  # [s]
REST = 2.0  # [s] between an arrival and the look at what is left of the error


def obstacles(rng: np.random.Generator, count: int, mixed: bool) -> Obstacles:
    """Return obstacles around a robot, all within reach of some link."""
    items = []
    for k in range(count):
        p = rng.normal(size=3)
        p *= rng.uniform(0.45, 0.9) / np.linalg.norm(p)
        solid = MIXED[k % len(MIXED)] if mixed else MIXED[0]
        items.append(world_object(f"{k}", solid, from_xyz_rpy(p, rng.uniform(-3.0, 3.0, 3))))
    return pack_obstacles(items, np.eye(4), {})


def times(name: str, rounds: int) -> list[list[Cell]]:
    """Return a row for each number of obstacles."""
    policy = RmpflowPolicy(load_robot(name))
    robot, active = policy.robot, policy.active_joints
    settings = policy.settings.with_parameters({"self_collision_rmp.metric_scalar": 0.0})
    ways = [Evaluator(robot, active, policy.tool, settings, generic=g) for g in (False, True)]
    peer = WithPinocchio(ways[1], robot)
    rng = np.random.default_rng(1)
    q = np.concatenate((policy.default_cspace_target, np.zeros(len(policy.watched_joints))))
    qd = 0.3 * rng.normal(size=len(q))
    rows: list[list[Cell]] = []
    for count, mixed in ((0, True), (10, True), (20, False), (50, False), (50, True), (200, True)):
        packed = obstacles(rng, count, mixed)
        for way in ways:
            way.set_obstacles(packed)
            way.set_goal(Goal(policy.default_cspace_target, np.array([0.5, 0.1, 0.4]), np.eye(3)))
        fast, plain = ways
        np.testing.assert_allclose(
            fast.acceleration(q, qd), plain.acceleration(q, qd), rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(
            fast.acceleration(q, qd), peer.acceleration(q, qd), rtol=1e-5, atol=1e-5
        )
        found = [
            timeit.timeit(lambda: fast.acceleration(q, qd), number=CALLS) / CALLS * 1e6  # noqa: B023
            for _ in range(rounds)
        ]
        numpy_time = timeit.timeit(lambda: plain.acceleration(q, qd), number=2) / 2 * 1e6  # noqa: B023
        pin_time = timeit.timeit(lambda: peer.acceleration(q, qd), number=10) / 10 * 1e6
        kind = "of all shapes" if mixed else "spheres"
        rows.append(
            [f"{name}, {len(fast.spheres.radii)} spheres, {count} {kind}", min(found),
             statistics.median(found), numpy_time, pin_time, ratio(min(found), pin_time)]
        )  # fmt: skip
    fast = Evaluator(robot, active, policy.tool, policy.settings)
    fast.set_obstacles(ways[0].obstacles)
    fast.set_goal(ways[0].goal)
    found = [
        timeit.timeit(lambda: fast.acceleration(q, qd), number=CALLS) / CALLS * 1e6
        for _ in range(rounds)
    ]
    rows.append([f"{name}, the last with links kept apart", min(found), statistics.median(found),
                 None, None, None])  # fmt: skip
    return rows


def arrivals(name: str, starts: int, wide: bool) -> list[Cell]:
    """Return how runs from random starts to random poses end."""
    policy = RmpflowPolicy(load_robot(name), ignore_robot_state_updates=True)
    checker = CollisionChecker(policy.robot, policy.active_joints)
    limits, home = checker.limits, policy.default_cspace_target
    rng, took, stuck, left = np.random.default_rng(7), [], 0, []
    low, high = np.maximum(limits.lower, -np.pi), np.minimum(limits.upper, np.pi)
    for _ in range(starts):
        policy.reset()
        while True:
            goal = limits.clip(home + rng.uniform(-0.6, 0.6, len(home)))
            spread = rng.uniform(low, high) if wide else home + rng.uniform(-1.0, 1.0, len(home))
            start, X = limits.clip(spread), policy.tool_pose(goal)
            in_reach = np.hypot(*X[:2, 3]) > 0.35 and X[2, 3] > 0.15
            if in_reach and checker.is_free(start) and checker.is_free(goal):
                break
        policy.set_end_effector_target(X[:3, 3], to_quat_xyzw(X))
        rest = np.zeros(len(home))
        policy.set_internal_robot_joint_states(start, rest)
        for k in range(round(LONGEST / FRAME)):
            policy.compute_joint_targets(start, rest, frame_duration=FRAME)
            status = policy.status
            if status.position_error < 0.005 and status.orientation_error < np.radians(1.0):
                took.append((k + 1) * FRAME)
                for _ in range(round(REST / FRAME)):
                    policy.compute_joint_targets(start, rest, frame_duration=FRAME)
                left.append((policy.status.position_error, policy.status.orientation_error))
                break
        else:
            stuck += policy.status.stuck
    kind = "whole range of the joints" if wide else "1 rad around home"
    return [f"{name}, {kind}", len(took) / starts, stuck / starts,
            statistics.median(took) if took else None, max(took, default=None),
            1e3 * max((p for p, _ in left), default=np.nan),
            float(np.degrees(max((a for _, a in left), default=np.nan)))]  # fmt: skip


def moving(name: str, scenes: int) -> list[Cell]:
    """Return clearances over random scenes."""
    policy = RmpflowPolicy(load_robot(name), ignore_robot_state_updates=True)
    checker = CollisionChecker(policy.robot, policy.active_joints)
    truth = Truth(policy.robot, policy.active_joints)
    found = []
    for seed in range(scenes):
        scene = draw_scene(policy, checker, np.random.default_rng(seed))
        found.append(run_scene(policy, checker, truth, scene))
    least = np.array([outcome.clearance for outcome in found])
    return [name, scenes, int((least < 0.0).sum()),
            sum(outcome.passive < 0.0 for outcome in found), float(least.min()),
            float(np.percentile(least, 5)), min(outcome.apart for outcome in found),
            float(np.mean([outcome.error < 0.01 for outcome in found]))]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--scenes", type=int, default=200)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    report = Report("RMPflow")
    progress("times")
    rows = [row for name in ROBOTS for row in times(name, options.rounds)]
    report.table("One evaluation", ["", "least [µs]", "median [µs]", "NumPy [µs]",
                                    "pinocchio [µs]", "least / pinocchio"], rows)  # fmt: skip
    progress("arrivals")
    report.table(
        "From random starts to random poses, 5 mm and 1 degree, within 15 s",
        ["", "arrived", "told stuck", "median [s]", "longest [s]", "after 2 s more [mm]", "[deg]"],
        [arrivals(name, options.starts, wide) for name in ROBOTS for wide in (False, True)],
    )
    progress("scenes")
    report.table(
        "Two flying balls, two boxes, a table; 8 s each",
        [
            "",
            "scenes",
            "touched",
            "touched if still",
            "least [m]",
            "5 % [m]",
            "links [m]",
            "arrived",
        ],
        [moving(name, options.scenes) for name in ROBOTS],
    )
    report.write(options.json)


if __name__ == "__main__":
    main()
