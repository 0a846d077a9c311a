# SPDX-License-Identifier: Apache-2.0
"""Following a trajectory, and the filtered actions of policies."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.control.action_filter import ActionFilter
from motion_nodes.core.control.active_trajectories import (
    FollowGoal,
    FollowStatus,
    ToleranceRequest,
    Tolerances,
    TrajectoryFollower,
)
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.online_trajectory import OnlineLimiter
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint

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


ROBOT = load_robot("xarm6")
LIMITS = ROBOT.limits
RATE, STEP = 30.0, 0.04
CYCLES = 8
"""Of the controller for each action."""


def started() -> ActionFilter:
    made = ActionFilter(LIMITS, RATE, check_step=STEP)
    made.start(ROBOT.named_state("ready"))
    return made


@given(st.lists(st.floats(-7.0, 7.0), min_size=6, max_size=6), st.floats(0.0, 10.0))
def test_actions_keep_position_and_velocity_limits(values, elapsed):
    made = started()
    before = ROBOT.named_state("ready")
    sent = made.propose(values, elapsed)
    assert LIMITS.within(sent.position, 1e-9)
    assert (np.abs(sent.velocity) <= LIMITS.velocity * (1.0 + 1e-9)).all()
    corners = np.vstack([before, sent.way])
    assert np.abs(np.diff(corners, axis=0)).max(initial=0.0) <= STEP + 1e-9
    # The path passes through the action, or begins at it.
    assert np.abs(corners - sent.position).max(axis=1).min() < 1e-9
    if np.abs(np.array(values) - sent.position).max() > 1e-3:
        assert sent.changes


@pytest.mark.parametrize("speed", [0.3, 1.0, 2.5])
def test_an_arm_comes_to_rest_within_the_checked_way(speed):
    """The controller's limiter follows the actions, until the last one is held."""
    made, limiter = started(), OnlineLimiter(LIMITS)
    position = ROBOT.named_state("ready").copy()
    limiter.reset(position)
    by_velocity = np.zeros(6, dtype=np.bool_)
    furthest, checked = -np.inf, -np.inf
    for k in range(60):
        wanted = position.copy()
        wanted[0] = speed * min(k, 30) / RATE
        sent = made.propose(wanted, 1.0 / RATE) if k <= 30 else made.hold()
        made.accept(sent)
        if len(sent.way):
            checked = max(checked, float(sent.way[:, 0].max()))
        for _ in range(CYCLES):
            limiter.step(by_velocity, sent.position, sent.velocity, 1.0 / (RATE * CYCLES))
            furthest = max(furthest, float(limiter.position[0]))
    assert limiter.velocity == pytest.approx(np.zeros(6), abs=1e-6)
    assert speed - 0.01 < furthest <= checked + 1e-3


def test_all_joints_are_slowed_down_alike():
    made, before = started(), ROBOT.named_state("ready")
    change = np.array([1.0, 0.5, 0.0, -0.25, 0.1, 0.0])
    sent = made.propose(before + change, 0.0)
    moved = sent.position - before
    assert moved / moved[0] == pytest.approx(change)
    assert "velocity limit" in sent.changes[0]


def test_what_it_does_not_accept():
    with pytest.raises(InvalidCommand):
        ActionFilter(LIMITS, RATE).propose(np.zeros(6), 0.0)
    made = started()
    for values in ([np.nan] * 6, [0.0] * 5, [[0.0] * 6]):
        with pytest.raises(InvalidCommand, check=about("an action")):
            made.propose(values, 0.0)
    for settings in ({"rate": 0.0}, {"rate": np.nan}, {"rate": 30.0, "speed": 1.5}):
        with pytest.raises(InvalidConfig):
            ActionFilter(LIMITS, **settings)


@pytest.mark.parametrize("unlimited", [("acceleration",), ("jerk",), ("acceleration", "jerk")])
def test_robots_without_limits_of_acceleration_or_jerk(unlimited):
    limits = replace(LIMITS, **dict.fromkeys(unlimited, np.full(6, np.inf)))
    made = ActionFilter(limits, RATE, check_step=STEP)
    made.start(ROBOT.named_state("ready"))
    wanted = ROBOT.named_state("ready").copy()
    wanted[0] += 0.05
    sent = made.propose(wanted, 1.0 / RATE)
    assert np.isfinite(sent.way).all()
    # One period passes until a hold is sent.
    assert sent.way[-1, 0] >= wanted[0] + sent.velocity[0] / RATE - 1e-9
