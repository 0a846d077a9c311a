# SPDX-License-Identifier: Apache-2.0
"""Turn waypoints into a motion that is as fast as velocity, acceleration and jerk limits allow."""

from __future__ import annotations

import sys

import numpy as np

from motion_nodes.model.loader import load_robot
from motion_nodes.trajectory.blended_path import CornerBlending
from motion_nodes.trajectory.retime import retime


def main() -> int:
    """Time a path with one corner, at full and at half speed; measure what it uses of limits."""
    arm = load_robot("ur10e").group("arm")
    ready = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
    path = ready + np.array(
        [np.zeros(6), [0.8, 0.2, 0.0, 0.0, 0.0, 0.0], [0.8, 0.5, -0.4, 0.0, 0.0, 1.0]]
    )
    fast = retime(path, arm.limits, blending=CornerBlending(deviation=0.05))
    slow = retime(path, arm.limits, velocity_scaling=0.5, blending=CornerBlending(deviation=0.05))
    print(f"{fast.duration:.3f} s; at half the speed {slow.duration:.3f} s")

    points = fast.points(0.01)
    used = np.abs(points.velocities).max(axis=0) / arm.limits.velocity
    for name, share in zip(arm.joints, used, strict=True):
        print(f"{name:20} uses {100.0 * share:5.1f} % of its speed")
    use = fast.limit_use(arm.limits)
    shares = ", ".join(f"{name} {100.0 * share:.1f} %" for name, share in use._asdict().items())
    print("of the limits:", shares)
    at_ends = np.allclose(points.positions[[0, -1]], path[[0, -1]])
    return 0 if at_ends and used.max() <= 1.0 + 1e-9 and slow.duration > fast.duration else 1


if __name__ == "__main__":
    sys.exit(main())
