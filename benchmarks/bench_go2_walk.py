# SPDX-License-Identifier: Apache-2.0
"""The published Go2 policy in MuJoCo: random twists on flat ground and over 3 cm steps.

Run: ``python benchmarks/bench_go2_walk.py [--minutes 5]``. Printed are falls, velocity errors by
axis, and the time of the network beside its period.
"""

from __future__ import annotations

import numpy as np
from harness import Cell, Report, Spread, arguments, progress

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


def walk(name: str, obstacles: tuple[Obstacle, ...], minutes: float, seed: int) -> list[Cell]:
    """Walk under random commands; return the table's row."""
    progress(name)
    robot, rng = load_robot("go2"), np.random.default_rng(seed)
    runner = load_policy("go2_walk", robot)
    world = MujocoWorld([RobotPlacement(robot, "go2")], WorldConfig(obstacles=obstacles))
    trial, falls, errors, times, travelled = PolicyTrial(world, "go2", runner), 0, [], [], 0.0
    for _ in range(round(60.0 * minutes / SEGMENT)):
        command = rng.uniform((-0.5, -0.3, -1.0), (1.0, 0.3, 1.0))
        before = world.base_pose("go2")[:2, 3]
        result = trial.walk(command, SEGMENT)
        travelled += float(np.linalg.norm(world.base_pose("go2")[:2, 3] - before))
        times.append(1e3 * trial.sequence.inference_time)
        if result.fell:
            falls += 1
            world.reset()
            trial = PolicyTrial(world, "go2", runner)
            continue
        errors.append(result.error)
    error = np.sqrt((np.array(errors) ** 2).mean(axis=0)).tolist()
    spread = Spread.of(times)
    return [name, falls, travelled, *error, spread.p50, spread.maximum, 1e3 * runner.period]


def main() -> None:
    """Walk on both grounds, and print a table."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="on each ground")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report = Report("The Go2 walks by its published policy")
    grounds = {"flat": (), "3 cm steps": steps()}
    report.table(
        f"{options.minutes:g} minutes on each ground",
        ["ground", "falls", "between ends of commands [m]", "RMS error vx [m/s]", "vy [m/s]",
         "wz [rad/s]", "policy, median [ms]", "max [ms]", "period [ms]"],
        [walk(name, ground, options.minutes, options.seed) for name, ground in grounds.items()],
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
