# SPDX-License-Identifier: Apache-2.0
"""The URScript program: run as its controller would, with commands that arrive early and late."""

from __future__ import annotations

import numpy as np
import pytest
from hardware.urscript import ProgramStopped, ScriptArm, as_python

from motion_nodes.extras.hardware.universal_robots import (
    ENDS,
    FOLLOW,
    STOP,
    UniversalRobotsSettings,
    servo_program,
)

PERIOD = 0.002
SILENCE = 0.03
PROGRAM = servo_program(UniversalRobotsSettings(max_silence=SILENCE), [np.pi] * 6)
Command = tuple[float, np.ndarray, np.ndarray, float]
"""Arrival [s], positions [rad], velocities [rad/s], time on the sender's clock [s]."""


def swing(t: float) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and velocities; at most 1 rad/s and 2 rad/s^2."""
    return np.full(6, 0.5 * (1.0 - np.cos(2.0 * t))), np.full(6, np.sin(2.0 * t))


class Run:
    """One run of the program; commands are registers from their arrival on."""

    def __init__(self, commands: list[Command], *, cycles: int = 5000, mode: int = FOLLOW) -> None:
        self.commands, self.last, self.now = commands, cycles, 0
        self.arm = ScriptArm(self._wait, PERIOD)
        self.arm.integers = {24: 7, 25: mode}
        self.ended = True
        try:
            self.arm.run(PROGRAM)
        except ProgramStopped:
            self.ended = False
        self.targets = np.array(self.arm.targets)

    def _wait(self) -> None:
        self.now += 1
        while self.commands and self.commands[0][0] <= self.now * PERIOD:
            _, q, qd, sent = self.commands.pop(0)
            self.arm.floats |= dict(enumerate([*q, *qd, sent], start=24))
            self.arm.integers[24] += 1
        if self.now >= self.last:
            raise ProgramStopped


def stream(times: np.ndarray, delays: np.ndarray) -> list[Command]:
    arrivals = np.maximum.accumulate(times + delays)
    clock = 1234.5
    return [(a, *swing(t), clock + t) for t, a in zip(times, arrivals, strict=True)]


def test_blocks_without_end_are_found() -> None:
    with pytest.raises(AssertionError):
        as_python(PROGRAM.replace("    end\n", "", 1))


@pytest.mark.parametrize("rate", [500.0, 250.0])
def test_motion_is_smooth_with_commands_that_come_early_and_late(rate: float) -> None:
    rng = np.random.default_rng(5)
    times = np.arange(0.01, 4.0, 1.0 / rate)
    delays = rng.uniform(0.0, 0.004, len(times))
    run = Run(stream(times, delays), cycles=1990)
    assert not run.ended
    velocity = np.diff(run.targets, axis=0) / PERIOD
    acceleration = np.diff(velocity, axis=0) / PERIOD
    assert np.abs(velocity).max() < 1.05
    assert np.abs(acceleration).max() < 5.0
    # On the path, with a constant delay.
    expected = np.array([swing(t)[0] for t in 0.008 + PERIOD * np.arange(len(run.targets))])
    assert np.abs(run.targets - expected).max() < 0.006


def test_a_gap_is_bridged_with_the_last_velocity() -> None:
    times = np.arange(0.01, 1.0, PERIOD)
    times = times[(times < 0.5) | (times > 0.526)]
    run = Run(stream(times, np.zeros(len(times))), cycles=450)
    assert not run.ended
    velocity = np.diff(run.targets[:, 0]) / PERIOD
    assert np.abs(np.diff(velocity)).max() < 0.06


def test_silence_brakes_the_arm_and_ends_the_program() -> None:
    times = np.arange(0.01, 0.5, PERIOD)
    run = Run(stream(times, np.zeros(len(times))))
    assert run.ended
    assert ENDS[run.arm.outputs[25]]
    assert run.arm.outputs[25] == 2
    assert run.arm.decelerations == [4.0]
    assert not any(run.arm.qd)
    assert len(run.targets) < (0.5 + SILENCE) / PERIOD + 3


def test_nothing_moves_before_the_first_command_however_old_the_registers() -> None:
    run = Run([])
    assert run.ended
    assert run.arm.outputs[25] == 4
    assert not len(run.targets)


def test_an_arm_that_rests_is_given_more_time() -> None:
    rest = [(0.01, np.zeros(6), np.zeros(6), 5.0), (1.0, np.zeros(6), np.zeros(6), 5.99)]
    run = Run(list(rest), cycles=1450)
    assert not run.ended
    run = Run(list(rest))
    assert run.arm.outputs[25] == 2
    assert not run.targets.any()


def test_a_jump_is_not_followed() -> None:
    times = np.arange(0.01, 0.3, PERIOD)
    commands = stream(times, np.zeros(len(times)))
    arrival, q, qd, sent = commands[100]
    commands[100] = (arrival, q + np.eye(6)[3] * 0.1, qd, sent)
    run = Run(commands)
    assert run.ended
    assert run.arm.outputs[25] == 3
    assert np.abs(np.diff(run.targets, axis=0)).max() < 1.1 * PERIOD


def test_stop_is_obeyed() -> None:
    run = Run(stream(np.array([0.01]), np.zeros(1)), mode=STOP)
    assert run.ended
    assert run.arm.outputs[25] == 0
    assert not len(run.targets)
