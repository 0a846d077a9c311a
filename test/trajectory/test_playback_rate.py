# SPDX-License-Identifier: Apache-2.0
"""Playback rate of trajectories that exceed limits between points: closed forms, execution."""

from __future__ import annotations

import numpy as np
import pytest
from trajectory.retime_limits import ACCELERATION, JERK, VELOCITY, arm_limits, limits_of

from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.trajectory_follower import FollowGoal, FollowStatus, Tolerances
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.core.trajectory.trajectory_checks import MIN_RATE, playback_rate

DT = 0.004


def rest_to_rest(distance: float, time: float, **more: np.ndarray) -> JointTrajectory:
    still = np.zeros((2, 1))
    return JointTrajectory(("joint1",), np.array([0.0, time]), np.array([[0.0], [distance]]),
                           still, **more)  # fmt: skip


@pytest.mark.parametrize("use", [0.5, 1.02, 1.2, 3.0])
def test_a_cubic_has_its_peaks_at_its_ends_and_in_its_middle(use):
    distance, time = 0.4, 0.8
    # Accelerations of +-6 d / T^2 at the ends, a velocity of 1.5 d / T in the middle.
    by_acceleration = limits_of(100.0, 6.0 * distance / time**2 / use)
    by_velocity = limits_of(1.5 * distance / time / use, np.inf)
    slow = use if use > 1.03 else 1.0
    trajectory = rest_to_rest(distance, time)
    expected = slow**-0.5
    assert playback_rate(trajectory, by_acceleration) == pytest.approx(expected, rel=1e-9)
    expected = 1.0 / use if 1.0 < use <= 1.0 / MIN_RATE else 1.0
    assert playback_rate(trajectory, by_velocity) == pytest.approx(expected, rel=1e-9)


def test_a_quintic_has_its_peak_of_acceleration_inside():
    distance, time = 0.4, 0.8
    trajectory = rest_to_rest(distance, time, accelerations=np.zeros((2, 1)))
    peak = 10.0 / np.sqrt(3.0) * distance / time**2
    assert playback_rate(trajectory, limits_of(9.0, peak / 1.5)) == pytest.approx(
        1.5**-0.5, rel=0.01
    )


def test_what_does_not_begin_at_rest_or_has_no_velocities_is_not_slowed_down():
    limits = limits_of(1.0, 1.0)
    moving = JointTrajectory(("joint1",), [0.0, 0.1], [[0.0], [0.1]], [[1.0], [0.0]])
    lines = JointTrajectory(("joint1",), [0.0, 0.1], [[0.0], [0.1]])
    for trajectory in (moving, lines, rest_to_rest(0.1, 0.01)):
        assert playback_rate(trajectory, limits) == 1.0


@pytest.mark.long
@pytest.mark.parametrize("step", [0.1, 0.02])
@pytest.mark.parametrize("seed", range(6))
def test_time_optimal_trajectories_sampled_coarsely_are_executed_along_their_path(seed, step):
    """As from MoveIt at full velocity: bang-bang accelerations, points every 0.1 s."""
    rng = np.random.default_rng(seed)
    waypoints, limits = rng.uniform(-2.0, 2.0, (rng.integers(2, 6), 7)), arm_limits(JERK)
    blending = CornerBlending(0.05)
    motion = retime(waypoints, limits_of(VELOCITY, ACCELERATION), blending=blending)
    times = motion.sample_times(step)
    q, v, a, _ = motion.states(times)
    v[0] = v[-1] = a[-1] = 0.0
    trajectory = JointTrajectory(motion.joint_names, times, q, v, a)
    rate = playback_rate(trajectory, limits)
    assert MIN_RATE <= rate < 1.0
    controller = ArticulationController(limits)
    controller.reset(waypoints[0])
    arbiter = JointArbiter(controller)
    none = Tolerances.uniform(7, 0.0)
    run = arbiter.start(FollowGoal(trajectory=trajectory, path=none, goal=none, rate=rate), "")
    steps = 0
    while run.follower.status is not FollowStatus.SUCCEEDED:
        reference = arbiter.step(DT, controller.reference(np.arange(7)).position, np.zeros(7))
        assert run.sample is not None
        np.testing.assert_allclose(reference.positions, run.sample.position, atol=1e-6)
        steps += 1
    assert steps * DT == pytest.approx(trajectory.end_time / rate, abs=2 * DT)


def test_predicted_references_are_played_at_the_rate():
    trajectory, rate = rest_to_rest(0.4, 0.8), 0.75
    controller = ArticulationController(limits_of(9.0, 9.0))
    controller.reset(np.zeros(1))
    arbiter, none = JointArbiter(controller), Tolerances.uniform(1, 0.0)
    arbiter.start(FollowGoal(trajectory=trajectory, path=none, goal=none, rate=rate), "")
    ahead, there = arbiter.reference_in(0.4), trajectory.sample(0.4 * rate)
    np.testing.assert_allclose(ahead.position, there.position)
    np.testing.assert_allclose(ahead.velocity, rate * there.velocity)
    np.testing.assert_allclose(ahead.acceleration, rate**2 * there.acceleration)
