# SPDX-License-Identifier: Apache-2.0
"""Rules of every driver: alignment, limits, silence, faults, resets, recovery."""

import math
import weakref

import numpy as np
import pytest
from hardware.scripted_driver import ScriptedDriver
from hardware.session_rig import BEGIN, MS, NONE, ROBOT, N, Rig

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.online_trajectory import OnlineLimiter
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionConfig, SessionState
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    LinkLost,
    RobotReading,
    show_motion,
)


@pytest.fixture
def rig():
    return Rig()


def test_enabled_where_the_references_are(rig):
    rig.run(0.2)
    assert rig.session.state is SessionState.ENABLED
    assert rig.driver.enabled
    assert np.abs(rig.sent() - ROBOT.home).max() < 1e-9


def test_not_enabled_away_from_the_references(rig):
    rig.offset[2] = 0.2
    rig.run(0.3)
    assert rig.session.state is SessionState.MONITORING
    assert ROBOT.joint_names[2] in rig.session.waiting
    assert not rig.driver.sent


@pytest.mark.parametrize("jitter", [0.0, 0.4])
@pytest.mark.parametrize("rate", [60.0, 100.0, 500.0])
def test_follows_with_the_latency(rate, jitter):
    rig = Rig(rate=rate)
    rig.run(0.2)
    rig.amplitude = 0.0
    rig.run(0.2)
    rig.amplitude, rig.offset = 0.3, rig.offset
    # The amplitude is changed where the cosine is 1, so the reference does not jump.
    while (rig.stamp - BEGIN) * 1e-9 % np.pi > 0.02:
        rig.amplitude = 0.0
        rig.run(0.004)
        rig.amplitude = 0.3
    rig.run(3.0, jitter=jitter)
    assert not rig.session.fault
    latency = rig.session.config.command_latency
    times, sent = np.array(rig.times[-100:]), rig.sent()[-100:]
    expected = np.array([rig.reference(t - BEGIN * 1e-9 - latency)[0] for t in times])
    assert np.abs(sent - expected).max() < 2e-3


def test_limits_hold_at_the_bus_whatever_comes():
    rig = Rig(SessionConfig(max_jump=10.0))
    rig.run(0.2)
    rng = np.random.default_rng(5)
    for _ in range(30):
        rig.offset = rng.uniform(-0.8, 0.8, N)
        rig.run(rng.uniform(0.02, 0.3))
    sent, dt = rig.sent(), 1.0 / rig.driver.rate
    velocity = np.diff(sent, axis=0) / dt
    acceleration = np.diff(velocity, axis=0) / dt
    limits = ROBOT.limits
    assert np.all(np.abs(velocity) <= limits.velocity * 1.001)
    assert np.all(np.abs(acceleration) <= limits.acceleration * 1.05)
    assert np.all((sent >= limits.lower - 1e-9) & (sent <= limits.upper + 1e-9))
    assert np.abs(np.diff(sent, axis=0)).max() > 0.02


def test_silence_brakes_and_the_stream_may_go_on(rig):
    rig.run(0.2)
    rig.run(0.5, silent=True)
    assert rig.session.state is SessionState.ENABLED
    assert "references" in rig.session.waiting
    assert np.ptp(rig.sent()[-10:], axis=0).max() == 0.0
    rig.run(0.2)
    assert rig.session.waiting == ""


def test_jump_holds_until_a_reset(rig):
    rig.run(0.2)
    rig.offset[1] = 0.5
    rig.run(0.3)
    assert rig.session.state is SessionState.HOLDING
    assert ROBOT.joint_names[1] in rig.session.fault
    assert rig.driver.held == 1
    assert np.abs(rig.sent()[-1] - ROBOT.home).max() < 0.1
    rig.offset[1] = 0.0
    rig.run(0.3)
    assert rig.session.state is SessionState.HOLDING
    rig.session.reset()
    rig.run(0.3)
    assert rig.session.state is SessionState.ENABLED


def test_a_late_cycle_is_no_jump():
    rig = Rig(SessionConfig(max_jump=0.01), rate=500.0)
    rig.run(math.pi)
    rig.amplitude = 0.6
    for _ in range(8):
        rig.run(0.13)
        rig.now += 45 * MS
    rig.run(0.3)
    assert (rig.session.state, rig.session.fault) == (SessionState.ENABLED, "")
    np.testing.assert_allclose(
        rig.sent()[-1], rig.reference(rig.times[-1] - 1e-9 * BEGIN)[0], atol=0.03
    )


