# SPDX-License-Identifier: Apache-2.0
"""Time-parameterize waypoints within velocity, acceleration and jerk limits."""

from __future__ import annotations

import sys

import numpy as np

import motion_nodes as mn


def main() -> int:
    """Time a path with one corner, at full and at half speed; measure its use of the limits."""
    arm = mn.load_robot("ur10e")["arm"]
    start = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
    path = start + np.array(
        [np.zeros(6), [0.8, 0.2, 0.0, 0.0, 0.0, 0.0], [0.8, 0.5, -0.4, 0.0, 0.0, 1.0]]
    )
    fast = arm.time_parameterize(path, blend=0.05)
    slow = arm.time_parameterize(path, velocity_scaling=0.5, blend=0.05)
    print(f"{fast.duration:.3f} s; at half the speed {slow.duration:.3f} s")

    points = fast.points(0.01)
    used = np.abs(points.velocities).max(axis=0) / arm.limits.velocity
    for name, share in zip(arm.joint_names, used, strict=True):
        print(f"{name:20} uses {100.0 * share:5.1f} % of its speed")
    use = fast.limit_use(arm.limits)
    shares = ", ".join(f"{name} {100.0 * share:.1f} %" for name, share in use._asdict().items())
    print("of the limits:", shares)
    at_ends = np.allclose(points.positions[[0, -1]], path[[0, -1]])
    return 0 if at_ends and used.max() <= 1.0 + 1e-9 and slow.duration > fast.duration else 1


if __name__ == "__main__":
    sys.exit(main())
