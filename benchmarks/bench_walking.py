# SPDX-License-Identifier: Apache-2.0
"""Walking policies in MuJoCo: random twists on flat ground and over steps.

Run: ``python benchmarks/bench_walking.py [--policy g1_walk] [--minutes 10]``. Reported are falls,
velocity errors by axis, and the time of the network compared with its period.
"""

from __future__ import annotations

import itertools

import numpy as np
from harness import Options, Report, Row, Spread, benchmark, progress
from policy_trial import PolicyTrial

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.extras.policies.policy_files import load_policy
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mjcf_shapes import Obstacle
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

SEGMENT = 5.0
"""Duration of each command [s]."""
TWISTS = {
    "go2": ((-0.5, -0.3, -1.0), (1.0, 0.3, 1.0)),
    "g1": ((-0.5, -0.3, -0.8), (0.8, 0.3, 0.8)),
}
"""Ranges of random commands: vx, vy [m/s], wz [rad/s]."""


def steps(height: float) -> tuple[Obstacle, ...]:
    """Return square steps of a height [m] around the start, every metre up to 12 m."""
    bars = []
    for k, angle in itertools.product(range(1, 13), 0.5 * np.pi * np.arange(4)):
        X = from_xyz_rpy((k * np.cos(angle), k * np.sin(angle), 0.0), (0.0, 0.0, angle))
        size = Box((0.4, 2.0 * k + 0.4, 2.0 * height))
        bars.append(Obstacle(f"step{len(bars)}", size, X))
    return tuple(bars)


def walk(policy: str, height: float, minutes: float, seed: int) -> Row:
    """Walk with random commands over steps of a height [m]; return the table's row."""
    robot_name = policy.partition("_")[0]
    progress(ground := f"{100.0 * height:g} cm steps" if height else "flat")
    obstacles = steps(height) if height else ()
    robot, rng = load_robot(robot_name), np.random.default_rng(seed)
    runner = load_policy(policy, robot)
    world = MujocoWorld([RobotPlacement(robot, "it")], WorldConfig(obstacles=obstacles))
    trial, falls, errors, times, travelled = PolicyTrial(world, "it", runner), 0, [], [], 0.0
    for _ in range(round(60.0 * minutes / SEGMENT)):
        command = rng.uniform(*TWISTS[robot_name])
        before = world.base_pose("it")[:2, 3]
        result = trial.walk(command, SEGMENT)
        travelled += float(np.linalg.norm(world.base_pose("it")[:2, 3] - before))
        times.append(1e3 * trial.sequence.inference_time)
        if result.fell:
            falls += 1
            world.reset()
            trial = PolicyTrial(world, "it", runner)
            continue
        errors.append(result.error)
    x, y, z = np.sqrt((np.array(errors) ** 2).mean(axis=0)).tolist()
    spread = Spread.of(times)
    return {
        "ground": ground, "falls": falls, "between ends of commands [m]": travelled,
        "RMS error vx [m/s]": x, "vy [m/s]": y, "wz [rad/s]": z,
        "policy, median [ms]": spread.p50, "max [ms]": spread.maximum,
        "period [ms]": 1e3 * runner.period,
    }  # fmt: skip


@benchmark("Walking by {policy}", policy=("go2_walk", "", ("go2_walk", "go2_trot", "g1_walk")),
           minutes=(5.0, "on each ground"), seed=0)  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Walk on all grounds and print the table."""
    rows = [walk(options.policy, h, options.minutes, options.seed) for h in (0.0, 0.015, 0.03)]
    report.table(f"{options.minutes:g} minutes on each ground", rows)
