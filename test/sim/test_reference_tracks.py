# SPDX-License-Identifier: Apache-2.0
"""Stamped streams are interpolated; commands without a stamp act at once."""

from collections.abc import Callable

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.control.stream_resampler import ResamplerSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.sim.backend import MockWorld, RobotBackend, RobotPlacement, UnknownRobot
from motion_nodes.extras.sim.drive_targets import DriveMode, JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

both = pytest.mark.parametrize("backend", [MujocoWorld, MockWorld])
PERIOD, LATENCY = 0.004, 0.008  # [s]
ARM = 7
"""Number of streamed joints; the fingers have no command."""


def ns(t: float) -> int:
    return round(t * 1e9)


def arm(backend: type[RobotBackend], franka: Robot) -> RobotBackend:
    world = backend([RobotPlacement(franka, "arm")])
    world.set_resampling(ResamplerSettings(latency=LATENCY))
    return world


def only_arm(values: np.ndarray) -> np.ndarray:
    return np.concatenate((values, np.full(2, np.nan)))


def sine(t: float) -> tuple[np.ndarray, np.ndarray]:
    phases = np.arange(ARM)
    return 0.1 * np.sin(4.0 * t + phases), 0.4 * np.cos(4.0 * t + phases)


def stream(
    world: RobotBackend, home: np.ndarray, ticks: int, arrives: Callable[[int], int]
) -> tuple[np.ndarray, np.ndarray]:
    """Stream a sine; message k arrives in tick ``arrives(k)``. Return times and arm positions."""
    times, positions, sent = [], [], 0
    for tick in range(ticks):
        while sent <= tick and arrives(sent) <= tick:
            q, v = sine(sent * PERIOD)
            targets = JointTargets(only_arm(home[:ARM] + q), only_arm(v))
            world.stream("arm", targets, ns(sent * PERIOD))
            sent += 1
        for _ in range(2):
            world.advance(1, ns(world.time))
            times.append(world.time)
            positions.append(world.targets("arm").position[:ARM] - home[:ARM])
    return np.array(times), np.array(positions)


@both
def test_every_step_has_its_own_reference(backend, franka):
    times, positions = stream(arm(backend, franka), franka.home, 100, lambda k: k)
    led = times > LATENCY + PERIOD
    expected = np.array([sine(t - LATENCY)[0] for t in times[led]])
    np.testing.assert_allclose(positions[led], expected, atol=1e-6)


@both
def test_late_bunches_are_not_seen(backend, franka):
    """Messages that arrive in pairs are within the latency."""
    _, even = stream(arm(backend, franka), franka.home, 100, lambda k: k)
    _, bunched = stream(arm(backend, franka), franka.home, 100, lambda k: k + k % 2)
    np.testing.assert_allclose(even[10:], bunched[10:], atol=1e-9)


@both
def test_acceleration_stays_that_of_the_reference(backend, franka):
    _, positions = stream(arm(backend, franka), franka.home, 100, lambda k: k)
    second = np.abs(np.diff(positions[10:], 2, axis=0)) / 0.002**2
    assert second.max() < 1.05 * 0.1 * 4.0**2


@both
def test_without_stamp_and_with_effort_alone_it_is_at_once(backend, franka):
    world = arm(backend, franka)
    n = len(franka.home)
    world.command("arm", JointTargets(franka.home + 0.01 * (franka.home < 0)))
    np.testing.assert_array_equal(
        world.targets("arm").position, franka.home + 0.01 * (franka.home < 0)
    )
    world.stream("arm", JointTargets(effort=np.full(n, 0.5)), ns(5.0))
    np.testing.assert_array_equal(world.targets("arm").effort, 0.5)
    assert (world.targets("arm").mode == DriveMode.EFFORT).all()


def test_efforts_cover_the_latency(franka):
    world = arm(MockWorld, franka)
    efforts = JointTargets(effort=np.ones(9))
    world.stream("arm", efforts, ns(0.0))
    assert world.covered_ns() is None, "a covered time although the period is unknown"
    world.stream("arm", efforts, ns(PERIOD))
    assert world.covered_ns() == ns(PERIOD + LATENCY)
    world.stream("arm", efforts, ns(0.1))
    assert world.covered_ns() is None, "a covered time although the period exceeds the latency"
    world.stream("arm", efforts, ns(0.1 + PERIOD))
    world.command("arm", JointTargets(position=np.zeros(9)))
    assert world.covered_ns() is None, "a covered time although the stream has no joints"


