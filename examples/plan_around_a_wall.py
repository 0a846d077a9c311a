# SPDX-License-Identifier: Apache-2.0
"""Plan a motion around a wall that the straight path would hit."""

from __future__ import annotations

import sys

import numpy as np

import motion_nodes as mn


def main() -> int:
    """Plan, and check each point of the trajectory once more."""
    arm = mn.load_robot("franka")["arm"]
    world = mn.World()
    world.add("wall", mn.Box(0.4, 0.02, 0.8), mn.pose(xyz=(0.5, 0.0, 0.4)))

    start = np.array([-0.8, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
    goal = start * [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    print("the straight path is free:", arm.checker(world).edge_free(start, goal))

    plan = arm.plan(start, goal, world)
    if not plan.success:
        print(plan.reason)
        return 1
    for stage in plan.stages:
        print(f"{stage.name:8} {1e3 * stage.time:7.2f} ms  {stage.words}")
    points = plan.trajectory.positions
    free = bool(arm.collision_free_batch(points, world).all())
    print(f"{len(points)} points in {plan.trajectory.duration:.2f} s, all free: {free}")
    return 0 if free and np.allclose(points[-1], goal) else 1


if __name__ == "__main__":
    sys.exit(main())