def fast_motions(seconds: float) -> np.ndarray:
    """Return positions and velocities every 4 ms of motions at all limits, shape (n, 2, N)."""
    limiter, rows = OnlineLimiter(ROBOT.limits), []
    limiter.reset(ROBOT.home)
    none, rest = np.zeros(N, dtype=np.bool_), np.zeros(N)
    far = np.clip(ROBOT.home + 1.0, ROBOT.limits.lower, ROBOT.limits.upper)
    for k in range(round(seconds / 0.004)):
        goal = far if k % 400 < 200 else ROBOT.home
        limiter.step(none, goal, rest, 0.004)
        rows.append((limiter.position.copy(), limiter.velocity.copy()))
    return np.array(rows)


@pytest.mark.long
@pytest.mark.parametrize(("late", "copes"), [(0.0, True), (0.045, True), (0.12, False)])
def test_late_cycles_delay_fast_motions_and_overshoot_none(late, copes):
    rig = Rig()
    rows = fast_motions(6.0)
    begin = rig.stamp
    rig.reference = lambda t: tuple(rows[round((t - 1e-9 * (begin - BEGIN)) / 0.004)])  # type: ignore[method-assign]
    rng = np.random.default_rng(2)
    while rig.now < begin + 5_400 * MS:
        rig.run(rng.uniform(0.05, 0.4))
        rig.now += round(late * 1e9)
        while rig.stamp <= rig.now:  # Messages arrive meanwhile.
            q, v = rig.reference((rig.stamp - BEGIN) * 1e-9)
            rig.session.command(rig.stamp, rig.stamp, StreamSample(q, v, NONE))
            rig.stamp += 4 * MS
    assert rig.session.state is (SessionState.ENABLED if copes else SessionState.HOLDING)
    sent, path = rig.sent(), rows[:, 0]
    assert np.ptp(sent, axis=0).max() > 0.9
    assert (sent <= path.max(axis=0) + 5e-3).all()
    assert (sent >= path.min(axis=0) - 5e-3).all()


def test_references_that_run_away_are_a_fault():
    rig = Rig(SessionConfig(speed=0.02))
    rig.run(0.2)
    rig.amplitude = 0.6
    rig.run(2.0)
    assert rig.session.state is SessionState.HOLDING


def test_fault_of_the_robot_holds_and_can_be_reset_when_it_is_gone(rig):
    rig.run(0.2)
    rig.driver.faults = ("elbow_flex: overload",)
    rig.run(0.1)
    assert rig.session.state is SessionState.HOLDING
    assert rig.session.fault == "elbow_flex: overload"
    with pytest.raises(DriverFault, match="overload"):
        rig.session.reset()
    rig.driver.faults = ()
    rig.session.reset()
    rig.run(0.3)
    assert rig.session.state is SessionState.ENABLED


@pytest.mark.parametrize("kind", [DriverFault, LinkLost])
def test_a_robot_that_cannot_be_told_to_hold_waits_for_a_reset(rig, monkeypatch, kind):
    rig.run(0.2)

    def garbage(*_: object) -> None:
        raise kind("garbage")

    monkeypatch.setattr(rig.driver, "write", garbage)
    monkeypatch.setattr(rig.driver, "hold", garbage)
    rig.run(0.1)
    assert rig.session.state is not SessionState.ENABLED
    monkeypatch.undo()
    rig.run(0.1)
    assert "garbage" in rig.session.fault
    assert rig.session.state is not SessionState.ENABLED


def test_few_failed_reads_are_tolerated(rig):
    rig.run(0.2)
    rig.driver.broken = DriverFault
    rig.run(0.04)
    rig.driver.broken = None
    rig.run(0.1)
    assert rig.session.state is SessionState.ENABLED
    assert 3 <= rig.session.failed_reads <= 5
    rig.driver.broken = DriverFault
    rig.run(0.2)
    assert rig.session.state is SessionState.HOLDING
    assert rig.session.reading is None


def test_a_robot_that_does_not_follow_yet_needs_no_reset(rig):
    rig.driver.broken = DriverFault
    rig.run(0.3)
    rig.driver.broken, rig.driver.faults = None, ("voltage",)
    rig.run(1.2)
    assert rig.session.state is SessionState.MONITORING
    assert "voltage" in rig.session.waiting
    assert not rig.session.fault
    rig.driver.faults = ()
    rig.run(0.3)
    assert rig.session.state is SessionState.ENABLED


def test_lost_link_is_found_again_but_the_robot_waits_for_a_reset(rig):
    rig.run(0.2)
    rig.driver.broken = LinkLost
    rig.run(0.3)
    assert rig.session.state is SessionState.DISCONNECTED
    rig.driver.broken = None
    rig.run(1.5)
    assert rig.session.state is SessionState.MONITORING
    assert rig.session.fault
    with pytest.raises(InvalidCommand):
        rig.session.enable()
    rig.session.reset()
    rig.run(0.3)
    assert rig.session.state is SessionState.ENABLED


