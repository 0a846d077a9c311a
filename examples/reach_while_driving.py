# SPDX-License-Identifier: Apache-2.0
"""An arm on a differential base: hand, base and obstacles in one program per step."""

from __future__ import annotations

import sys

import numpy as np

import motion_nodes as mn

HAND, DT = "panda_hand_tcp", 0.05


def main() -> int:
    """Reach a point that is farther away than the arm is long, past a post."""
    robot = mn.load_robot(mn.mounted_folder("nova_carter", "franka", (0.0, 0.0, 0.422)))
    arm = robot["arm"]
    world = mn.World()
    world.add("post", mn.Cylinder(0.08, 1.4), mn.pose(xyz=(1.5, 0.75, 0.7)))

    now = arm.configuration("ready", base="planar")
    hand = mn.FrameTask(HAND, now.pose(HAND) @ mn.pose(xyz=(1.6, -0.4, 0.1)), gain=0.2)
    tasks = [
        hand,
        mn.PostureTask(now, weight=0.05, gain=0.1),
        mn.DampingTask([0.3, 0.1, *[0.02] * len(now.q)]),  # the arm before the base
    ]
    limits = [
        mn.ConfigurationLimit(),
        mn.VelocityLimit(base=[0.5, 1.0]),  # forward [m/s], yaw [rad/s]: it cannot move sideways
        mn.CollisionLimit(world, distance=0.03, detection=0.3),
    ]
    checker, least = arm.checker(world), np.inf
    for _ in range(200):
        now = now.integrate(mn.solve_step(now, tasks, limits, dt=DT), DT)
        checker.set_base_pose(now.X_WB)
        least = min(least, checker.distance(now.q).value)
    error = np.linalg.norm(hand.error(now)[:3])
    x, y = now.X_WB[:2, 3]
    print(f"the base drove to ({x:.2f}, {y:.2f}) m, the hand is off by {1e3 * error:.1f} mm")
    print(f"never nearer to anything than {1e3 * least:.0f} mm")
    return 0 if error < 0.01 and least > 0.0 else 1


if __name__ == "__main__":
    sys.exit(main())
