# SPDX-License-Identifier: Apache-2.0
"""A stop stays on the path of its trajectory, and within the limits."""

from __future__ import annotations

import numpy as np
import pytest
from long_params import shortened
from trajectory.retime_limits import JERK, arm_limits, limits_of

from motion_nodes.core.control.active_commands import PathBrake
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.trajectory_follower import FollowGoal, FollowStatus, Tolerances
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.time_parameterization import retime

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
        assert arm.run.follower.status is FollowStatus.CANCELED
    elif how == "stop_all":
        arm.arbiter.stop_all("the stop")
        assert arm.run.follower.status is FollowStatus.ABORTED
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
    assert arm.run.follower.status is ended
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
