# SPDX-License-Identifier: Apache-2.0
"""Stops: on the path of a trajectory, of all joints within limits, and the latched state."""

import itertools

import numpy as np
import pytest
from control.test_arbitration import DT as STEP
from control.test_arbitration import GOAL, JOINTS, Cell, Grip, PositionStream, Trajectory, limits
from long_params import shortened
from trajectory.retime_limits import JERK, arm_limits, limits_of

from motion_nodes.core.control.active_trajectories import (
    FollowGoal,
    FollowStatus,
    PathBrake,
    Tolerances,
)
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import STREAM_PAUSE
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.stop_state import MAX_REASON, MAX_TIME, RestTimer, StopState
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.errors import InvalidCommand

DT, EVERYTHING = 0.004, np.arange(7)
LIMITS = arm_limits(JERK)
NONE = Tolerances.uniform(7, 0.0)


def motion(seed: int) -> JointTrajectory:
    rng = np.random.default_rng(seed)
    waypoints = rng.uniform(-2.0, 2.0, (rng.integers(2, 6), 7))
    return retime(waypoints, LIMITS, blending=CornerBlending(0.05)).points(0.01)


class Arm:
    """Joints that follow their references exactly."""

    def __init__(self, trajectory: JointTrajectory) -> None:
        self.controller = ArticulationController(LIMITS)
        self.controller.reset(trajectory.positions[0])
        self.arbiter = JointArbiter(self.controller)
        goal = FollowGoal(trajectory=trajectory, path=NONE, goal=NONE)
        self.run = self.arbiter.start(goal, "a trajectory")
        self.positions: list[np.ndarray] = [trajectory.positions[0]] * 2

    def step(self) -> None:
        now = self.controller.reference(EVERYTHING)
        reference = self.arbiter.step(DT, now.position, now.velocity)
        self.positions.append(np.array(reference.positions))

    @property
    def moves(self) -> bool:
        return bool(self.controller.reference(EVERYTHING).velocity.any())


def stopped(seed: int, how: str) -> tuple[Arm, JointTrajectory, int]:
    """Return an arm stopped at a random time, its trajectory, and the number of steps before.

    Without a way to stop, it moves on.
    """
    trajectory = motion(seed)
    arm = Arm(trajectory)
    rng = np.random.default_rng(seed + 1000)
    count = int(rng.uniform(0.1, 0.9) * trajectory.end_time / DT)
    for _ in range(count):
        arm.step()
    if how == "cancel":
        arm.arbiter.cancel(arm.run, "canceled")
        assert arm.run.status is FollowStatus.CANCELED
    elif how == "stop_all":
        arm.arbiter.stop_all("the stop")
        assert arm.run.status is FollowStatus.ABORTED
    return arm, trajectory, count


def alone(velocity: np.ndarray) -> float:
    """Return the time of the slowest joint alone, at its acceleration and jerk limits [s]."""
    times = np.abs(velocity) / LIMITS.acceleration + LIMITS.acceleration / LIMITS.jerk
    return float(np.max(times))


@pytest.mark.long
@pytest.mark.parametrize("how", ["cancel", "stop_all"])
@pytest.mark.parametrize("seed", shortened(range(12), 3))
def test_it_stays_on_the_path_and_within_the_limits(seed, how):
    arm, trajectory, count = stopped(seed, how)
    begin = arm.controller.reference(EVERYTHING).velocity
    while arm.moves:
        arm.step()
    stop = np.array(arm.positions)
    assert (len(stop) - 2 - count) * DT <= 2.0 * alone(begin) + 0.05
    fine = np.array(
        [trajectory.sample(t).position for t in np.arange(0, trajectory.end_time, 5e-4)]
    )
    for q in stop[count::4]:
        assert np.abs(fine - q).max(axis=1).min() < 1.5e-3
    acceleration = np.diff(stop, n=2, axis=0) / DT**2
    assert np.max(np.abs(acceleration) / LIMITS.acceleration) <= 1.05
    for _ in range(10):
        arm.step()
    np.testing.assert_array_equal(arm.positions[-1], arm.positions[-9])


