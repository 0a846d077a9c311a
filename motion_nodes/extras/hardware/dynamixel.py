# SPDX-License-Identifier: Apache-2.0
"""Driver of arms with Dynamixel servos of the X series, such as OpenManipulator-X.

All servos are read by one request per cycle, goals are written by one packet. A bus watchdog
stops the servos. Registers: control table of the X series, ROBOTIS e-Manual.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.hardware import dynamixel_packets
from motion_nodes.extras.hardware.connections import SerialPort
from motion_nodes.extras.hardware.robot_driver import (
    CheckResult,
    DriverFault,
    DriverOptions,
    RobotDriver,
    RobotReading,
    require_joints,
)
from motion_nodes.extras.hardware.servo_bus import (
    REPLY_TIMEOUT,
    ServoAnswer,
    ServoBus,
    check_first_goals,
    check_servo_ids,
    supply_results,
)
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

COUNTS = 4096
"""Counts per revolution."""
OPERATING_MODE, MAX_POSITION, TORQUE_ENABLE, HARDWARE_ERROR = 11, 48, 64, 70
BUS_WATCHDOG, PROFILE, GOAL_POSITION = 98, 108, 116
PRESENT_CURRENT, STATE_LENGTH = 126, 10
"""Current or load (2 bytes), velocity, position (4 bytes each)."""
SUPPLY, SUPPLY_LENGTH = 144, 3
"""Voltage (2 bytes), temperature."""
POSITION_MODES = {3: "position", 4: "extended position", 5: "current-based position"}
RADIANS = 2.0 * math.pi / COUNTS
SPEED = 0.229 * 2.0 * math.pi / 60.0
"""Unit of the velocity [rad/s]."""
MAX_COUNTS = 256 * COUNTS - 1
"""Max goal position in extended position mode, several turns [counts]."""
WATCHDOG_UNIT = 0.02
"""[s]"""
REARM_SHARE = 0.5
"""Time without goals after which watchdogs may have stopped servos, as a fraction of their timeout.
Stopped servos ignore goals silently."""
REBOOT_TIME = 1.0
"""Max time until a servo answers after a restart [s]."""
HOT = 70
"""Temperature reported by the check [degrees C]; servos switch off at 80 by default."""


@dataclass(frozen=True)
class DynamixelSettings:
    """The block ``hardware.settings``."""

    ids: dict[str, int]
    """Id of each joint's servo."""
    zero: dict[str, int] = field(default_factory=dict)
    """Zero position of a joint [counts]; default: the middle, 2048."""
    scale: dict[str, float] = field(default_factory=dict)
    """Transmission: motion of a joint per radian of its servo [rad or m]; -1 reverses it."""
    torque_per_count: dict[str, float] = field(default_factory=dict)
    """Effort of a joint per count of the servo's current [N m or N]; without it the effort is not
    measured."""
    baud_rate: int = setting(
        1_000_000, doc="Baud rate of the bus.", unit="bit/s", ge=9600, le=4_500_000
    )
    rate: float = setting(100.0, doc="Rate of the bus.", unit="Hz", gt=0.0, le=500.0)
    reply_timeout: float = setting(
        REPLY_TIMEOUT, doc="Max time to wait for a servo's answer.", unit="s", gt=0.0, le=1.0
    )
    watchdog: float = setting(
        0.2, doc="Timeout of the bus, after which the servos stop; 0: none.", unit="s", ge=0.0,
        le=2.5,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self)
        check_servo_ids(self.ids)
        for joint, value in (*self.scale.items(), *self.torque_per_count.items()):
            if not math.isfinite(value) or (joint in self.scale and self.scale[joint] == 0.0):
                raise InvalidConfig(f"{joint}: {value} is not a valid factor")

    @property
    def named_joints(self) -> tuple[str, ...]:
        """All joints in the settings."""
        return (*self.ids, *self.zero, *self.scale, *self.torque_per_count)

    def column(self, joint: str) -> tuple[float, float, float]:
        """Return zero [counts], scale and effort per count (NaN: not measured) of a joint."""
        zero = self.zero.get(joint, COUNTS // 2)
        return zero, self.scale.get(joint, 1.0), self.torque_per_count.get(joint, math.nan)


class DynamixelDriver(RobotDriver):
    """Position control of an arm on a bus of Dynamixel servos."""

    device_example = "/dev/ttyUSB0"

    def __init__(self, robot: Robot, bus: ServoBus, settings: DynamixelSettings) -> None:
        """Create the driver.

        Args:
            robot: the robot.
            bus: with the servos.
            settings: ids, zeros and rate.

        Raises:
            UnknownJoint: the settings name a joint that the robot does not have.
        """
        require_joints(robot, settings.named_joints)
        self.joint_names = tuple(name for name in robot.joint_names if name in settings.ids)
        self.rate = settings.rate
        self._bus, self._settings = bus, settings
        self._servos = [settings.ids[name] for name in self.joint_names]
        columns = [settings.column(name) for name in self.joint_names]
        zero, scale, torque = np.array(columns, dtype=np.float64).reshape(-1, 3).T
        self._zero, self._scale, self._torque = zero, scale, torque
        self._wrote_at = 0.0
        """Time of the last goals, of ``time.monotonic()`` [s]."""
        self._upper = np.full(len(columns), MAX_COUNTS, dtype=np.int64)
        self._lower = -self._upper

    @classmethod
    def create(cls, robot: Robot, options: DriverOptions) -> DynamixelDriver:
        """Return a driver; see :meth:`RobotDriver.create`."""
        settings = options.decoded(DynamixelSettings, robot)
        port = SerialPort(options.device, settings.baud_rate)
        return cls(robot, ServoBus(port, dynamixel_packets, settings.reply_timeout), settings)

    def connect(self) -> None:
        """Open the port, find all servos, and read their modes and position limits.

        Raises:
            DriverFault: a servo is missing, or has no position mode.
        """
        self._bus.open()
        self._bus.require(self._pairs(), "check power, cables, baud rate and ids")
        for i, (name, servo) in enumerate(self._pairs()):
            mode = self._bus.read(servo, OPERATING_MODE, 1).number(0, 1)
            if mode not in POSITION_MODES:
                allowed = ", ".join(f"{k} ({v})" for k, v in POSITION_MODES.items())
                raise DriverFault(
                    f"{name} has the operating mode {mode}; allowed are {allowed}. Set it with "
                    "DYNAMIXEL Wizard"
                )
            if mode == 3:
                limits = self._bus.read(servo, MAX_POSITION, 8)
                self._upper[i], self._lower[i] = limits.number(0, 4), limits.number(4, 4)

    def read(self) -> RobotReading:
        """Return the measured state; see :meth:`RobotDriver.read`."""
        answers = self._bus.read_all(self._servos, PRESENT_CURRENT, STATE_LENGTH)
        found = (answers[servo] for servo in self._servos)
        rows = [(a.signed(0, 2), a.signed(2, 4), a.signed(6, 4)) for a in found]
        current, speed, counts = np.array(rows, dtype=np.float64).T
        return RobotReading(
            (counts - self._zero) * RADIANS * self._scale,
            speed * SPEED * self._scale,
            current * self._torque,
            self._faults(answers),
        )

    def enable(self, position: Array) -> None:
        """Set the goals to a position [rad or m], then switch the torque on."""
        desired = self._counts(position)
        check_first_goals(self.joint_names, RADIANS * desired, RADIANS * self._clipped(desired))
        self._bus.write_all(BUS_WATCHDOG, dict.fromkeys(self._servos, b"\x00"))
        self._bus.write_all(PROFILE, dict.fromkeys(self._servos, bytes(8)))
        self._write_goals(position)
        for name, servo in self._pairs():
            error = self._bus.write(servo, TORQUE_ENABLE, b"\x01") & ~dynamixel_packets.ALERT
            if error:
                raise DriverFault(f"{name}: {', '.join(dynamixel_packets.status_words(error))}")
        # Enabling the torque may have set the goal to the present position.
        self._write_goals(position)
        self._set_watchdog()

    def write(self, reference: StreamSample) -> None:
        """Send goal positions."""
        watchdog = self._settings.watchdog
        if watchdog > 0.0 and time.monotonic() - self._wrote_at > REARM_SHARE * watchdog:
            self._set_watchdog()
        self._write_goals(reference.position)

    def disable(self) -> None:
        """Switch the torque off; the arm sinks."""
        self._bus.write_all(BUS_WATCHDOG, dict.fromkeys(self._servos, b"\x00"))
        self._bus.write_all(TORQUE_ENABLE, dict.fromkeys(self._servos, b"\x00"))

    def clear_faults(self) -> None:
        """Restart the servos with hardware errors; their torque is off until they are enabled."""
        answers = self._bus.read_all(self._servos, PRESENT_CURRENT, STATE_LENGTH)
        failed = [servo for servo in self._servos if answers[servo].error & dynamixel_packets.ALERT]
        for servo in failed:
            self._bus.send(dynamixel_packets.reboot(servo))
        end = time.monotonic() + REBOOT_TIME
        for servo in failed:
            while not self._bus.ping(servo):
                if time.monotonic() > end:
                    raise DriverFault(f"servo {servo} does not answer after its restart")

    def close(self) -> None:
        """Close the port; servos stop and hold their positions."""
        self._bus.close()

    def check(self) -> list[CheckResult]:
        """Return findings: voltage and temperature of each servo, and whether it may move."""
        answers = self._bus.read_all(self._servos, SUPPLY, SUPPLY_LENGTH)
        results: list[CheckResult] = []
        for name, servo in self._pairs():
            volts, celsius = 0.1 * answers[servo].number(0), answers[servo].number(2, 1)
            results += supply_results(name, volts, celsius, HOT)
        return results

    # ---- internal

    def _pairs(self) -> list[tuple[str, int]]:
        return list(zip(self.joint_names, self._servos, strict=True))

    def _faults(self, answers: dict[int, ServoAnswer]) -> tuple[str, ...]:
        """Return the hardware errors; their register is read only from servos that alert."""
        faults = []
        for name, servo in self._pairs():
            if answers[servo].error & dynamixel_packets.ALERT:
                register = self._bus.read(servo, HARDWARE_ERROR, 1).number(0, 1)
                words = dynamixel_packets.hardware_words(register) or ("hardware error",)
                faults.append(f"{name}: {', '.join(words)}")
        return tuple(faults)

    def _set_watchdog(self) -> None:
        """Start the watchdogs; servos stopped by a watchdog accept goals again."""
        self._bus.write_all(BUS_WATCHDOG, dict.fromkeys(self._servos, b"\x00"))
        watchdog = bytes([math.ceil(self._settings.watchdog / WATCHDOG_UNIT)])
        self._bus.write_all(BUS_WATCHDOG, dict.fromkeys(self._servos, watchdog))

    def _counts(self, position: Array) -> Array:
        """Return positions [rad or m] as positions of the servos [counts], shape (n,)."""
        return np.asarray(np.round(self._zero + position / (RADIANS * self._scale)))

    def _clipped(self, counts: Array) -> Array:
        """Return positions within the limits of the servos [counts], shape (n,)."""
        return np.clip(counts, self._lower, self._upper)

    def _write_goals(self, position: Array) -> None:
        counts = self._clipped(self._counts(position))
        goals = {
            servo: int(value).to_bytes(4, "little", signed=True)
            for servo, value in zip(self._servos, counts, strict=True)
        }
        self._bus.write_all(GOAL_POSITION, goals)
        self._wrote_at = time.monotonic()
