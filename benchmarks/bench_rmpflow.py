# SPDX-License-Identifier: Apache-2.0
"""RMPflow: time of an evaluation, beside NumPy and pinocchio.

Run: ``python benchmarks/bench_rmpflow.py`` (two minutes, on a quiet machine).

Times are of one call from Python, beside the same policy in NumPy (leaf by leaf, as it is written
down) and with pinocchio's kinematics and arrays of all spheres and obstacles, in the same run;
results are compared first. Peers have no leaf for links among each other, so it is off, but for one
column. ObstacleArrays are boxes, cylinders, cones, capsules and spheres in turn, or spheres alone.
With 20 spheres a robot has every third of its own. Arrivals and clearances:
``bench_rmpflow_runs.py``.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import timeit
from collections.abc import Sequence

import numpy as np
from report import Cell, Report, arguments, progress, ratio
from rmpflow_peers import WithPinocchio

from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays
from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, Box, Cylinder, Sphere
from motion_nodes.rmpflow.compiled_policy import Evaluator
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.rmpflow.obstacles import ObstaclePacker
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.scene.scene import Scene, world_object
from motion_nodes.scene.shapes import Capsule, Cone

ROBOTS = ("franka", "ur10e")
MIXED = (Sphere(0.05), Box((0.1, 0.2, 0.05)), Cylinder(0.05, 0.2), Cone(0.08, 0.2),
         Capsule(0.04, 0.2))  # fmt: skip
OBSTACLES = ((0, True), (10, True), (50, False), (50, True), (200, True))
"""How many, and whether of all shapes."""
CALLS = 200


def obstacles(rng: np.random.Generator, count: int, mixed: bool) -> ObstacleArrays:
    """Return obstacles around a robot, all within reach of some link."""
    items = {}
    for k in range(count):
        p = rng.normal(size=3)
        p *= rng.uniform(0.45, 0.9) / np.linalg.norm(p)
        solid = MIXED[k % len(MIXED)] if mixed else MIXED[0]
        X = from_xyz_rpy(p, rng.uniform(-3.0, 3.0, 3))
        items[f"{k}"] = world_object(f"{k}", solid, X)
    return ObstaclePacker(()).packed(Scene(objects=items), np.eye(4))


def with_spheres(robot: Robot, count: int) -> Robot:
    """Return a robot that has only some of its spheres, spread over all links that move."""
    every = [
        (link, sphere)
        for link, spheres in robot.spheres.items()
        for sphere in spheres
        if link != robot.base_frame
    ]
    chosen = [every[k] for k in np.linspace(0, len(every) - 1, count).round().astype(int)]
    links = dict.fromkeys(link for link, _ in chosen)
    return dataclasses.replace(
        robot, spheres={name: tuple(s for link, s in chosen if link == name) for name in links}
    )


class InNumpy:
    """The policy's reports: the same leaf by leaf."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def acceleration(self, q: Array, qd: Array) -> Array:
        """Return what :meth:`Evaluator.acceleration` returns."""
        return self._evaluator.report(q, qd).qdd


def microseconds(
    evaluator: Evaluator | InNumpy | WithPinocchio, q: Array, qd: Array, calls: int
) -> float:
    """Return the mean time of a call [us]."""
    return timeit.timeit(lambda: evaluator.acceleration(q, qd), number=calls) / calls * 1e6


def times(robot: Robot, numbers: Sequence[tuple[int, bool]], rounds: int) -> list[list[Cell]]:
    """Return a row for each number of obstacles, and one with links kept apart."""
    policy = RmpflowPolicy(robot)
    settings = policy.settings.with_parameters({"self_collision_rmp.metric_scalar": 0.0})
    fast = Evaluator(robot, policy.active_joints, policy.tool, settings)
    apart = Evaluator(robot, policy.active_joints, policy.tool, policy.settings)
    plain, peer = InNumpy(fast), WithPinocchio(fast, robot)
    rng = np.random.default_rng(1)
    q = np.concatenate((policy.default_cspace_target, np.zeros(len(policy.watched_joints))))
    qd = 0.3 * rng.normal(size=len(q))
    goal = Goal(policy.default_cspace_target, np.array([0.5, 0.1, 0.4]), np.eye(3))
    rows: list[list[Cell]] = []
    for count, mixed in numbers:
        packed = obstacles(rng, count, mixed)
        for way in (fast, apart):
            way.set_obstacles(packed)
            way.set_goal(goal)
        for other in (plain, peer):
            np.testing.assert_allclose(
                fast.acceleration(q, qd), other.acceleration(q, qd), rtol=1e-5, atol=1e-5
            )
        ours = [microseconds(fast, q, qd, CALLS) for _ in range(rounds)]
        kept_apart = min(microseconds(apart, q, qd, CALLS) for _ in range(rounds))
        theirs = min(microseconds(peer, q, qd, 10) for _ in range(5))
        kind = "of all shapes" if mixed else "spheres"
        rows.append([
            f"{robot.name}, {len(fast.spheres.radii)} spheres, {count} {kind}", min(ours),
            statistics.median(ours), kept_apart, microseconds(plain, q, qd, 2), theirs,
            ratio(min(ours), theirs),
        ])  # fmt: skip
    return rows


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    report = Report("RMPflow")
    progress("times")
    franka = with_spheres(load_robot("franka"), 20)
    rows = times(franka, ((20, False),), options.rounds)
    for name in ROBOTS:
        rows += times(load_robot(name), OBSTACLES, options.rounds)
    report.table(
        "One evaluation",
        ["", "least [µs]", "median [µs]", "links apart [µs]", "NumPy [µs]", "pinocchio [µs]",
         "least / pinocchio"],
        rows,
        "Links apart: least, with the leaf that keeps links off each other.",
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
