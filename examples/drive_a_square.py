# SPDX-License-Identifier: Apache-2.0
"""Drive a JetBot along a square: ramps, wheel speeds, and where the odometry says it is."""

from __future__ import annotations

import sys

import numpy as np

import motion_nodes as mn

STEP = 0.02
"""Between two steps [s]."""


def main() -> int:
    """Drive with ideal wheels; end where it began."""
    limits = mn.BaseLimits(
        x=mn.BodyAxisLimits(max_velocity=0.3, max_acceleration=0.5, max_jerk=5.0),
        yaw=mn.BodyAxisLimits(max_velocity=2.0, max_acceleration=3.0),
    )
    controller = mn.load_robot("jetbot").base.controller(limits)
    angles, time = np.zeros(2), 0.0

    def drive(twist: mn.Twist2, seconds: float) -> None:
        nonlocal angles, time
        for _ in range(round(seconds / STEP)):
            time += STEP
            controller.command(twist, time)
            command = controller.step(time, STEP)
            angles = angles + STEP * command.wheels
            controller.measure(angles, STEP)

    for side in range(4):
        drive(mn.Twist2(0.2, 0.0, 0.0), 2.5)
        drive(mn.Twist2(0.0, 0.0, 0.0), 1.0)
        drive(mn.Twist2(0.0, 0.0, np.pi / 4.0), 2.0)
        drive(mn.Twist2(0.0, 0.0, 0.0), 1.0)
        pose = controller.odometry
        print(f"after side {side + 1}: x {pose.x:+.3f} m, y {pose.y:+.3f} m, yaw {pose.yaw:+.3f}")
    pose = controller.odometry
    return 0 if np.hypot(pose.x, pose.y) < 0.01 and abs(pose.yaw) < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
