# SPDX-License-Identifier: Apache-2.0
"""Plan a motion around a wall that the straight way would hit."""

from __future__ import annotations

import sys

import numpy as np

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box
from motion_nodes.planning.pipeline import plan
from motion_nodes.planning.problem import JointGoal, PlanRequest
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import world_object
from motion_nodes.scene.world import World


def main() -> int:
    """Plan, and look at each point of the motion once more."""
    robot = load_robot("franka")
    world = World()
    world.add(world_object("wall", Box((0.4, 0.02, 0.8)), from_xyz_rpy((0.5, 0.0, 0.4))))
    checker = CollisionChecker(robot, "arm", scene=world.scene)

    start = np.array([-0.8, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
    goal = start * [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    print("the straight way is free:", checker.edge_free(start, goal))

    motion = plan(PlanRequest(checker, start, (JointGoal(goal),)))
    if motion.trajectory is None:
        print(motion.reason)
        return 1
    for stage in motion.stages:
        print(f"{stage.name:8} {1e3 * stage.time:7.2f} ms  {stage.words}")
    points = motion.trajectory.positions
    free = bool(checker.are_free(points).all())
    print(f"{len(points)} points in {motion.trajectory.times[-1]:.2f} s, all free: {free}")
    return 0 if free and np.allclose(points[-1], goal) else 1


if __name__ == "__main__":
    sys.exit(main())
