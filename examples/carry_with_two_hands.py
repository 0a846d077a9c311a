# SPDX-License-Identifier: Apache-2.0
"""A humanoid bends down and carries a bar with both hands: tasks and limits, one solve per step."""

from __future__ import annotations

import sys

import numpy as np

import motion_nodes as mn

LEFT, RIGHT = "left_wrist_yaw_link", "right_wrist_yaw_link"
FEET = ("left_ankle_roll_link", "right_ankle_roll_link")
DT = 0.02
"""Duration of a step [s]."""


def main() -> int:
    """Move the bar in front of the body from the waist to the knees and back."""
    robot = mn.load_robot("g1")
    body = robot[["left_leg", "right_leg", "waist", "left_arm", "right_arm"]]
    q = body.state("home").copy()
    for name in ("left_elbow_joint", "right_elbow_joint"):
        q[body.joint_names.index(name)] = 0.3
    for side in ("left", "right"):  # slightly bent, away from the singularity of straight legs
        for joint, angle in (("hip_pitch", -0.3), ("knee", 0.6), ("ankle_pitch", -0.3)):
            q[body.joint_names.index(f"{side}_{joint}_joint")] = angle
    start = now = body.configuration(q, base="floating")

    bar = mn.FrameTask(LEFT, now, weights=(4.0, 0.5))
    grip = mn.FrameTask(RIGHT, now, reference=LEFT, weights=(20.0, 5.0))
    feet = [mn.FrameTask(foot, now, weights=(50.0, 20.0)) for foot in FEET]
    middle = np.mean([now.pose(foot)[:3, 3] for foot in FEET], axis=0)
    balance = mn.CenterOfMassTask([middle[0] + 0.03, middle[1], 0.0], weight=[20.0, 20.0, 0.0])
    tasks = [bar, grip, *feet, balance, mn.PostureTask(now, weight=0.02)]
    limits = [mn.ConfigurationLimit(), mn.VelocityLimit(3.0)]

    first, worst, lowest = bar.target, np.zeros(4), 0.0
    for k in range(300):
        depth = 0.25 * (1.0 - np.cos(k * np.pi / 150.0))
        bar.target = mn.pose(xyz=(0.1 * depth, 0.0, -depth)) @ first
        now = now.integrate(mn.solve_step(now, tasks, limits, dt=DT), DT)
        lowest = min(lowest, now.X_WB[2, 3] - start.X_WB[2, 3])
        if k > 25:  # the first half second brings the centre of mass above the feet
            off = [task.error(now)[:3] for task in (bar, grip, *feet)]
            slip = max(np.linalg.norm(error) for error in off[2:])
            lean = np.linalg.norm(balance.error(now)[:2])
            worst = np.maximum(worst, [*(np.linalg.norm(e) for e in off[:2]), slip, lean])
    print(f"the bar went down by 0.50 m, the pelvis by {-lowest:.2f} m")
    print("off by at most: bar {:.1f}, grip {:.1f}, feet {:.1f}, balance {:.1f} mm".format(
        *(1e3 * worst)))  # fmt: skip
    return 0 if worst.max() < 0.01 and body.limits.within(now.q, 1e-9) else 1


if __name__ == "__main__":
    sys.exit(main())
