# SPDX-License-Identifier: Apache-2.0
"""What a driver session does after disabling, resets, failures and at its end."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from hardware.scripted_driver import ScriptedDriver
from hardware.session_rig import MS, NONE, ROBOT, N, Rig

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.hardware.driver_session import SessionConfig, SessionState
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    LinkLost,
    RobotReading,
    show_motion,
)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("channel", ["position", "velocity"])
def test_measurements_that_are_not_finite_enable_nothing(
    rig: Rig, channel: str, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> RobotReading:
        channels = {"position": ROBOT.home.copy(), "velocity": np.zeros(N)}
        channels[channel][2] = bad
        return RobotReading(**channels, effort=NONE)

    monkeypatch.setattr(rig.driver, "read", read)
    rig.run(0.3)
    assert rig.session.state is SessionState.MONITORING
    assert "not finite" in rig.session.waiting
    assert not rig.driver.enabled


def test_measurements_of_another_length_are_a_fault() -> None:
    with pytest.raises(DriverFault, match="shape"):
        RobotReading(np.zeros(6), np.zeros(5), np.zeros(6))


def test_a_reset_without_a_fault_does_not_disturb_the_motion(rig: Rig) -> None:
    rig.run(np.pi)
    rig.amplitude = 0.3
    rig.run(0.5)
    sent = len(rig.driver.sent)
    assert "no fault" in rig.session.reset()
    assert rig.session.state is SessionState.ENABLED
    rig.run(0.5)
    assert len(rig.driver.sent) == sent + 50
    assert rig.driver.cleared == 0


def test_an_arm_that_was_moved_while_disabled_is_enabled_there(rig: Rig) -> None:
    rig.run(0.3)
    rig.session.disable()
    rig.run(0.1)
    rig.offset[1] = 1.0
    rig.driver.position[1] += 1.0
    rig.run(0.3)
    rig.session.enable()
    rig.run(0.3)
    assert (rig.session.state, rig.session.fault) == (SessionState.ENABLED, "")


def test_a_dry_run_is_reset_without_touching_the_robot() -> None:
    rig = Rig(SessionConfig(dry_run=True))
    rig.run(0.1)
    rig.session.reset()
    rig.run(0.1)
    assert rig.driver.cleared == 0
    assert not rig.driver.enabled


@pytest.mark.parametrize("kind", [DriverFault, LinkLost])
def test_a_robot_that_cannot_be_disabled_does_not_follow(
    rig: Rig, kind: type[DriverFault], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_drives_are_released_at_the_end_even_if_holding_fails(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.run(0.2)

    def fail() -> None:
        raise DriverFault("no answer")

    monkeypatch.setattr(rig.driver, "hold", fail)
    rig.session.close(release=True)
    assert not rig.driver.enabled
    assert not rig.driver.connected


def test_a_closed_session_has_no_state_of_the_robot(rig: Rig) -> None:
    rig.run(0.2)
    rig.session.close()
    assert rig.session.reading is None
    rig.driver.broken = LinkLost
    rig.run(0.1)
    assert rig.session.reading is None


def test_efforts_are_fed_forward_while_the_references_are_followed() -> None:
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


def test_references_are_not_kept_without_a_robot(rig: Rig) -> None:
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


def test_references_from_before_a_lost_link_are_not_followed(rig: Rig) -> None:
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
def test_a_clock_that_is_set_brakes_until_new_references(rig: Rig, hours: int) -> None:
    rig.run(0.3)
    rig.now += hours * 3_600_000 * MS
    rig.session.clock_jumped()
    rig.run(0.3, silent=True)
    assert (rig.session.state, rig.session.fault) == (SessionState.ENABLED, "")
    assert "references" in rig.session.waiting
    rig.run(0.3)
    assert (rig.session.waiting, rig.session.fault) == ("", "")


def test_a_clock_that_is_set_back_does_not_delay_the_connection() -> None:
    rig = Rig()
    rig.driver.broken = LinkLost
    rig.run(0.1)
    rig.driver.broken = None
    rig.now -= 3_600_000 * MS
    rig.session.clock_jumped()
    rig.run(0.1, silent=True)
    assert rig.session.state is SessionState.MONITORING


def test_efforts_alone_are_refused_by_every_driver(rig: Rig) -> None:
    rig.driver.modes = frozenset({"position", "effort"})
    with pytest.raises(InvalidCommand, match="effort"):
        rig.session.command(rig.now, rig.now, StreamSample(NONE, NONE, np.ones(N)))


def test_one_damaged_answer_does_not_end_the_display_of_motions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
