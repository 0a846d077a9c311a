# SPDX-License-Identifier: Apache-2.0
"""Bring a Franka's hand to a pose, in a configuration free of self-collision."""

from __future__ import annotations

import sys

import numpy as np

import motion_nodes as mn


def main() -> int:
    """Solve, check the solution, and ask for a pose out of reach."""
    arm = mn.load_robot("franka")["arm"]
    target = mn.pose(xyz=(0.45, -0.2, 0.3), rpy=(np.pi, 0.0, 0.0))
    result = arm.ik(target, seed="ready", world=mn.World())
    reached = arm.fk(result.q)
    print("joints [rad]:", np.round(result.q, 4))
    print("hand [m]:    ", np.round(reached[:3, 3], 4))

    far = arm.ik(mn.pose(xyz=(2.0, 0.0, 0.5)))
    print("2 m away:    ", far.reason)

    close = np.linalg.norm(reached[:3, 3] - target[:3, 3]) < 1e-3
    return 0 if result.success and close and not far.success else 1


if __name__ == "__main__":
    sys.exit(main())
