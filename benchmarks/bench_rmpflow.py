# SPDX-License-Identifier: Apache-2.0
"""RMPflow: time of an evaluation, and lag behind a moving target in MuJoCo.

Run: ``python benchmarks/bench_rmpflow.py`` (three minutes, on a quiet machine).

An evaluation is one call from Python, with boxes, cylinders, cones, capsules and spheres in turn as
obstacles, or only spheres. The self-collision RMP is off, except in one column. A step of 10 ms is
one of the policy from home, including three substeps and all overhead.

Lag: the arm starts in its named state "ready", and the target moves from there on a circle at 0.1
m/s. Its pose is passed at 50 or 10 Hz to the target follower of the node ``rmpflow_policy``,
without ROS and its latency. The policy runs at 250 Hz and commands PD drives. Lag is the distance
of the tool, by the joints in MuJoCo, from the current target; the first two seconds of motion are
not counted.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from harness import Options, Report, Row, Spread, benchmark, progress, take_turns
from harness.timing import pin_to_core
from rmpflow.judged_arm import FollowingArm
from scene.random_scenes import random_pose

from motion_nodes.core.reactive.compiled_policy import Evaluator
from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.reactive.obstacle_scene import ObstaclePacker
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.shapes import Capsule, Cone

ROBOTS = ("franka", "ur10e")
MIXED = (Sphere(0.05), Box((0.1, 0.2, 0.05)), Cylinder(0.05, 0.2), Cone(0.08, 0.2),
         Capsule(0.04, 0.2))  # fmt: skip
KINDS = ("spheres", "of all shapes")
OBSTACLES = ((0, True), (10, True), (50, False), (50, True), (200, True))
"""Number of obstacles, and whether of all shapes."""
PERIOD = 0.004  # [s]
SETTLING = 2.0  # Time on the circle that is not counted [s]
SPEED, RADIUS = 0.1, 0.12  # [m/s], [m]


def obstacles(rng: np.random.Generator, count: int, mixed: bool) -> Scene:
    """Return obstacles around a robot, all within reach of a link."""
    solids = MIXED if mixed else MIXED[:1]
    items = [world_object(str(k), solids[k % len(solids)], random_pose(rng, 0.45, 0.9))
             for k in range(count)]  # fmt: skip
    return Scene(objects={item.name: item for item in items})


def evaluation_rows(name: str, rounds: int) -> list[Row]:
    """Return a row per number of obstacles."""
    robot = load_robot(name)
    policy = RmpflowPolicy(robot)
    settings = policy.settings.with_parameters({"self_collision_rmp.metric_scalar": 0.0})
    fast, apart = (Evaluator(robot, policy.active_joints, policy.tool, each)
                   for each in (settings, policy.settings))  # fmt: skip
    rng = np.random.default_rng(1)
    q = np.concatenate((policy.default_cspace_target, np.zeros(len(policy.watched_joints))))
    qd = 0.3 * rng.normal(size=len(q))
    goal = Goal(policy.default_cspace_target, np.array([0.5, 0.1, 0.4]), np.eye(3))
    rows: list[Row] = []
    for count, mixed in OBSTACLES:
        packed = ObstaclePacker(()).packed(obstacles(rng, count, mixed), np.eye(4))
        for way in (fast, apart):
            way.set_obstacles(packed)
            way.set_goal(goal)
        ways = (fast, apart)
        times = take_turns({way: partial(way.acceleration, q, qd) for way in ways}, rounds)
        rows.append({
            "": f"{name}, {len(fast.spheres.radii)} spheres, {count} {KINDS[mixed]}",
            "least [µs]": 1e6 * times[fast].least, "median [µs]": 1e6 * times[fast].p50,
            "links apart [µs]": 1e6 * times[apart].least,
        })  # fmt: skip
    return rows


def step_row(name: str, count: int, mixed: bool, rounds: int) -> Row:
    """Return a row for steps of 10 ms."""
    policy = RmpflowPolicy(load_robot(name))
    policy.set_scene(obstacles(np.random.default_rng(1), count, mixed))
    policy.set_end_effector_target((0.5, 0.1, 0.4), (1.0, 0.0, 0.0, 0.0))
    home = policy.default_cspace_target
    step = partial(policy.compute_joint_targets, home, 0.0 * home, frame_duration=0.01)
    times = take_turns({name: step}, rounds)[name]
    return {"": f"{name}, {count} {KINDS[mixed]}", "least [µs]": 1e6 * times.least,
            "median [µs]": 1e6 * times.p50}  # fmt: skip


def lag_row(name: str, own: bool, every: float, seconds: float) -> Row:
    """Return the lag on the circle; ``own``: the policy integrates its own state."""
    policy = RmpflowPolicy(load_robot(name), ignore_robot_state_updates=own)
    arm, lags = FollowingArm(policy, PERIOD), []

    def target(step: int) -> np.ndarray:
        angle = SPEED / RADIUS * step * PERIOD
        return arm.begin + RADIUS * np.array((0.0, np.sin(angle), 1.0 - np.cos(angle)))

    for step in range(round(seconds / PERIOD)):
        tool = arm.advance(None if step % round(every / PERIOD) else target(step))
        lags.append(1e3 * float(np.linalg.norm(tool - target(step + 1))))
    spread = Spread.of(lags[round(SETTLING / PERIOD) :])
    return {
        "": f"{name}, {'own' if own else 'measured'} state, target at {1.0 / every:.0f} Hz",
        "median [mm]": spread.p50, "95 % [mm]": spread.p95, "max [mm]": spread.maximum,
    }  # fmt: skip


@benchmark("RMPflow", rounds=25, seconds=(12.0, "of the lag, simulated"),
           only=("", "measure only this", ("", "evaluation", "lag")))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    pin_to_core()
    if options.only != "lag":
        progress("evaluation")
        rows = [row for name in ROBOTS for row in evaluation_rows(name, options.rounds)]
        note = "Links apart: least, with the leaf that keeps links off each other."
        report.table("One evaluation", rows, note)
        around = ((0, True), (1000, False), (1000, True))
        rows = [step_row(name, *each, options.rounds) for name in ROBOTS for each in around]
        report.table("A step of 10 ms", rows)
    if options.only != "evaluation":
        progress("lag")
        rows = [lag_row(name, own, every, options.seconds)
                for name in ROBOTS for own in (True, False) for every in (0.02, 0.1)]  # fmt: skip
        report.table(f"Lag behind a target at {SPEED:g} m/s", rows)
