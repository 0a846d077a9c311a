# SPDX-License-Identifier: Apache-2.0
"""Trajectories on the articulation controller: exact where feasible, holders, preemption."""

import dataclasses

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.control.active_trajectories import (
    FollowGoal,
    FollowStatus,
    Tolerances,
    TrajectorySettings,
)
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import ControlMode, JointCommand
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.splice import point_to_point, replacement, splice
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint

JOINTS = ("a", "b", "c")
DT = 0.004


def limits():
    ones = np.ones(3)
    return JointLimits(JOINTS, -3 * ones, 3 * ones, 2 * ones, 50 * ones, 8 * ones, 1000 * ones)


@pytest.fixture
def runner():
    controller = ArticulationController(limits())
    controller.reset(np.zeros(3))
    return JointArbiter(controller)


def smooth(names=JOINTS, end=1.0, seconds=2.0, start=None):
    """Return a rest-to-rest quintic."""
    n = len(names)
    first = np.zeros(n) if start is None else np.asarray(start)
    return JointTrajectory(
        tuple(names),
        np.array([0.0, seconds]),
        np.array([first, first + end]),
        np.zeros((2, n)),
        np.zeros((2, n)),
    )


def goal(trajectory, path=0.0, tolerance=1e-6):
    n = len(trajectory.joint_names)
    return FollowGoal(
        trajectory=trajectory,
        path=Tolerances.uniform(n, path),
        goal=Tolerances.uniform(n, tolerance),
    )


def run(runner, seconds, scaling=1.0):
    """Step with a robot that follows exactly; return the references, shape (k, n)."""
    position, velocity = runner.controller.reference(np.arange(3))[:2]
    path = []
    runner.scaling = scaling
    for _ in range(round(seconds / DT)):
        runner.step(DT, position, velocity)
        position, velocity = runner.controller.reference(np.arange(3))[:2]
        path.append(position)
    return np.array(path)


def test_a_feasible_trajectory_is_followed_to_the_bit(runner):
    trajectory = smooth()
    started = runner.start(goal(trajectory), "me")
    path = run(runner, 1.999)
    wanted = [trajectory.sample(DT * (k + 1)).position for k in range(len(path))]
    np.testing.assert_allclose(path, wanted, atol=1e-12)
    run(runner, 0.1)
    assert started.status is FollowStatus.SUCCEEDED
    assert runner.runs == []
    np.testing.assert_allclose(runner.controller.targets.positions, 1.0)


def test_an_infeasible_one_is_led_after_within_the_limits(runner):
    corner = JointTrajectory(JOINTS, [0.0, 1.0, 2.0], np.array([[0.0] * 3, [1.0] * 3, [0.0] * 3]))
    runner.start(goal(corner), "me")
    path = run(runner, 3.0)
    speed = np.diff(path, axis=0) / DT
    assert np.abs(speed).max() <= 2.0 + 1e-9
    assert np.abs(np.diff(speed, axis=0) / DT).max() <= 8.0 * 1.01
    np.testing.assert_allclose(path[-1], 0.0, atol=1e-6)


def test_partial_joints_leave_the_others(runner):
    runner.command(JointCommand(names=["c"], positions=[0.5]), "stream")
    runner.start(goal(smooth(["b"])), "me")
    path = run(runner, 2.5)
    np.testing.assert_allclose(path[-1], [0.0, 1.0, 0.5], atol=1e-6)


def test_a_newcomer_takes_only_what_it_needs_and_the_loser_knows_to_whom(runner):
    first = runner.start(goal(smooth(["a", "b"])), "first")
    other = runner.start(goal(smooth(["c"])), "other")
    run(runner, 0.5)
    assert runner.runs == [first, other]
    second = runner.start(goal(smooth(["b"], start=[0.0])), "second")
    assert first.status is FollowStatus.PREEMPTED
    assert first.text == "preempted by second"
    assert runner.runs == [other, second]
    path = run(runner, 3.0)
    assert second.status is FollowStatus.SUCCEEDED
    assert other.status is FollowStatus.SUCCEEDED
    assert np.ptp(path[-100:, 0]) == 0.0
    assert 0.0 < path[-1, 0] < 1.0


def test_a_command_preempts_a_trajectory_of_its_joint(runner):
    first = runner.start(goal(smooth()), "first")
    run(runner, 0.3)
    runner.command(JointCommand(names=["a"], positions=[0.1]), "~/reference")
    assert first.text == "preempted by ~/reference"
    path = run(runner, 3.0)
    assert path[-1, 0] == pytest.approx(0.1)


