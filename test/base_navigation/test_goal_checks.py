# SPDX-License-Identifier: Apache-2.0
"""Limits and ramps, and the checks of goal, standstill and progress."""

import math

import numpy as np
import pytest
from base_navigation.rolling_base import LIMITS
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import GoalTolerance, ProgressCheck, StoppedCheck
from motion_nodes.core.navigation.motion_limits import MotionLimits, TwistRamp, approach_speed
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.errors import InvalidConfig

speeds = st.floats(-3.0, 3.0)


class TestApproach:
    def test_braking_never_exceeds_the_deceleration_and_arrives(self):
        """``v dv/ds`` along the whole path, by finite differences."""
        s = np.linspace(0.0, 2.0, 200_001)
        v = np.array([approach_speed(x, 10.0, 0.7, 3.0) for x in s.tolist()])
        braking = np.diff(v**2) / (2.0 * np.diff(s))
        assert braking.max() <= 0.7 * (1.0 + 1e-6)
        assert np.abs(np.diff(v)).max() < 1e-3
        assert v[0] == 0.0

    def test_closed_forms_of_both_parts(self):
        assert approach_speed(0.01, 1.0, 1.0, 2.5) == pytest.approx(0.025)
        assert approach_speed(0.58, 9.0, 1.0, 2.5) == pytest.approx(1.0)
        assert approach_speed(50.0, 0.5, 1.0, 2.5) == 0.5

    @pytest.mark.parametrize("delay", [0, 1, 3, 6])
    def test_no_swing_with_a_delay_in_the_loop(self, delay):
        place, waiting, dt = 0.0, [0.0] * delay, 0.02
        for _ in range(1000):
            waiting.append(approach_speed(max(1.0 - place, 0.0), 0.5, 1.0, 2.5))
            place += waiting.pop(0) * dt
            assert place < 1.0 + 1e-3
        assert place == pytest.approx(1.0, abs=1e-6)


class TestRamp:
    @settings(derandomize=True, max_examples=200)
    @given(st.lists(st.tuples(speeds, speeds, speeds), min_size=1, max_size=30))
    def test_no_limit_is_ever_exceeded(self, wishes):
        ramp, dt = TwistRamp(LIMITS), 0.02
        before = ramp.twist
        for wish in wishes:
            now = ramp.step(Twist2(*wish), dt)
            assert math.hypot(now.vx, now.vy) <= LIMITS.max_velocity + 1e-12
            assert abs(now.wz) <= LIMITS.max_yaw_velocity
            change = math.hypot(now.vx - before.vx, now.vy - before.vy) / dt
            assert change <= max(LIMITS.max_acceleration, LIMITS.max_deceleration) + 1e-9
            assert abs(now.wz - before.wz) / dt <= LIMITS.max_yaw_acceleration + 1e-9
            before = now

    def test_speeding_up_and_braking_have_their_own_limits(self):
        limits = MotionLimits(**{**vars(LIMITS), "max_deceleration": 3.0})
        ramp = TwistRamp(limits)
        up = [ramp.step(Twist2(0.4), 0.1).vx for _ in range(5)]
        assert up == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4])
        down = [ramp.step(Twist2(), 0.1).vx for _ in range(3)]
        assert down == pytest.approx([0.1, 0.0, 0.0])

    def test_turning_round_speeds_up_only_with_what_is_left_of_the_step(self):
        limits = MotionLimits(**{**vars(LIMITS), "max_deceleration": 4.0})
        ramp = TwistRamp(limits)
        ramp.twist = Twist2(0.2)
        assert ramp.step(Twist2(-0.5), 0.1).vx == pytest.approx(-0.1 * (1.0 - 0.2 / 0.4))

    def test_a_car_keeps_its_curve_from_the_first_step_to_the_last(self):
        ramp = TwistRamp(LIMITS, "ackermann")
        for wish in [Twist2(0.5, 0.0, 0.4)] * 40 + [Twist2()] * 20:
            twist = ramp.step(wish, 0.02)
            assert twist.wz == pytest.approx(0.8 * twist.vx)
        for _ in range(20):
            twist = ramp.step(Twist2(-0.3, 0.0, 0.3), 0.02)
            assert twist.wz == pytest.approx(-twist.vx)
        ramp.step(Twist2(), 1.0)
        assert ramp.resting

    def test_a_turning_holonomic_base_keeps_its_velocity_over_ground(self):
        ramp = TwistRamp(LIMITS, "holonomic")
        ramp.twist, yaw = Twist2(0.4, 0.0, 2.0), 0.0
        for _ in range(50):
            yaw += ramp.twist.wz * 0.02
            wish = Twist2(0.4 * math.cos(yaw), -0.4 * math.sin(yaw), 2.0)
            assert ramp.step(wish, 0.02) == pytest.approx(wish)

    def test_it_gets_there_and_time_that_stands_changes_nothing(self):
        ramp, wish = TwistRamp(LIMITS), Twist2(0.3, -0.2, 1.0)
        for _ in range(100):
            ramp.step(wish, 0.02)
        assert ramp.twist == pytest.approx(wish)
        assert ramp.step(Twist2(), 0.0) == pytest.approx(wish)
        assert not ramp.resting


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_limits(bad):
    with pytest.raises(InvalidConfig, check=about("max_velocity")):
        MotionLimits(**{**vars(LIMITS), "max_velocity": bad})


