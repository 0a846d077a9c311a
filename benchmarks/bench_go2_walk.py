# SPDX-License-Identifier: Apache-2.0
"""The published Go2 policy in MuJoCo: random twists on flat ground and over 3 cm steps.

    python benchmarks/bench_go2_walk.py [--minutes 5]

Prints falls, velocity errors by axis, and the time of the network against its period.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box
from motion_nodes.policies.policy_files import load_policy
from motion_nodes.sim.mjcf import WorldConfig
from motion_nodes.sim.mjcf_shapes import Obstacle
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement
from motion_nodes.sim.policy_trial import PolicyTrial

SEGMENT = 5.0
"""Duration of each command [s]."""


def steps() -> tuple[Obstacle, ...]:
    """Return square rings of 3 cm in height around the start, one every metre up to 12 m."""
    bars = []
    for k in range(1, 13):
        for i in range(4):
            angle = 0.5 * np.pi * i
            xyz = (k * np.cos(angle), k * np.sin(angle), 0.0)
            size = Box((0.4, 2.0 * k + 0.4, 0.06))
            bars.append(Obstacle(f"step{k}_{i}", size, from_xyz_rpy(xyz, (0.0, 0.0, angle))))
    return tuple(bars)


def walk(name: str, obstacles: tuple[Obstacle, ...], minutes: float, seed: int) -> None:
    """Walk under random commands and print what happened."""
    robot, rng = load_robot("go2"), np.random.default_rng(seed)
    runner = load_policy("go2_walk", robot)
    world = MujocoWorld([RobotPlacement(robot, "go2")], WorldConfig(obstacles=obstacles))
    trial, falls, errors, times, travelled = PolicyTrial(world, "go2", runner), 0, [], [], 0.0
    begin = time.perf_counter()
    for _ in range(round(60.0 * minutes / SEGMENT)):
        command = rng.uniform((-0.5, -0.3, -1.0), (1.0, 0.3, 1.0))
        before = world.base_pose("go2")[:2, 3]
        result = trial.walk(command, SEGMENT)
        travelled += float(np.linalg.norm(world.base_pose("go2")[:2, 3] - before))
        times.append(trial.sequence.inference_time)
        if result.fell:
            falls += 1
            world.reset()
            trial = PolicyTrial(world, "go2", runner)
            continue
        errors.append(result.error)
    wall = time.perf_counter() - begin
    error = np.sqrt((np.array(errors) ** 2).mean(axis=0))
    print(f"{name}: {minutes:g} min, {falls} falls, {travelled:.0f} m between ends of commands")
    print(f"  RMS error vx {error[0]:.3f} m/s, vy {error[1]:.3f} m/s, wz {error[2]:.3f} rad/s")
    print(
        f"  evaluation of the policy {1e3 * np.median(times):.2f} ms, max {1e3 * max(times):.2f} "
        f"ms, of its period of {1e3 * runner.period:g} ms; {60 * minutes / wall:.1f} times "
        "real time"
    )


def main() -> None:
    """Run both grounds."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--minutes", type=float, default=5.0, help="on each ground")
    cli.add_argument("--seed", type=int, default=0)
    args = cli.parse_args()
    walk("flat", (), args.minutes, args.seed)
    walk("3 cm steps", steps(), args.minutes, args.seed)


if __name__ == "__main__":
    main()
