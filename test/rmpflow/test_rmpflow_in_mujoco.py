# SPDX-License-Identifier: Apache-2.0
"""RMPflow with PD-driven arms in MuJoCo: tracking, and avoidance of a ball."""

import dataclasses

import numpy as np
import pytest
from rmpflow.judged_arm import FollowingArm

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import Scene, world_object

PERIOD = 0.004
FAR = (0.0, 0.0, -2.0)
BALL = world_object("ball", Sphere(0.06))


def with_ball(place):
    return Scene(objects={"ball": dataclasses.replace(BALL, X_WO=from_xyz_rpy(place))})


def arm_of(name, own=True, scene=None):
    policy = RmpflowPolicy(load_robot(name), ignore_robot_state_updates=own)
    return FollowingArm(policy, PERIOD, scene)


def away_from(target, arm, scene=None):
    """Advance by a period; return the distance of the tool from the target [m]."""
    return float(np.linalg.norm(arm.advance(target, scene) - target))


@pytest.mark.parametrize(("name", "own"), [("franka", True), ("ur10e", False)])
def test_a_target_at_a_tenth_of_a_metre_per_second_is_followed(name, own):
    """Integrated from the policy's own state, or from that of a robot that sags and lags."""
    arm, lags = arm_of(name, own), []
    for k in range(1000):
        angle = max(0.0, k * PERIOD - 0.5)
        offset = 0.1 * np.array((0.0, np.sin(angle), 1.0 - np.cos(angle)))
        lags.append(away_from(arm.begin + offset, arm))
    assert max(lags[400:]) < 0.01


@pytest.mark.long
def test_a_ball_that_comes_is_not_touched_and_the_target_found_again():
    arm, away = arm_of("franka", scene=with_ball(FAR)), []
    for k in range(1500):
        ball = arm.begin + np.array((0.0, -0.6 + 0.2 * k * PERIOD, 0.0))
        away.append(away_from(arm.begin, arm, with_ball(ball)))
    assert max(away) > 0.08
    assert not arm.verdict.touched()
    assert away[-1] < 0.01


def test_the_ball_would_be_felt():
    """Negative control of the contact check above."""
    arm = arm_of("franka", scene=with_ball(FAR))
    for side in np.linspace(0.4, 0.0, 40):  # faster than any arm escapes
        arm.advance(arm.begin, with_ball(arm.begin + np.array((0.0, side, 0.0))))
    assert arm.verdict.touched()
    assert arm.verdict.clearance < 0.0
