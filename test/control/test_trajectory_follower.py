# SPDX-License-Identifier: Apache-2.0
"""Following a trajectory: time, scaling, tolerances with their special values."""

import numpy as np
import pytest

from motion_nodes.core.control.trajectory_follower import (
    FollowGoal,
    FollowStatus,
    ToleranceRequest,
    Tolerances,
    TrajectoryFollower,
)
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidCommand, UnknownJoint

JOINTS = ("a", "b")


def ramp(seconds=1.0):
    return JointTrajectory(
        JOINTS, np.array([0.0, seconds]), np.array([[0.0, 0.0], [1.0, -1.0]]), np.zeros((2, 2))
    )


def follower(path=0.1, goal=0.01, goal_time=0.0, delay=0.0):
    return TrajectoryFollower(
        FollowGoal(
            trajectory=ramp(),
            path=Tolerances.uniform(2, path),
            goal=Tolerances.uniform(2, goal),
            goal_time=goal_time,
        ),
        delay,
    )


def run(follow, measure, dt=0.01, limit=1000):
    for _ in range(limit):
        sample = follow.advance(dt)
        if sample is not None:
            position, velocity = measure(sample, follow.time)
            follow.evaluate(sample, position, velocity, dt)
        if follow.status.ended:
            return follow.status
    return follow.status


def test_a_perfect_robot_succeeds_at_the_end():
    follow = follower()
    assert run(follow, lambda s, t: (s.position, s.velocity)) is FollowStatus.SUCCEEDED
    assert follow.time == pytest.approx(1.0, abs=0.011)


def test_being_off_on_the_way_ends_it_and_names_the_joint():
    follow = follower()
    status = run(follow, lambda s, t: (np.add(s.position, (0.0, 0.2 * (t > 0.5))), s.velocity))
    assert status is FollowStatus.PATH_TOLERANCE_VIOLATED
    assert "position of joint b is off by 0.2, tolerance 0.1" in follow.text


def test_old_measurements_end_nothing_in_a_gap():
    """The reference moves on while no state arrives; the next one is judged again."""
    follow = follower(path=0.05, goal=0.01, goal_time=0.1)
    kept = np.zeros(2), np.zeros(2)
    for _ in range(30):
        follow.evaluate(follow.advance(0.01), *kept, 0.01, fresh=False)
    assert follow.status is FollowStatus.RUNNING
    sample = follow.advance(0.01)
    follow.evaluate(sample, sample.position, sample.velocity, 0.01)
    assert follow.status is FollowStatus.RUNNING
    follow.evaluate(follow.advance(0.01), *kept, 0.01)
    assert follow.status is FollowStatus.PATH_TOLERANCE_VIOLATED


def test_the_time_after_the_end_counts_in_a_gap_but_is_judged_by_a_new_measurement():
    late = follower(goal=0.01, goal_time=0.1)
    kept = np.zeros(2), np.zeros(2)
    for _ in range(150):
        late.evaluate(late.advance(0.01), *kept, 0.01, fresh=False)
    assert late.status is FollowStatus.RUNNING
    sample = late.advance(0.01)
    late.evaluate(sample, sample.position, sample.velocity, 0.01)
    assert late.status is FollowStatus.SUCCEEDED
    late = follower(goal=0.01, goal_time=0.1)
    for _ in range(150):
        late.evaluate(late.advance(0.01), *kept, 0.01, fresh=False)
    late.evaluate(late.advance(0.01), *kept, 0.01)
    assert late.status is FollowStatus.GOAL_TOLERANCE_VIOLATED


def test_without_goal_time_the_goal_may_take_as_long_as_it_takes():
    follow = follower(path=0.0)
    status = run(follow, lambda s, t: (s.position + 0.05 * (t < 6.0), s.velocity))
    assert status is FollowStatus.SUCCEEDED
    assert follow.time >= 6.0


def test_a_joint_that_still_moves_has_not_arrived():
    goal = FollowGoal(trajectory=ramp(), path=Tolerances.uniform(2, 0.0),
                      goal=Tolerances.of([0.01, 0.01], 0.02))  # fmt: skip
    follow = TrajectoryFollower(goal)
    status = run(follow, lambda s, t: (s.position, s.velocity + 0.05 * (t < 3.0)))
    assert status is FollowStatus.SUCCEEDED
    assert follow.time >= 3.0


def test_with_goal_time_being_late_ends_it():
    follow = follower(path=0.0, goal_time=0.5)
    status = run(follow, lambda s, t: (s.position + 0.05, s.velocity))
    assert status is FollowStatus.GOAL_TOLERANCE_VIOLATED
    assert "0.5 s after the end: position of joint a is off by 0.05" in follow.text


def test_a_delay_waits_and_a_negative_one_begins_inside():
    waiting = follower(delay=0.05)
    assert waiting.advance(0.02) is None
    assert waiting.status is FollowStatus.WAITING
    assert waiting.advance(0.04) is not None
    assert waiting.time == pytest.approx(0.01)
    late = follower(delay=-0.5)
    np.testing.assert_allclose(late.advance(0.0).position, [0.5, -0.5])


def test_speed_scaling_keeps_the_path_and_slows_it():
    full, half = follower(), follower()
    for _ in range(40):
        full.advance(0.01)
    for _ in range(80):
        sample = half.advance(0.01, scaling=0.5)
    here = full.advance(0.0)
    np.testing.assert_allclose(sample.position, here.position, atol=1e-12)
    np.testing.assert_allclose(sample.velocity, 0.5 * here.velocity, atol=1e-12)
    np.testing.assert_allclose(sample.acceleration, 0.25 * here.acceleration, atol=1e-12)


def test_zero_takes_the_default_and_minus_one_none():
    default = Tolerances.uniform(2, 0.1, 0.2)
    wished = default.requested(
        [ToleranceRequest("a", 0.0, -1.0), ToleranceRequest("b", -1.0, 0.5)], JOINTS
    )
    np.testing.assert_array_equal(wished.position, [0.1, np.inf])
    np.testing.assert_array_equal(wished.velocity, [np.inf, 0.5])
    np.testing.assert_array_equal(default.position, [0.1, 0.1])


def test_bad_tolerances_are_refused():
    default = Tolerances.uniform(2, 0.1)
    with pytest.raises(UnknownJoint):
        default.requested([ToleranceRequest("c")], JOINTS)
    with pytest.raises(InvalidCommand):
        default.requested([ToleranceRequest("a", np.nan)], JOINTS)
