# SPDX-License-Identifier: Apache-2.0
"""Follow a target that moves on a circle, around a ball that stands on it, with RMPflow."""

from __future__ import annotations

import sys

import numpy as np

import motion_nodes as mn

FRAME = 1.0 / 60.0
"""Between two steps [s]."""
PERIOD = 16.0
"""Of the circle [s]."""


def target_at(time: float) -> np.ndarray:
    """Return where the target is, shape (3,)."""
    angle = 2.0 * np.pi * time / PERIOD
    return np.array([0.5, 0.25 * np.sin(angle), 0.45 + 0.15 * np.cos(angle)])


def main() -> int:
    """Go round twice; look at how near the target the hand is, and how near the ball it comes."""
    arm = mn.load_robot("franka")["arm"]
    world = mn.World()
    world.add("ball", mn.Sphere(0.05), mn.pose(xyz=(0.5, -0.25, 0.45)))
    policy = arm.rmpflow(world)

    q, qd = arm.state("ready"), np.zeros(7)
    errors, nearest = [], np.inf
    for k in range(int(2.0 * PERIOD / FRAME)):
        target = target_at(k * FRAME)
        q, qd = policy.step(q, qd, target, FRAME)
        errors.append(np.linalg.norm(arm.fk(q)[:3, 3] - target))
        nearest = min(nearest, policy.clearance())

    last = np.array(errors[len(errors) // 2 :])
    print(f"off by {1e3 * np.median(last):.0f} mm mostly, {1e3 * last.max():.0f} mm at the ball")
    print(f"never nearer to the ball than {1e3 * nearest:.0f} mm")
    return 0 if np.median(last) < 0.06 and nearest > 0.0 else 1


if __name__ == "__main__":
    sys.exit(main())