def test_a_refused_command_preempts_nothing(runner):
    first = runner.start(goal(smooth()), "first")
    with pytest.raises(InvalidCommand):
        runner.command(JointCommand(names=["a"], positions=[99.0]), "bad")
    assert first in runner.runs


def test_splicing_from_a_moving_reference_does_not_jump(runner):
    runner.start(goal(smooth()), "first")
    run(runner, 1.0)
    before = runner.controller.reference(np.arange(3))
    assert before.velocity[0] > 0.5
    late = JointTrajectory(JOINTS, [1.5], np.full((1, 3), -0.5), np.zeros((1, 3)), np.zeros((1, 3)))
    second = runner.start(goal(late), "second")
    path = np.vstack([before.position, run(runner, 2.0)])
    speed = np.diff(path, axis=0) / DT
    assert np.abs(speed[0] - before.velocity).max() <= 8.0 * DT * 1.01
    assert np.abs(np.diff(speed, axis=0) / DT).max() <= 8.0 * 1.01
    assert second.status is FollowStatus.SUCCEEDED


def test_a_changed_trajectory_continues_the_running_one(runner):
    """One that began in the past, on the running one, is entered at the current reference."""
    runner.start_tolerance = 0.01
    running = smooth()
    first = runner.start(goal(running), "first")
    run(runner, 1.0)
    follow = runner.controller.limits
    leave = running.sample(1.2)
    following = point_to_point(leave.position, np.full(3, 0.2), follow)
    motion = splice(running, 1.2, following, follow)
    changed = replacement(running, 0.9, 1.2, motion, 0.01)
    before = runner.controller.reference(np.arange(3))
    with pytest.raises(InvalidCommand):
        runner.start(goal(changed), "too early", delay=0.0)
    assert first.status is FollowStatus.RUNNING
    second = runner.start(goal(changed), "second", delay=-0.1)
    path = np.vstack([before.position, run(runner, 3.0)])
    times = 1.0 + DT * np.arange(len(path))
    kept = times < 1.2
    wanted = [running.sample(t).position for t in times[kept]]
    np.testing.assert_allclose(path[kept], wanted, atol=1e-9)
    speed = np.diff(path, axis=0) / DT
    assert np.abs(np.diff(speed, axis=0) / DT).max() <= 8.0 * 1.01
    assert second.status is FollowStatus.SUCCEEDED
    np.testing.assert_allclose(path[-1], 0.2, atol=1e-6)


def test_cancel_brakes_within_limits_and_holds(runner):
    first = runner.start(goal(smooth()), "first")
    run(runner, 1.0)
    runner.cancel(first, "taken back")
    assert first.status is FollowStatus.CANCELED
    path = run(runner, 1.0)
    assert np.abs(np.diff(np.diff(path, axis=0), axis=0)).max() / DT**2 <= 8.0 * 1.01
    assert np.ptp(path[-50:], axis=0).max() == 0.0


def test_a_robot_that_is_off_ends_it_and_stops(runner):
    first = runner.start(goal(smooth(), path=0.05), "first")
    for _ in range(200):
        runner.step(DT, np.array([0.0, 0.0, 9.0]), np.zeros(3))
    assert first.status is FollowStatus.PATH_TOLERANCE_VIOLATED
    assert "joint c" in first.text
    assert first not in runner.runs


def test_scaling_stretches_time(runner):
    trajectory = smooth()
    runner.start(goal(trajectory), "me")
    path = run(runner, 1.0, scaling=0.5)
    np.testing.assert_allclose(path[-1], trajectory.sample(0.5).position, atol=1e-9)
    still = run(runner, 0.5, scaling=0.0)
    assert np.ptp(still[-20:], axis=0).max() < 1e-9


def test_what_cannot_be_started_is_told_and_changes_nothing(runner):
    with pytest.raises(UnknownJoint, check=about("d")):
        runner.start(goal(smooth(["d"])), "me")
    with pytest.raises(InvalidCommand):
        runner.start(goal(smooth(end=5.0, seconds=60.0)), "me")
    runner.start_tolerance = 0.1
    with pytest.raises(InvalidCommand):
        runner.start(goal(smooth(start=[0.5] * 3, end=0.1)), "me")
    runner.controller.switch_mode(ControlMode.VELOCITY, ["b"])
    with pytest.raises(InvalidCommand):
        runner.start(goal(smooth()), "me")
    assert runner.runs == []
    fresh = JointArbiter(ArticulationController(limits()))
    with pytest.raises(MotionError, match="state.*known"):
        fresh.start(goal(smooth()), "me")