def test_speed_in_curves():
    assert LIMITS.velocity_in_curve(0.0) == 0.5
    assert LIMITS.velocity_in_curve(-8.0) == pytest.approx(0.25)
    assert LIMITS.velocity_in_curve(2.0) == pytest.approx(0.5)
    assert LIMITS.velocity_in_curve(50.0) == pytest.approx(0.04)


class TestGoal:
    tolerance = GoalTolerance(xy=0.1, yaw=0.2)

    def test_position_and_heading_each_count(self):
        goal = Pose2(1.0, 2.0, 3.1)
        assert self.tolerance.reached(Pose2(1.05, 2.0, 3.1), goal)
        assert not self.tolerance.reached(Pose2(1.2, 2.0, 3.1), goal)
        assert not self.tolerance.reached(Pose2(1.0, 2.0, 2.8), goal)

    def test_headings_are_compared_the_short_way_round(self):
        """Unlike in the source system."""
        assert self.tolerance.yaw_reached(Pose2(yaw=-3.1), Pose2(yaw=3.1))
        assert not self.tolerance.yaw_reached(Pose2(yaw=0.0), Pose2(yaw=math.pi))

    def test_any_heading(self):
        assert GoalTolerance(yaw=math.pi).yaw_reached(Pose2(), Pose2(yaw=math.pi))

    def test_how_far_it_missed(self):
        text = self.tolerance.miss(Pose2(), Pose2(0.3, 0.4, 1.0))
        assert text == "0.500 m (allowed 0.1) and 1.000 rad (allowed 0.2) from the goal"

    @pytest.mark.parametrize("name", ["xy", "yaw", "settle_time"])
    def test_bad_numbers(self, name):
        with pytest.raises(InvalidConfig, check=about(name)):
            GoalTolerance(**{name: 0.0})


def test_stopped():
    check = StoppedCheck(linear=0.02, angular=0.05)
    assert check.at_rest(Twist2(0.01, -0.01, 0.04))
    assert not check.at_rest(Twist2(0.015, 0.015, 0.0))
    assert not check.at_rest(Twist2(0.0, 0.0, -0.06))
    with pytest.raises(InvalidConfig, check=about("linear")):
        StoppedCheck(linear=math.nan)


class TestProgress:
    def test_a_base_that_stands_is_stuck_after_the_allowance(self):
        check = ProgressCheck(0.1, 0.3, 2.0)
        stuck = [check.stuck(Pose2(0.01 * (i % 2)), 0.5) for i in range(7)]
        assert stuck == [False] * 5 + [True] * 2

    @pytest.mark.parametrize("move", [Pose2(0.03), Pose2(yaw=0.1)])
    def test_moving_or_turning_is_progress(self, move):
        check = ProgressCheck(0.1, 0.3, 2.0)
        pose = Pose2()
        for _ in range(100):
            pose = pose.compose(move)
            assert not check.stuck(pose, 0.4)

    def test_a_new_task_begins_anew(self):
        check = ProgressCheck(0.1, 0.3, 2.0)
        for _ in range(4):
            check.stuck(Pose2(), 0.6)
        check.reset()
        assert not check.stuck(Pose2(), 0.6)

    def test_bad_numbers(self):
        with pytest.raises(InvalidConfig):
            ProgressCheck(0.1, 0.3, math.nan)