def test_dry_run_sends_nothing():
    rig = Rig(SessionConfig(dry_run=True))
    rig.run(0.5)
    assert rig.session.reading is not None
    assert not rig.driver.enabled
    assert not rig.driver.sent
    with pytest.raises(InvalidCommand):
        rig.session.enable()


def test_waits_for_a_request_unless_enabled_by_itself():
    rig = Rig(SessionConfig(auto_enable=False))
    rig.run(0.3)
    assert rig.session.state is SessionState.MONITORING
    rig.session.enable()
    rig.run(0.1)
    assert rig.session.state is SessionState.ENABLED
    rig.session.disable()
    rig.run(0.3)
    assert rig.session.state is SessionState.MONITORING


def test_speed_bounds_the_velocity():
    rig = Rig(SessionConfig(speed=0.1, max_jump=10.0))
    rig.run(0.2)
    rig.offset[:] = 0.5
    rig.run(0.5)
    velocity = np.abs(np.diff(rig.sent(), axis=0)) * rig.driver.rate
    assert np.all(velocity <= 0.1 * ROBOT.limits.velocity * 1.001)


def test_arm_outside_its_limits_moves_inwards_only():
    rig = Rig(SessionConfig(max_jump=10.0, enable_tolerance=1.0))
    over = ROBOT.limits.upper[0] + 0.1
    rig.driver.position[0] = over
    rig.offset[0] = over - ROBOT.home[0]
    rig.run(0.3)
    rig.offset[0] += 0.3
    rig.run(0.5)
    assert rig.sent()[:, 0].max() <= over + 1e-9
    rig.offset[0] = 0.0
    rig.run(2.0)
    assert rig.sent()[-1, 0] < ROBOT.limits.upper[0]


@pytest.mark.parametrize(
    ("stamp", "channel", "value"), [(-2000, 0, 0.0), (2000, 0, 0.0), (0, 2, 1.0)]
)
def test_commands_that_are_refused(rig, stamp, channel, value):
    channels = [NONE.copy() for _ in range(3)]
    channels[channel][:] = value
    with pytest.raises(InvalidCommand):
        rig.session.command(BEGIN, BEGIN + stamp * MS, StreamSample(*channels))


def test_wheels_are_driven_by_velocity_and_stopped_without_commands():
    robot = load_robot("jetbot")
    names = robot.base_joints
    driver = ScriptedDriver(names, np.zeros(2), rate=50.0)
    session = DriverSession(driver, robot.limits)
    none, wheel = np.full(2, np.nan), np.array([2.0, -1.0])
    for k in range(150):
        now = BEGIN + k * 20 * MS
        if k < 75:
            session.command(now, now, StreamSample(none, wheel, none))
        session.step(now)
    sent = np.array([sample.velocity for sample in driver.sent])
    assert np.isnan(driver.sent[-1].position).all()
    assert sent[60] == pytest.approx(wheel)
    assert sent[-1] == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("channel", ["position", "velocity"])
def test_measurements_that_are_not_finite_enable_nothing(rig, channel, bad, monkeypatch):
    def read() -> RobotReading:
        channels = {"position": ROBOT.home.copy(), "velocity": np.zeros(N)}
        channels[channel][2] = bad
        return RobotReading(**channels, effort=NONE)

    monkeypatch.setattr(rig.driver, "read", read)
    rig.run(0.3)
    assert rig.session.state is SessionState.MONITORING
    assert "not finite" in rig.session.waiting
    assert not rig.driver.enabled


def test_measurements_of_another_length_are_a_fault():
    with pytest.raises(DriverFault, match="shape"):
        RobotReading(np.zeros(6), np.zeros(5), np.zeros(6))


def test_a_reset_without_a_fault_does_not_disturb_the_motion(rig):
    rig.run(np.pi)
    rig.amplitude = 0.3
    rig.run(0.5)
    sent = len(rig.driver.sent)
    assert "no fault" in rig.session.reset()
    assert rig.session.state is SessionState.ENABLED
    rig.run(0.5)
    assert len(rig.driver.sent) == sent + 50
    assert rig.driver.cleared == 0


def test_an_arm_that_was_moved_while_disabled_is_enabled_there(rig):
    rig.run(0.3)
    rig.session.disable()
    rig.run(0.1)
    rig.offset[1] = 1.0
    rig.driver.position[1] += 1.0
    rig.run(0.3)
    rig.session.enable()
    rig.run(0.3)
    assert (rig.session.state, rig.session.fault) == (SessionState.ENABLED, "")