def test_a_first_point_timed_by_the_measured_way_is_taken(runner):
    """The reference is slightly farther away than the measured position; limits still hold."""
    runner.start_tolerance = 0.1
    seconds = 1.0
    point = JointTrajectory(("a",), np.array([seconds]), np.array([[2.05 * seconds]]))
    path = start_and_run(runner, point, 3.0)
    assert path[-1] == pytest.approx(2.05)
    assert np.abs(np.diff(path)).max() <= 2.0 * DT * (1 + 1e-6)
    too_far = JointTrajectory(("b",), np.array([seconds]), np.array([[2.15 * seconds]]))
    with pytest.raises(InvalidCommand):
        runner.start(goal(too_far), "a test")


def start_and_run(runner, trajectory, seconds):
    """Start a trajectory of joint a; return its references, shape (k,)."""
    runner.start(goal(trajectory), "a test")
    position, velocity = runner.controller.reference(np.arange(3))[:2]
    path = [position[0]]
    for _ in range(round(seconds / DT)):
        runner.step(DT, position, velocity)
        position, velocity = runner.controller.reference(np.arange(3))[:2]
        path.append(position[0])
    return np.array(path)


def test_a_command_takes_only_joints_that_it_says_something_of(runner):
    run_b = runner.start(goal(smooth(("b",))), "of b")
    runner.command(JointCommand(positions=[0.1, np.nan, np.nan]), "of a")
    assert not run_b.status.ended
    runner.command(JointCommand(positions=[np.nan, 0.1, np.nan]), "of b too")
    assert run_b.text == "preempted by of b too"


def test_what_the_controller_gives_up_is_aborted_not_canceled(runner):
    first = runner.start(goal(smooth(("a",))), "a test")
    runner.abort_all("the robot was lost")
    assert first.status is FollowStatus.ABORTED
    assert first.text == "the robot was lost"


def test_progress_is_of_one_moment(runner):
    first = runner.start(goal(smooth(("a",))), "a test")
    assert first.progress is None
    runner.step(DT, np.array([0.5, 0.0, 0.0]), np.full(3, 0.25))
    before = first.progress
    assert (before.time, before.position[0], before.velocity[0]) == (DT, 0.5, 0.25)
    np.testing.assert_array_equal(
        before.desired.position, first.goal.trajectory.sample(DT).position
    )
    runner.step(DT, np.zeros(3), np.zeros(3))
    assert before.time == DT, "progress objects do not change"


def test_an_effort_bound_holds_until_somebody_takes_the_joint(runner):
    claim = runner.claim(JointCommand(names=["b", "c"], positions=[0.1, 0.1]), "grip", 20.0)
    np.testing.assert_array_equal(runner.effort_bounds, [np.inf, 20.0, 20.0])
    runner.release(claim, stop=False)
    runner.command(JointCommand(names=["a"], positions=[0.2]), "stream")
    np.testing.assert_array_equal(runner.effort_bounds, [np.inf, 20.0, 20.0])
    runner.command(JointCommand(names=["b"], positions=[0.2]), "stream")
    np.testing.assert_array_equal(runner.effort_bounds, [np.inf, np.inf, 20.0])
    runner.abort_all("the robot was lost")
    assert runner.effort_bounds[2] == 20.0, "the effort bound survives an abort"
    runner.start(goal(smooth(["c"], start=[0.0])), "me")
    assert np.isinf(runner.effort_bounds).all()


def test_a_refused_command_leaves_the_bounds(runner):
    runner.claim(JointCommand(names=["b"], positions=[0.1]), "grip", 20.0)
    with pytest.raises(InvalidCommand):
        runner.claim(JointCommand(names=["b"], positions=[9.0]), "grip")
    assert runner.effort_bounds[1] == 20.0


def test_limits_are_looked_at_again_only_where_they_changed_since(runner):
    fast = JointTrajectory(("a",), np.array([0.0, 1.0]), np.array([[0.0], [1.9]]))
    looked = dataclasses.replace(goal(fast), within=runner.controller.limits)
    runner.start(looked, "me")
    tighter = dataclasses.replace(limits(), velocity=np.full(3, 0.5))
    runner.controller.set_limits(tighter)
    with pytest.raises(InvalidCommand):
        runner.start(looked, "me")


