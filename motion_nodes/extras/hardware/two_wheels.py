# SPDX-License-Identifier: Apache-2.0
"""Driver of a two-wheeled base with a microcontroller (docs/real_robots.md has its firmware).

Lines between the suite and the board:

    W left right*hh      velocities of the wheels [encoder counts/s], integers
    Q*hh                 request of the state, without a command
    E 0|1*hh             motors off or on
    S left right vleft vright flags*hh      answer to each of them: counts, counts/s, flags

``hh`` is the exclusive or of the bytes before ``*``, as two hexadecimal digits. A watchdog of the
board stops the motors 0.2 s after the last ``W``.
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import NamedTuple

import numpy as np

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import Name
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.hardware.connections import SerialPort
from motion_nodes.extras.hardware.robot_driver import (
    CheckResult,
    DriverFault,
    DriverOptions,
    LinkLost,
    RobotDriver,
    RobotReading,
    require_joints,
)
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

FLAGS = {2: "a motor driver reports a fault", 4: "the battery is low", 8: "an encoder failed"}
"""Faults by bit; bit 1: the board's watchdog has stopped the motors."""
WATCHDOG = 1
MAX_LINE = 100
"""Max number of bytes in a line; longer ones are invalid."""
BOOT_TIME = 2.5
"""Timeout for the first answer of a board; opening the port resets many boards [s]."""


class WheelState(NamedTuple):
    """An answer of the board."""

    positions: tuple[int, int]
    """Left and right [counts]."""
    velocities: tuple[int, int]
    """Left and right [counts/s]."""
    flags: int


def line(text: str) -> bytes:
    """Return a line with its checksum."""
    data = text.encode("ascii")
    return data + b"*%02x\n" % reduce(xor, data, 0)


def take_line(buffer: bytearray) -> bytes | None:
    """Remove the first complete line from received bytes; None if there is none."""
    end = buffer.find(b"\n")
    if end < 0:
        del buffer[: max(len(buffer) - MAX_LINE, 0)]
        return None
    found = bytes(buffer[:end])
    del buffer[: end + 1]
    return found


def state_in(data: bytes) -> WheelState:
    """Return the state in a line.

    Raises:
        DriverFault: a damaged line, or one without a state.
    """
    if len(data) > MAX_LINE:
        raise DriverFault(f"the board sent a line of {len(data)} bytes; allowed are {MAX_LINE}")
    text, star, given = data.strip().rpartition(b"*")
    if not star or b"%02x" % reduce(xor, text, 0) != given.lower():
        raise DriverFault("a line of the board has a wrong checksum")
    words = text.split()
    if len(words) != 6 or words[0] != b"S":
        raise DriverFault(f"the board sent {text[:40]!r} instead of its state")
    try:
        left, right, v_left, v_right, flags = (int(word) for word in words[1:])
    except ValueError:
        raise DriverFault(f"the board sent {text[:40]!r} instead of its state") from None
    return WheelState((left, right), (v_left, v_right), flags)


def faults_in(flags: int) -> tuple[str, ...]:
    """Return the faults in the flags, as text."""
    return tuple(text for bit, text in FLAGS.items() if flags & bit)


@dataclass(frozen=True)
class TwoWheelsSettings:
    """The block ``hardware.settings``."""

    left: Name
    """Joint of the left wheel."""
    right: Name
    """Joint of the right wheel."""
    counts_per_turn: float = setting(
        doc="Encoder counts per turn of a wheel, with gear and all edges.", gt=0.0, le=1e7
    )
    baud_rate: int = setting(
        115_200, doc="Baud rate of the line.", unit="bit/s", ge=9600, le=4_000_000
    )
    rate: float = setting(50.0, doc="Rate of the commands.", unit="Hz", gt=0.0, le=200.0)
    reply_timeout: float = setting(
        0.05, doc="Max time to wait for an answer.", unit="s", gt=0.0, le=1.0
    )

    def __post_init__(self) -> None:
        check_settings(self)


class TwoWheelsDriver(RobotDriver):
    """Velocity control of two wheels."""

    device_example = "/dev/ttyACM0"
    modes = frozenset({"velocity"})

    def __init__(self, robot: Robot, port: SerialPort, settings: TwoWheelsSettings) -> None:
        """Create the driver.

        Raises:
            UnknownJoint: a wheel that the robot does not have.
            InvalidDescription: both wheels are the same joint.
        """
        wheels = (settings.left, settings.right)
        require_joints(robot, wheels)
        if len(set(wheels)) < 2:
            raise InvalidDescription(f"{robot.name}: the left and the right wheel are one joint")
        self.joint_names, self.rate = wheels, settings.rate
        self._port, self._settings = port, settings
        self._scale = 2.0 * math.pi / settings.counts_per_turn
        self._buffer = bytearray()

    @classmethod
    def create(cls, robot: Robot, options: DriverOptions) -> TwoWheelsDriver:
        """Return a driver; see :meth:`RobotDriver.create`."""
        settings = options.decoded(TwoWheelsSettings, robot)
        return cls(robot, SerialPort(options.device, settings.baud_rate), settings)

    def connect(self) -> None:
        """Open the port and wait for the board.

        Raises:
            DriverFault: no board answers.
        """
        self._port.open()
        end = time.monotonic() + BOOT_TIME
        while True:
            try:
                self._request("Q")
                return
            except LinkLost:
                raise
            except DriverFault:
                if time.monotonic() > end:
                    raise

    def read(self) -> RobotReading:
        """Return the measured state; see :meth:`RobotDriver.read`."""
        state = self._request("Q")
        return RobotReading(
            self._scale * np.array(state.positions, dtype=np.float64),
            self._scale * np.array(state.velocities, dtype=np.float64),
            np.full(2, np.nan),
            faults_in(state.flags),
        )

    def enable(self, position: Array) -> None:
        """Enable the motors, at rest: the board may still have the last velocities."""
        self._request("W 0 0")
        self._request("E 1")

    def write(self, reference: StreamSample) -> None:
        """Send the velocities."""
        left, right = (round(float(v) / self._scale) for v in reference.velocity)
        self._request(f"W {left} {right}")

    def disable(self) -> None:
        """Disable the motors; the wheels turn freely."""
        self._request("E 0")

    def close(self) -> None:
        """Stop the wheels, and close the port."""
        with contextlib.suppress(DriverFault):  # The board's watchdog stops them, too.
            self._request("W 0 0")
        self._port.close()

    def check(self) -> list[CheckResult]:
        """Check the board's watchdog: without commands the motors must be stopped."""
        time.sleep(0.3)
        stopped = bool(self._request("Q").flags & WATCHDOG)
        text = "stops the motors" if stopped else "did not act within 0.3 s without commands"
        return [CheckResult("watchdog of the board", stopped, text)]

    def _request(self, text: str) -> WheelState:
        self._port.discard_input()
        self._buffer.clear()
        self._port.write(line(text))
        end = time.monotonic() + self._settings.reply_timeout
        while True:
            received = self._port.read(max(end - time.monotonic(), 0.0))
            self._buffer += received
            # An answer that has arrived counts, even if this process paused meanwhile.
            if (found := take_line(self._buffer)) is not None:
                return state_in(found)
            if not received or time.monotonic() > end + self._settings.reply_timeout:
                raise DriverFault("the board does not answer; check power, cable and firmware")