def test_late_streams_end_until_their_next_sample(franka):
    world = arm(MockWorld, franka)
    n, still = 9, np.zeros(9)
    for velocity, resting in ((still, True), (np.full(n, 0.1), False)):
        world.reset()
        for k in range(3):
            world.stream("arm", JointTargets(franka.home, velocity), ns(k * PERIOD))
        covered = world.covered_ns()
        assert covered == ns(3 * PERIOD + LATENCY)
        world.end_late_streams(covered - 1, resting=resting)
        assert world.covered_ns() == covered, "it counted as late"
        world.end_late_streams(covered, resting=True)
        assert world.covered_ns() == (None if resting else covered)
        world.end_late_streams(covered, resting=False)
        assert world.covered_ns() is None
        world.stream("arm", JointTargets(franka.home, velocity), ns(3 * PERIOD))
        assert world.covered_ns() == covered + ns(PERIOD)


@both
def test_a_command_takes_joints_from_their_stream(backend, franka):
    world = arm(backend, franka)
    stream(world, franka.home, 20, lambda k: k)
    held = franka.home.copy()
    held[0] = 0.3
    world.command("arm", JointTargets(np.where(np.arange(len(held)) == 0, held, np.nan)))
    before = world.targets("arm").position
    world.advance(4, ns(world.time))
    after = world.targets("arm").position
    assert after[0] == 0.3
    assert np.all(after[1:ARM] != before[1:ARM]), "the others stopped"


@both
def test_two_streams_share_a_robot(backend, franka):
    world = arm(backend, franka)
    n = len(franka.home)
    first, second = (np.arange(n) < 3), (np.arange(n) >= 3) & (np.arange(n) < 6)
    for k in range(10):
        for mask, rate in ((first, 0.1), (second, -0.2)):
            q = np.where(mask, franka.home + rate * k * PERIOD, np.nan)
            v = np.where(mask, rate, np.nan)
            world.stream("arm", JointTargets(q, v), ns(k * PERIOD))
        world.advance(2, ns(world.time))
    way = world.targets("arm").position - franka.home
    t = world.time - LATENCY
    np.testing.assert_allclose(
        way, np.where(first, 0.1, np.where(second, -0.2, 0.0)) * t, atol=1e-9
    )


@both
def test_a_stream_that_ends_is_released(backend, franka):
    world = arm(backend, franka)
    velocity = only_arm(np.full(ARM, 0.1))
    world.stream("arm", JointTargets(velocity=velocity), 0)
    world.advance(100, 0)
    np.testing.assert_array_equal(world.targets("arm").velocity[:ARM], 0.1)
    assert world.release_stale("arm", 0.1)
    world.advance(10, ns(world.time))
    np.testing.assert_array_equal(world.targets("arm").velocity[:ARM], 0.0)


@both
def test_reset_forgets_streams(backend, franka):
    world = arm(backend, franka)
    stream(world, franka.home, 20, lambda k: k)
    world.reset()
    world.advance(20, 0)
    np.testing.assert_array_equal(world.targets("arm").position, franka.home)


@both
def test_a_bad_message_is_refused_whole(backend, franka):
    world = arm(backend, franka)
    bad = np.full(len(franka.home), 0.1)
    bad[2] = np.inf
    with pytest.raises(InvalidCommand, check=about("panda_joint3")):
        world.stream("arm", JointTargets(bad), 0)
    with pytest.raises(UnknownRobot, check=about("am")):
        world.stream("am", JointTargets(franka.home), 0)
    world.advance(20, 0)
    np.testing.assert_array_equal(world.targets("arm").position, franka.home)


@both
def test_time_may_run_faster_than_the_stamps(backend, franka):
    world = arm(backend, franka)
    for k in range(12):
        q, v = sine(k * PERIOD)
        world.stream(
            "arm", JointTargets(only_arm(franka.home[:ARM] + q), only_arm(v)), ns(k * PERIOD)
        )
    # Twenty steps of 2 ms correspond to 20 ms of the stamps' clock.
    world.advance(20, 0, pace=2.0)
    q = world.targets("arm").position[:ARM] - franka.home[:ARM]
    np.testing.assert_allclose(q, sine(0.020 - LATENCY)[0], atol=1e-6)