def test_joints_outside_their_limits_are_moved_back_as_slowly_as_the_trajectory_says(runner):
    outside = np.array([3.04, 0.0, -3.03])
    controller = runner.controller
    controller.reset(outside)
    back = JointTrajectory(
        JOINTS,
        np.array([0.0, 2.0]),
        np.array([outside, [2.99, 0.0, -2.99]]),
        np.zeros((2, 3)),
        np.zeros((2, 3)),
    )
    started = runner.start(goal(back), "recovery")
    path = run(runner, 2.1)
    assert started.status is FollowStatus.SUCCEEDED
    assert np.abs(np.diff(path, axis=0)).max() / DT < 0.06
    excess = np.maximum(np.abs(path) - 3.0, 0.0)
    assert (np.diff(excess, axis=0) <= 1e-9).all()
    np.testing.assert_allclose(path[-1], back.positions[-1], atol=1e-9)


@pytest.mark.parametrize(
    "rows",
    [
        [[3.04, 0.0, 0.0], [3.05, 0.0, 0.0], [2.9, 0.0, 0.0]],  # further outside
        [[3.04, 0.0, 0.0], [2.9, 0.0, 0.0], [3.02, 0.0, 0.0]],  # outside again
        [[3.04, 0.0, 0.0], [3.03, 0.0, 0.0], [3.02, 0.0, 0.0]],  # not inside at the end
        [[3.2, 0.0, 0.0], [2.9, 0.0, 0.0], [2.8, 0.0, 0.0]],  # too far
        [[2.9, 0.0, 0.0], [3.02, 0.0, 0.0], [2.9, 0.0, 0.0]],  # inside to begin with
    ],
)
def test_no_other_trajectory_outside_limits_is_accepted(runner, rows):
    runner.controller.reset(np.array(rows[0]))
    with pytest.raises(InvalidCommand, check=about("positions")):
        runner.start(goal(JointTrajectory(JOINTS, [0.0, 1.0, 2.0], np.array(rows))), "me")


def test_a_return_from_outside_begins_where_the_joints_are(runner):
    rows = np.array([[3.04, 0.0, 0.0], [2.9, 0.0, 0.0]])
    runner.controller.reset(np.array([2.95, 0.0, 0.0]))
    with pytest.raises(InvalidCommand, check=about("return")):
        runner.start(goal(JointTrajectory(JOINTS, [0.0, 1.0], rows)), "me")


def test_joints_that_a_new_trajectory_omits_follow_the_old_one_if_wanted(runner):
    """Exactly, also through a second replacement; their goal is aborted as before."""
    runner.trajectories.settings = TrajectorySettings(continue_others=True)
    old = runner.start(goal(smooth()), "old")
    run(runner, 0.8)
    new = None
    here = runner.controller.reference(np.arange(3)).position
    for name, at in (("a", 0), ("b", 1)):
        hold = JointTrajectory((name,), np.array([1.0]), here[[at]][None], np.zeros((1, 1)))
        new = runner.start(goal(hold), f"new {name}")
        assert old.status is FollowStatus.PREEMPTED
    path = run(runner, 1.6)
    assert new is not None
    assert new.status is FollowStatus.SUCCEEDED
    np.testing.assert_allclose(path[-1], [here[0], here[1], 1.0], atol=1e-9)
    wanted = [smooth().sample(0.8 + DT * (k + 1)).position[2] for k in range(290)]
    np.testing.assert_allclose(path[:290, 2], wanted, atol=1e-12)


def test_joints_follow_the_old_trajectory_until_a_future_one_begins(runner):
    runner.trajectories.settings = TrajectorySettings(continue_others=True)
    runner.start(goal(smooth()), "old")
    run(runner, 0.6)
    back = JointTrajectory(JOINTS, np.array([1.5]), np.zeros((1, 3)), np.zeros((1, 3)))
    future = runner.start(goal(back), "future", delay=0.4)
    path = run(runner, 0.396)
    wanted = [smooth().sample(0.6 + DT * (k + 1)).position for k in range(len(path))]
    np.testing.assert_allclose(path, wanted, atol=1e-12)
    rest = run(runner, 1.6)
    assert future.status is FollowStatus.SUCCEEDED
    speeds = np.abs(np.diff(np.vstack([path, rest]), axis=0)) / DT
    assert np.abs(np.diff(speeds, axis=0)).max() / DT < 8.0
    np.testing.assert_allclose(rest[-1], 0.0, atol=1e-9)