def test_a_newer_trajectory_takes_the_joints_of_a_stop():
    arm, _, _ = stopped(3, "cancel")
    arm.step()
    assert arm.arbiter.stops
    now = arm.controller.reference(EVERYTHING)
    there = JointTrajectory(
        arm.controller.joint_names, [2.0], [now.position + 0.1], np.zeros((1, 7))
    )
    arm.arbiter.start(FollowGoal(trajectory=there, path=NONE, goal=NONE), "another")
    assert not arm.arbiter.stops
    for _ in range(int(2.2 / DT)):
        arm.step()
    np.testing.assert_allclose(arm.positions[-1], now.position + 0.1, atol=1e-9)


@pytest.mark.parametrize("how", ["", "cancel"])
def test_what_is_aborted_by_a_fault_stops_at_once(how):
    """Each joint by its own limits, also if it was stopping along a path."""
    arm, _, _ = stopped(4, how)
    begin = arm.controller.reference(EVERYTHING).velocity
    assert np.abs(begin).max() > 0.1
    arm.arbiter.abort_all("the robot was lost")
    ended = FollowStatus.CANCELED if how else FollowStatus.ABORTED
    assert arm.run.status is ended
    assert not arm.arbiter.stops
    for _ in range(int(1.2 * alone(begin) / DT)):
        arm.step()
    assert not arm.moves
    acceleration = np.diff(np.array(arm.positions), n=2, axis=0) / DT**2
    assert np.max(np.abs(acceleration) / LIMITS.acceleration) <= 1.05


@pytest.mark.parametrize("j", [500.0, np.inf])
def test_one_joint_stops_as_fast_as_its_limits_allow(j):
    """Closed form: from v with a and j, v / a + a / j; along a line at constant velocity."""
    v, a = 2.0, 10.0
    line = JointTrajectory(("joint1",), [0.0, 2.0], [[0.0], [4.0]], [[v], [v]])
    brake = PathBrake(line, limits_of(v, a, j), 0.5, 1.0)
    speeds = []
    while not brake.ended:
        speeds.append(float(brake.step(1e-3).velocity[0]))
    assert len(speeds) * 1e-3 == pytest.approx(v / a + a / j, rel=0.08)
    slope = np.diff(speeds) / 1e-3
    assert np.abs(slope).max() <= a
    assert np.abs(np.diff(slope)).max() / 1e-3 <= 1.5 * j


def test_references_do_not_follow_a_state_that_is_not_known():
    """As with frozen states: the stop drops the return to the measured positions."""
    arm, _, _ = stopped(5, "stop_all")
    arm.arbiter.resync.drop(EVERYTHING)
    measured = arm.controller.reference(EVERYTHING).position - 0.1
    for _ in range(500):
        arm.arbiter.step(DT, measured, np.zeros(7), fresh=False)
    assert not arm.arbiter.runs
    assert np.abs(arm.controller.reference(EVERYTHING).position - measured).min() > 0.09


WHY = "stopped by /stop"


def speed(cell: Cell) -> np.ndarray:
    return cell.controller.reference(np.arange(3)).velocity


@pytest.mark.parametrize("kind", [Trajectory, PositionStream, Grip])
def test_joints_come_to_rest_within_their_limits_and_stay(kind):
    cell = Cell()
    given = kind(cell, 2.0 if kind is PositionStream else GOAL)
    given.begin()
    cell.run(0.3)
    assert abs(speed(cell)[0]) > 0.1
    cell.streaming.clear()
    cell.runner.stop_all(WHY)
    speeds = [speed(cell)]
    while cell.controller.moving:
        cell.run(STEP)
        speeds.append(speed(cell))
        assert len(speeds) < 200
    most = np.abs(np.diff(speeds, axis=0)).max() / STEP
    assert most <= limits().acceleration.max() * 1.001
    rested = cell.position
    cell.run(1.0)
    np.testing.assert_allclose(cell.position, rested, atol=1e-6)


def test_goals_are_aborted_with_the_reason():
    cell = Cell()
    trajectory, grip = Trajectory(cell, GOAL), Grip(cell, GOAL, ("c",))
    trajectory.begin()
    grip.begin()
    cell.run(0.1)
    cell.runner.stop_all(WHY)
    assert trajectory.run.status is FollowStatus.ABORTED
    assert trajectory.run.text == WHY
    assert not cell.runner.claims
    assert cell.runner.holders == (WHY,) * len(JOINTS)