def test_a_dry_run_is_reset_without_touching_the_robot():
    rig = Rig(SessionConfig(dry_run=True))
    rig.run(0.1)
    rig.session.reset()
    rig.run(0.1)
    assert rig.driver.cleared == 0
    assert not rig.driver.enabled


@pytest.mark.parametrize("kind", [DriverFault, LinkLost])
def test_a_robot_that_cannot_be_disabled_does_not_follow(rig, kind, monkeypatch):
    rig.run(0.2)

    def refuse() -> None:
        raise kind("the motors stay on")

    monkeypatch.setattr(rig.driver, "disable", refuse)
    with pytest.raises(DriverFault):
        rig.session.disable()
    assert rig.session.state is not SessionState.ENABLED
    assert "the motors stay on" in rig.session.fault
    rig.run(0.2)
    assert rig.session.state is not SessionState.ENABLED


def test_drives_are_released_at_the_end_even_if_holding_fails(rig, monkeypatch):
    rig.run(0.2)

    def fail() -> None:
        raise DriverFault("no answer")

    monkeypatch.setattr(rig.driver, "hold", fail)
    rig.session.close(release=True)
    assert not rig.driver.enabled
    assert not rig.driver.connected


def test_a_closed_session_has_no_state_of_the_robot(rig):
    rig.run(0.2)
    rig.session.close()
    assert rig.session.reading is None
    rig.driver.broken = LinkLost
    rig.run(0.1)
    assert rig.session.reading is None


def test_efforts_are_fed_forward_while_the_references_are_followed():
    rig = Rig()
    rig.driver.modes = frozenset({"position", "velocity", "effort"})
    load = np.full(N, 0.7)
    for _ in range(40):
        rig.session.command(rig.now, rig.now, StreamSample(ROBOT.home, np.zeros(N), load))
        rig.session.step(rig.now)
        rig.now += 10 * MS
    assert rig.driver.sent[-1].effort == pytest.approx(load)
    rig.run(0.3, silent=True)
    assert np.isnan(rig.driver.sent[-1].effort).all()


def test_references_are_not_kept_without_a_robot(rig):
    rig.driver.broken = LinkLost
    kept = []
    for _ in range(500):
        position = ROBOT.home.copy()
        kept.append(weakref.ref(position))
        rig.session.command(rig.now, rig.now, StreamSample(position, np.zeros(N), NONE))
        rig.session.step(rig.now)
        rig.now += 4 * MS
    del position
    assert sum(ref() is not None for ref in kept) < 100


def test_references_from_before_a_lost_link_are_not_followed(rig):
    rig.run(0.3)
    rig.driver.broken = LinkLost
    rig.run(0.3)
    rig.driver.broken = None
    rig.session.reset()
    rig.run(0.05, silent=True)
    assert rig.session.state is SessionState.MONITORING
    rig.run(0.3)
    assert rig.session.state is SessionState.ENABLED


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_brakes_until_new_references(rig, hours):
    rig.run(0.3)
    rig.now += hours * 3_600_000 * MS
    rig.session.clock_jumped()
    rig.run(0.3, silent=True)
    assert (rig.session.state, rig.session.fault) == (SessionState.ENABLED, "")
    assert "references" in rig.session.waiting
    rig.run(0.3)
    assert (rig.session.waiting, rig.session.fault) == ("", "")


def test_a_clock_that_is_set_back_does_not_delay_the_connection():
    rig = Rig()
    rig.driver.broken = LinkLost
    rig.run(0.1)
    rig.driver.broken = None
    rig.now -= 3_600_000 * MS
    rig.session.clock_jumped()
    rig.run(0.1, silent=True)
    assert rig.session.state is SessionState.MONITORING


def test_efforts_alone_are_refused_by_every_driver(rig):
    rig.driver.modes = frozenset({"position", "effort"})
    with pytest.raises(InvalidCommand, match="effort"):
        rig.session.command(rig.now, rig.now, StreamSample(NONE, NONE, np.ones(N)))


def test_one_damaged_answer_does_not_end_the_display_of_motions(monkeypatch):
    driver = ScriptedDriver(ROBOT.joint_names, ROBOT.home)
    lines: list[str] = []
    moved = ROBOT.home.copy()
    moved[1] += 0.2
    answers = iter([ROBOT.home, DriverFault("checksum"), moved, KeyboardInterrupt()])

    def read() -> RobotReading:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return RobotReading(answer, np.zeros(N), NONE)

    monkeypatch.setattr(driver, "read", read)
    show_motion(driver, lines.append)
    assert ROBOT.joint_names[1] in lines[-1]
