# SPDX-License-Identifier: Apache-2.0
"""One task at a time: results, stops, preemption; the base always comes to rest."""

import math

import numpy as np
import pytest
from base_navigation.rolling_base import DT, LIMITS, RollingBase

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import MotionOutcome, ProgressCheck
from motion_nodes.core.navigation.navigator import MotionResult, Navigator
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import GoToPose

FAR = Pose2(5.0, 0.0, 0.0)


class Failing:
    """Drives until it gives up."""

    outcome = MotionOutcome.MOVING
    text = "gave up"
    remaining = 1.0

    def step(self, pose, twist, dt):
        if pose.x > 0.3:
            self.outcome = MotionOutcome.FAILED
        return Twist2(0.4)


@pytest.fixture
def base():
    return RollingBase("differential", Pose2())


@pytest.fixture
def navigator():
    return Navigator(LIMITS)


def drive(navigator, base, seconds):
    """Step for ``seconds`` or until there is no task; return the twists."""
    twists = []
    for _ in range(int(seconds / DT)):
        twist = navigator.step(base.pose, base.odometry.twist, DT)
        if twist is None:
            break
        base.step(twist)
        twists.append(twist)
    return twists


def go(navigator, base, goal=FAR, label="a"):
    return navigator.start(GoToPose("differential", goal, LIMITS), label, base.odometry.twist)


def test_without_a_task_it_says_nothing(navigator, base):
    assert navigator.step(base.pose, Twist2(), DT) is None


def test_success_is_told_only_when_the_base_stands(navigator, base):
    task = go(navigator, base, Pose2(0.5, 0.0, 1.0))
    twists = drive(navigator, base, 30.0)
    assert task.ending is MotionResult.SUCCEEDED
    assert twists[-1] == Twist2()
    assert abs(base.odometry.twist.vx) < 0.02
    assert task.time == pytest.approx(len(twists) * DT)


@pytest.mark.parametrize("ending", [MotionResult.CANCELED, MotionResult.LOST])
def test_a_stop_brakes_within_the_limits_and_then_ends_the_task(navigator, base, ending):
    task = go(navigator, base)
    drive(navigator, base, 2.0)
    assert navigator.twist.vx == 0.5
    navigator.stop(ending, "why")
    navigator.stop(MotionResult.ABORTED, "too late")
    assert navigator.stopping
    assert not task.ended
    speeds = [twist.vx for twist in drive(navigator, base, 5.0)]
    assert np.diff(speeds).min() >= -LIMITS.max_deceleration * DT - 1e-9
    assert len(speeds) >= 0.5 / DT - 1
    assert (task.ending, task.text) == (ending, "why")
    assert navigator.task is None


def test_a_new_task_takes_over_without_a_stop(navigator, base):
    first = go(navigator, base)
    drive(navigator, base, 2.0)
    second = go(navigator, base, Pose2(5.0, 1.0, 0.0), "goal b")
    assert (first.ending, first.text) == (MotionResult.PREEMPTED, "preempted by goal b")
    assert min(twist.vx for twist in drive(navigator, base, 1.0)) > 0.4
    assert not second.ended


def test_a_new_task_during_a_stop_is_carried_out(navigator, base):
    go(navigator, base)
    drive(navigator, base, 2.0)
    navigator.stop(MotionResult.CANCELED, "")
    drive(navigator, base, 0.1)
    second = go(navigator, base, Pose2(2.0, 0.0, 0.0))
    drive(navigator, base, 30.0)
    assert second.ending is MotionResult.SUCCEEDED


def test_a_base_that_rolled_on_beyond_its_goal_comes_back(navigator, base):
    goal = Pose2(0.6, 0.0, 0.0)
    task = go(navigator, base, goal)
    while not navigator.stopping:
        base.step(navigator.step(base.pose, base.odometry.twist, DT))
    base.odometry.set_pose(0.9, 0.1, 0.2)
    drive(navigator, base, 60.0)
    assert task.ending is MotionResult.SUCCEEDED
    assert task.returns == 1
    assert base.pose.distance(goal) < 0.04


class NeverThere(Failing):
    """Arrives at its first step, and is off its goal once the base stands."""

    def step(self, pose, twist, dt):
        self.outcome = MotionOutcome.ARRIVED
        return Twist2()

    def still_there(self, pose):
        self.outcome = MotionOutcome.MOVING
        return False


def test_one_that_does_so_again_and_again_fails(navigator, base):
    task = navigator.start(NeverThere(), "a", Twist2())
    drive(navigator, base, 10.0)
    assert task.ending is MotionResult.FAILED
    assert "rolled on beyond its goal 4 times" in task.text


def test_a_motion_that_gives_up(navigator, base):
    task = navigator.start(Failing(), "a", Twist2())
    drive(navigator, base, 10.0)
    assert (task.ending, task.text) == (MotionResult.FAILED, "gave up")
    assert base.odometry.twist == Twist2()


def test_a_base_that_does_not_move_is_stuck(base):
    navigator = Navigator(LIMITS, progress=ProgressCheck(0.1, 0.3, 2.0))
    task = go(navigator, base)
    for _ in range(300):
        navigator.step(Pose2(), Twist2(), DT)
    assert task.ending is MotionResult.STUCK
    assert task.text == "no progress: less than 0.1 m and 0.3 rad in 2 s"
    assert 2.0 < task.time < 3.0


def test_a_base_that_rolls_on_does_not_hold_the_result_back(navigator):
    task = navigator.start(GoToPose("holonomic", FAR, LIMITS), "a", Twist2())
    navigator.stop(MotionResult.CANCELED, "")
    for _ in range(400):
        navigator.step(Pose2(), Twist2(0.3), DT)
    assert task.ended
    assert 3.0 < task.time < 4.5


def test_it_takes_up_a_base_that_moves_already(navigator, base):
    base.odometry.twist = Twist2(0.4, 0.0, 0.0)
    go(navigator, base)
    assert navigator.step(base.pose, base.odometry.twist, DT).vx == pytest.approx(0.42)


def test_abort_stands_at_once(navigator, base):
    task = go(navigator, base)
    drive(navigator, base, 1.0)
    navigator.abort(MotionResult.ABORTED, "time jumped")
    assert (task.ending, navigator.twist, navigator.task) == (MotionResult.ABORTED, Twist2(), None)


def test_a_stop_that_something_else_has_done(navigator, base):
    task = go(navigator, base)
    drive(navigator, base, 1.0)
    navigator.rest_at_once()
    assert not task.ended
    navigator.stop(MotionResult.CANCELED, "")
    navigator.rest_at_once()
    assert task.ending is MotionResult.CANCELED


def test_time_that_stands_changes_nothing(navigator, base):
    go(navigator, base)
    drive(navigator, base, 1.0)
    before = navigator.twist
    for _ in range(1000):
        assert navigator.step(base.pose, Twist2(), 0.0) == before


def test_time_remaining(navigator, base):
    assert navigator.time_remaining() == 0.0
    go(navigator, base)
    assert navigator.time_remaining() == 0.0
    drive(navigator, base, 2.0)
    left = base.pose.distance(FAR)
    assert navigator.time_remaining() == pytest.approx(left / 0.5, rel=0.05)
    assert math.isfinite(navigator.time_remaining())


def test_a_task_may_end_while_another_thread_asks(navigator):
    class EndsWhenAsked(Failing):
        @property
        def remaining(self):
            navigator.task = None
            return 1.0

    navigator.start(EndsWhenAsked(), "a", Twist2())
    assert navigator.time_remaining() > 0.0
    assert navigator.time_remaining() == 0.0
