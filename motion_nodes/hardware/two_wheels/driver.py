# SPDX-License-Identifier: Apache-2.0
"""Driver of a two-wheeled base with a microcontroller (docs/real_robots.md has its firmware)."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass

import numpy as np

from motion_nodes.control.stream_pieces import StreamSample
from motion_nodes.errors import InvalidDescription
from motion_nodes.hardware.joint_selection import require_joints
from motion_nodes.hardware.robot_driver import (
    CheckResult,
    DriverFault,
    DriverOptions,
    LinkLost,
    RobotDriver,
    RobotReading,
)
from motion_nodes.hardware.serial_port import SerialPort
from motion_nodes.hardware.two_wheels.line_protocol import (
    WATCHDOG,
    WheelState,
    faults_in,
    line,
    state_in,
    take_line,
)
from motion_nodes.model.base_description import Name
from motion_nodes.model.robot import Robot
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array

BOOT_TIME = 2.5
"""Timeout for the first answer of a board; opening the port resets many boards [s]."""


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
        """Check the settings."""
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