def test_a_stream_from_before_counts_again_only_after_a_pause():
    cell = Cell()
    stream = PositionStream(cell, 0.9)
    stream.begin()
    cell.run(0.2)
    cell.runner.stop_all(WHY)
    cell.run(0.5)
    rested = cell.position
    stream.dropped = 0
    cell.run(0.5)
    assert stream.dropped > 10
    np.testing.assert_allclose(cell.position, rested, atol=1e-6)
    cell.streaming.clear()
    cell.run(STREAM_PAUSE + 2 * STEP)
    stream.dropped = 0
    stream.go_on()
    assert stream.dropped == 0


def test_what_is_gripped_stays_gripped():
    cell = Cell()
    command = Grip(cell, GOAL).command(GOAL)
    cell.runner.claim(command, "a grip", max_effort=12.0)
    cell.run(2.0)
    cell.runner.effort_bounds[1] = 5.0
    cell.runner.stop_all(WHY)
    assert cell.runner.effort_bounds[0] == 12.0
    assert np.isinf(cell.runner.effort_bounds[1])
    # An object is between the fingers: their reference continues to push.
    held = cell.position - [0.2, 0.0, 0.0]
    for _ in range(200):
        cell.runner.step(STEP, held, np.zeros(3))
    assert cell.position[0] == pytest.approx(GOAL, abs=1e-6)


def test_two_stops_and_one_resume():
    state = StopState().stop(100, "first").stop(200, "second")
    assert state.stopped
    assert state.reason == "first"
    assert not state.resume().stopped
    assert not state.resume().resume().stopped


def test_a_stop_after_a_resume_counts_whatever_the_clock_says():
    state = StopState().stop(1000, "a").resume()
    again = state.stop(5, "b")
    assert again.stopped
    assert again.reason == "b"


def test_late_and_repeated_messages_never_undo_a_stop():
    before = StopState()
    stopped = before.stop(10, "a")
    resumed = stopped.resume()
    again = resumed.stop(20, "b")
    for old in (before, stopped, resumed):
        assert again.merge(old) == again
        assert old.merge(again).stopped


def test_a_resume_covers_only_stops_that_it_knew_of():
    first = StopState().stop(10, "a")
    unknown = first.stop(20, "b")
    assert first.resume().merge(unknown).stopped
    assert unknown.merge(first.resume()).stopped


def test_copies_agree_in_whatever_order_they_are_merged():
    rng = np.random.default_rng(3)
    for _ in range(50):
        copies = [StopState()]
        for now in rng.integers(0, 1000, 3):
            some = copies[int(rng.integers(len(copies)))]
            copies.append(some.stop(int(now), "x") if rng.random() < 0.6 else some.resume())
        ends = set()
        for order in itertools.permutations(copies):
            merged = StopState()
            for copy in order:
                merged = merged.merge(copy)
            ends.add((merged.stopped_ns, merged.resumed_ns))
        assert len(ends) == 1


@pytest.mark.parametrize("times", [(1, 2), (-1, -1), (MAX_TIME + 1, 0), (0, -5)])
def test_impossible_times_are_refused(times):
    with pytest.raises(InvalidCommand):
        StopState(*times)


def test_a_stop_at_the_end_of_time_still_stops():
    assert StopState(MAX_TIME, MAX_TIME).stop(0, "late").stopped


def test_reasons_are_bounded():
    assert len(StopState().stop(1, "x" * 10_000).reason) == MAX_REASON
    assert len(StopState().merge(StopState(1, 0, "x" * 10_000)).reason) == MAX_REASON


def test_time_to_rest_is_that_of_the_last_motion():
    timer = RestTimer()
    timer.start(10.0)
    for i in range(40):
        now = 10.0 + 0.01 * i
        # Zero velocity for one sample of an oscillation.
        timer.update(now, still=i == 5 or i >= 20)
    assert timer.seconds == pytest.approx(0.2)
    assert not timer.waiting


def test_a_lost_robot_is_not_at_rest():
    timer = RestTimer()
    timer.start(0.0)
    for i in range(100):
        timer.update(0.01 * i, still=True, fault="no state")
    assert timer.waiting
    assert timer.fault == "no state"


def test_time_that_is_set_back_gives_no_negative_time():
    timer = RestTimer()
    timer.start(100.0)
    for i in range(50):
        timer.update(0.01 * i, still=i > 10)
    assert timer.seconds == pytest.approx(0.11)


def test_a_stop_that_is_known_already_changes_nothing():
    state = StopState().stop(10, "a").stop(20, "b")
    assert state.stop(20, "again") == state
    assert state.stop(10, "late") == state
    assert state.resume().stop(20, "repeated") == state.resume()
