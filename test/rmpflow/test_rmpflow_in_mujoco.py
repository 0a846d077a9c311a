# SPDX-License-Identifier: Apache-2.0
"""RMPflow with PD-driven arms in MuJoCo: tracking, and avoidance of a ball."""

import dataclasses

import numpy as np
import pytest
from rmpflow.judged_arm import JudgedArm

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Sphere
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.scene.scene import Scene, world_object

PERIOD = 0.004
FAR = (0.0, 0.0, -2.0)
BALL = world_object("ball", Sphere(0.06))


def with_ball(place):
    return Scene(objects={"ball": dataclasses.replace(BALL, X_WO=from_xyz_rpy(place))})


class Cell:
    """A robot in its state "ready", commanded by a follower."""

    def __init__(self, name, own=True, scene=None):
        self.policy = RmpflowPolicy(load_robot(name), ignore_robot_state_updates=own)
        self.follower, self.now = Follower(self.policy), 0.0
        self.arm = JudgedArm(self.policy, PERIOD)
        ready = self.policy.robot.named_state("ready")[self.arm.active]
        self.X = self.policy.tool_pose(ready).copy()
        self.arm.start(ready, scene or Scene())
        self.follower.follow_posture(ready, 0.0)

    def step(self, target, scene=None):
        """Advance by a period; return the distance of the tool from the target [m]."""
        self.X[:3, 3] = target
        self.follower.follow_pose(self.X.copy(), self.now)
        q, _ = self.arm.follow(self.follower, scene or Scene(), self.now)
        self.now += PERIOD
        return float(np.linalg.norm(self.policy.tool_pose(q)[:3, 3] - target))


@pytest.mark.parametrize(("name", "own"), [("franka", True), ("ur10e", False)])
def test_a_target_at_a_tenth_of_a_metre_per_second_is_followed(name, own):
    """Integrated from the policy's own state, or from that of a robot that sags and lags."""
    cell = Cell(name, own)
    begin, lags = cell.X[:3, 3].copy(), []
    for k in range(1000):
        angle = max(0.0, k * PERIOD - 0.5)
        offset = 0.1 * np.array((0.0, np.sin(angle), 1.0 - np.cos(angle)))
        lags.append(cell.step(begin + offset))
    assert max(lags[400:]) < 0.01


def test_a_ball_that_comes_is_not_touched_and_the_target_found_again():
    cell = Cell("franka", scene=with_ball(FAR))
    target, away = cell.X[:3, 3].copy(), []
    for k in range(1500):
        ball = target + np.array((0.0, -0.6 + 0.2 * k * PERIOD, 0.0))
        away.append(cell.step(target, with_ball(ball)))
    assert max(away) > 0.08
    assert not cell.arm.verdict.touched()
    assert away[-1] < 0.01


def test_the_ball_would_be_felt():
    """Negative control of the contact check above."""
    cell = Cell("franka", scene=with_ball(FAR))
    place = cell.X[:3, 3].copy()
    for side in np.linspace(0.4, 0.0, 40):  # faster than any arm escapes
        cell.step(place, with_ball(place + np.array((0.0, side, 0.0))))
    assert cell.arm.verdict.touched()
    assert cell.arm.verdict.clearance < 0.0
