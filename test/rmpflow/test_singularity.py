# SPDX-License-Identifier: Apache-2.0
"""Twists near singularities, with the thresholds of MoveIt Servo."""

import math

import numpy as np
import pytest

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import FollowerSettings, RobotMotion
from motion_nodes.core.reactive.singularity import (
    LEAVING_SHARE,
    NearSingularity,
    SingularityThresholds,
    TwistScaler,
)
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig

DT = 0.01
LOWER, HARD = 17.0, 30.0
THRESHOLDS = SingularityThresholds(LOWER, HARD, 2.0)
LINKS = np.full(2, math.pi)


def planar(q):
    """Jacobian of the tip of two links of 1 m; its condition number grows towards q[1] = 0."""
    s, t = q[0], q[0] + q[1]
    J = np.zeros((6, 2))
    J[0] = -math.sin(s) - math.sin(t), -math.sin(t)
    J[1] = math.cos(s) + math.cos(t), math.cos(t)
    return J


ARM = TwistScaler(planar, -LINKS, LINKS)


def elbow_of(condition: float) -> float:
    """Return the elbow angle with a condition number, stretched side."""
    low, high = 1e-4, 1.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        above = np.linalg.cond(planar(np.array([0.4, middle]))) > condition
        low, high = (middle, high) if above else (low, middle)
    return high


OUT = np.array([math.cos(0.4), math.sin(0.4), 0.0, 0.0, 0.0, 0.0])
"""Direction in which the arm is nearly stretched."""


@pytest.mark.parametrize("bend", [1.0, -1.0])
@pytest.mark.parametrize("condition", [5.0, 20.0, 25.0, 35.0, 50.0, 200.0])
def test_the_scale_of_a_planar_arm_is_that_of_its_condition(condition, bend):
    q = np.array([0.4, bend * elbow_of(condition)])
    outwards, inwards = (ARM.scale(q, sign * OUT, THRESHOLDS) for sign in (1.0, -1.0))
    expected = float(np.clip((HARD - condition) / (HARD - LOWER), 0.0, 1.0))
    assert outwards.share == pytest.approx(expected, abs=1e-3)
    leaving = LOWER + 2.0 * (HARD - LOWER)
    expected = float(np.clip((leaving - condition) / (leaving - LOWER), LEAVING_SHARE, 1.0))
    assert inwards.share == pytest.approx(expected, abs=1e-3)
    if LOWER < condition < HARD:
        assert outwards.cause is NearSingularity.APPROACHING
        assert inwards.cause is NearSingularity.LEAVING
    if condition > HARD:
        assert outwards.cause is NearSingularity.HALTED


def test_without_thresholds_or_a_command_nothing_is_scaled():
    q = np.array([0.4, 1e-6])
    never = SingularityThresholds(math.inf, math.inf, 2.0)
    assert ARM.scale(q, OUT, never).share == 1.0
    assert ARM.scale(q, np.zeros(6), THRESHOLDS).share == 1.0


def test_an_arm_that_starts_in_a_singularity_can_leave_it():
    scale = ARM.scale(
        np.array([0.4, 0.0]), np.array([-math.sin(0.4), math.cos(0.4)] + 4 * [0.0]), THRESHOLDS
    )
    assert scale.share >= LEAVING_SHARE


def test_the_size_of_an_arm_changes_nothing():
    """A small arm of the same shape: lengths and linear velocities a tenth."""

    def small(q):
        return planar(q) * np.array([0.1, 0.1, 0.1, 1.0, 1.0, 1.0])[:, None]

    def turning(J):
        J = J.copy()
        J[5] = 1.0
        return J

    large = TwistScaler(lambda q: turning(planar(q)), -LINKS, LINKS)
    tiny = TwistScaler(lambda q: turning(small(q)), -LINKS, LINKS)
    assert tiny.reach == pytest.approx(0.1 * large.reach)
    for elbow in (1.5, 0.1, 0.05, 0.01):
        q = np.array([0.4, elbow])
        one, other = large.scale(q, OUT, THRESHOLDS), tiny.scale(q, 0.1 * OUT, THRESHOLDS)
        assert one.share == pytest.approx(other.share)
        assert one.cause is other.cause


def test_directions_that_an_arm_never_reaches_are_no_singularity():
    """Three parallel axes, and a fourth that repeats the first: the tool stays in a plane."""

    def jacobian(q):
        c, s = np.cos(np.cumsum(q[:3])), np.sin(np.cumsum(q[:3]))
        J = np.zeros((6, 6))
        for joint in range(3):
            J[0, joint], J[1, joint], J[5, joint] = -s[joint:].sum(), c[joint:].sum(), 1.0
        J[:, 3:] = J[:, :3]
        return J

    scaler = TwistScaler(jacobian, np.full(6, -3.0), np.full(6, 3.0))
    q = np.array([0.3, 1.2, 0.9, 0.0, 0.0, 0.0])
    assert scaler.scale(q, np.array([0.1, 0, 0, 0, 0, 0.0]), THRESHOLDS).share == 1.0


