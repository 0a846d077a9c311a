# SPDX-License-Identifier: Apache-2.0
"""Bring a Franka's hand to a pose, in a posture in which the robot does not touch itself."""

from __future__ import annotations

import sys

import numpy as np

from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkRequest
from motion_nodes.ik.solvers import make_solver
from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.scene.checker import CollisionChecker


def main() -> int:
    """Solve, look at the answer, and ask for something that cannot be."""
    robot = load_robot("franka")
    chain = IkChain.of_group(robot, "arm")
    solver = make_solver(chain)
    checker = CollisionChecker(robot, "arm")

    target = from_xyz_rpy((0.45, -0.2, 0.3), (np.pi, 0.0, 0.0))
    request = IkRequest(target, seed=robot.named_state("ready", "arm"), validity=checker.is_free)
    result = solver.solve(request)
    reached = chain.kinematics.pose(result.q, chain.tip)
    print("joints [rad]:", np.round(result.q, 4))
    print("hand [m]:    ", np.round(reached[:3, 3], 4))

    far = solver.solve(IkRequest(from_xyz_rpy((2.0, 0.0, 0.5))))
    print("2 m away:    ", far.reason)

    close = np.linalg.norm(reached[:3, 3] - target[:3, 3]) < 1e-3
    return 0 if result.success and close and not far.success else 1


if __name__ == "__main__":
    sys.exit(main())