def test_efforts_of_points_are_forwarded_and_end_with_the_trajectory(runner):
    t = np.array([0.5, 1.0])
    q = np.zeros((2, 3))
    efforts = np.array([[1.0, -2.0, 2000.0], [3.0, 0.0, 0.0]])
    trajectory = JointTrajectory(JOINTS, t, q, q, q, efforts)
    runner.start(goal(trajectory), "me")
    seen = []
    for _ in range(249):
        reference = runner.step(DT, np.zeros(3), np.zeros(3))
        seen.append(reference.efforts)
    times = DT * np.arange(1, 250)
    limit = limits().effort
    for joint in range(3):
        wanted = np.interp(times, [0.0, *t], [0.0, *efforts[:, joint]])
        np.testing.assert_allclose(
            np.array(seen)[:, joint], wanted.clip(-limit[joint], limit[joint]), atol=1e-9
        )
    for _ in range(5):
        reference = runner.step(DT, np.zeros(3), np.zeros(3))
    assert np.isnan(reference.efforts).all()


def test_a_stop_on_the_path_uses_the_decelerations_given(runner):
    runner.trajectories.settings = TrajectorySettings(decelerations=np.array([np.inf, 1.0, np.inf]))
    active = runner.start(goal(smooth()), "me")
    run(runner, 1.0)
    runner.cancel(active, "enough")
    speeds = np.diff(run(runner, 1.2), axis=0) / DT
    deceleration = -np.diff(speeds, axis=0).min() / DT
    assert 0.5 < deceleration < 1.01
    assert not runner.controller.moving


def test_a_command_timeout_ends_a_trajectory_that_does_not_arrive(runner):
    changed = dataclasses.replace(goal(smooth(seconds=2.0)), cmd_timeout=0.3)
    active = runner.start(changed, "me")
    for _ in range(round(2.28 / DT)):
        runner.step(DT, np.zeros(3), np.zeros(3))
    assert not active.status.ended
    for _ in range(round(0.05 / DT)):
        runner.step(DT, np.zeros(3), np.zeros(3))
    assert active.status is FollowStatus.GOAL_TOLERANCE_VIOLATED


def test_times_since_the_start_with_and_without_scaling(runner):
    active = runner.start(goal(smooth()), "me")
    run(runner, 1.0, scaling=0.5)
    assert active.time == pytest.approx(0.5)
    assert active.elapsed == pytest.approx(1.0)
    assert runner.trajectories.newest is active
    run(runner, 2.0)
    ended = active.elapsed
    run(runner, 0.4)
    assert active.elapsed == pytest.approx(ended + 0.4)
    runner.command(JointCommand(names=("a",), positions=[0.0]), "another")
    assert runner.trajectories.newest is None


def test_a_trajectory_may_begin_at_the_measured_state(runner):
    runner.trajectories.settings = TrajectorySettings(from_reference=False)
    measured = np.full(3, 0.02)
    runner.step(DT, measured, np.zeros(3))
    ahead = JointTrajectory(JOINTS, np.array([1.0]), np.ones((1, 3)), np.zeros((1, 3)))
    active = runner.start(goal(ahead), "me")
    begin = active.goal.trajectory.begin
    assert begin is not None
    np.testing.assert_array_equal(begin.position, measured)


def test_measured_positions_are_held_without_a_step(runner):
    """Joint a moves, b rests away from its reference, and so does c, which may push for ever."""
    runner.resync.never[2] = True
    runner.start(goal(smooth(("a",)), tolerance=0.0), "a")
    measured = np.array([0.0, 0.2, -0.1])
    rows, still = [], np.zeros(3)

    def step(k: int) -> None:
        measured[0] = rows[k - 5][0] if k > 5 else 0.0
        rows.append(runner.step(DT, measured.copy(), still).positions)

    for k in range(250):
        step(k)
    before = rows[-1][0]
    runner.take(JOINTS, "a reset")
    runner.hold_measured()
    for k in range(250, 1500):
        step(k)
    speeds = np.diff(rows, axis=0) / DT
    assert np.abs(speeds).max() <= 2.0 * (1.0 + 1e-9)
    assert np.abs(np.diff(speeds, axis=0)).max() / DT <= 8.0 * (1.0 + 1e-6)
    assert np.diff([row[0] for row in rows]).min() > -1e-9, "a stops ahead"
    np.testing.assert_allclose(rows[-1], measured, atol=1e-3)
    assert rows[-1][0] > before