@pytest.mark.parametrize(
    ("lower", "hard"), [(17.0, 17.0), (30.0, 17.0), (0.5, 17.0), (17.0, math.nan)]
)
def test_thresholds_that_contradict_each_other(lower, hard):
    with pytest.raises(InvalidConfig, match="singularity_threshold"):
        SingularityThresholds(lower, hard)


class Arm:
    """An ideal arm that follows twists."""

    def __init__(self, name: str, **settings):
        robot = load_robot(name)
        self.policy = policy = RmpflowPolicy(robot, ignore_robot_state_updates=True)
        self.follower = Follower(policy, FollowerSettings(**settings))
        self.q = np.array(policy.default_cspace_target)
        self.qd, self.now = np.zeros(len(self.q)), 0.0
        self.watched = robot.home[robot.indices(policy.watched_joints)]
        self.conditions, self.shares, self.poses = [], [], [policy.tool_pose(self.q)]

    def run(self, twist, seconds: float) -> None:
        for _ in range(round(seconds / DT)):
            self.follower.follow_twist(twist, self.now)
            still = np.zeros(len(self.watched))
            motion = RobotMotion(self.q, self.qd, self.watched, still, self.q, self.qd)
            sent = self.follower.step(motion, DT, self.now)
            self.now += DT
            if sent is not None:
                self.q, self.qd = sent
            self.conditions.append(np.linalg.cond(self.policy.tool_jacobian(self.q)))
            self.shares.append(self.follower.command.scale.share)
            self.poses.append(self.policy.tool_pose(self.q))

    def off_line(self, twist) -> float:
        """Return the max distance of the tool from the line of a twist [m]."""
        ways = np.array([X[:3, 3] - self.poses[0][:3, 3] for X in self.poses])
        speed = np.linalg.norm(twist[:3])
        unit = twist[:3] / speed if speed else np.zeros(3)
        return float(np.linalg.norm(ways - np.outer(ways @ unit, unit), axis=1).max())

    def speed_along(self, twist) -> float:
        """Return the ratio of the tool's motion to a twist."""
        reached = self.policy.tool_jacobian(self.q) @ self.qd
        return float(reached @ twist / (twist @ twist))


def twist_along(direction: int, sign: float) -> np.ndarray:
    twist = np.zeros(6)
    twist[direction] = sign * (0.15 if direction < 3 else 0.5)
    return twist


SIGNS = pytest.mark.parametrize("sign", [1.0, -1.0])
DIRECTIONS = pytest.mark.parametrize("direction", range(6))
ARMS = pytest.mark.parametrize("name", ["franka", "ur10e"])


@SIGNS
@DIRECTIONS
@ARMS
def test_an_arm_halts_before_a_singularity_and_leaves_it_again(name, direction, sign):
    arm, twist = Arm(name), twist_along(direction, sign)
    arm.run(twist, 6.0)
    assert arm.off_line(twist) < 0.03
    halted = min(arm.shares) == 0.0
    if direction < 3 and halted:
        assert 0.8 * HARD < max(arm.conditions) < 1.25 * HARD  # in metres; reach 0.94 and 1.35 m
        assert np.abs(arm.qd).max() < 0.01, "it swings at the end of its reach"
    begin = arm.policy.tool_pose(arm.q)
    arm.run(-twist, 2.0)
    assert arm.conditions[-1] < 1.25 * HARD
    if direction < 3:
        way = arm.policy.tool_pose(arm.q)[:3, 3] - begin[:3, 3]
        assert way @ twist[:3] / 0.15 < -0.1


def test_the_ends_of_reach_are_met():
    """The test above is about them."""
    arm = Arm("ur10e")
    arm.run(twist_along(0, 1.0), 6.0)
    assert min(arm.shares) == 0.0


@SIGNS
@DIRECTIONS
@ARMS
def test_without_thresholds_a_tool_stays_on_the_line_of_its_twist(name, direction, sign):
    """A limit of a joint, the reach, or the robot itself blocks it."""
    never = SingularityThresholds(math.inf, math.inf)
    arm, twist = Arm(name, singularity=never), twist_along(direction, sign)
    arm.run(twist, 6.0)
    assert arm.off_line(twist) < 0.04
