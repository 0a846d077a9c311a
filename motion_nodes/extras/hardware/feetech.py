# SPDX-License-Identifier: Apache-2.0
"""Driver of arms with Feetech STS3215 servos, such as SO-100 and SO-101.

Positions and velocities of all servos are read by one request per cycle, goals are written by one
packet. Efforts are estimates: the load register is the fraction of the max torque that the servo
applies. Registers: memory table of the STS3215 by Feetech.

The calibration converts servo positions to joint angles. Its format is that of LeRobot's
calibration files: JSON with, by joint, ``id``, ``drive_mode``, ``homing_offset``, ``range_min`` and
``range_max``. LeRobot also writes offset and range into the servos, so they can be read from there.
Positions are counts of 4096 per revolution, after the servo has subtracted its homing offset.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig, UnknownJoint
from motion_nodes.extras.hardware import feetech_packets
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
RADIANS = 2.0 * math.pi / COUNTS
"""Angle of one count [rad]."""
MIN_POSITION, HOMING_OFFSET = 9, 31
POSITION_MODE = 0
OPERATING_MODE, TORQUE_ENABLE, ACCELERATION, GOAL_POSITION, PRESENT_POSITION = 33, 40, 41, 42, 56
OFFSET_SIGN, VALUE_SIGN, LOAD_SIGN = 11, 15, 10
STATE_LENGTH = 8
"""Position, velocity, load (two bytes each), voltage, temperature."""
HOT = 65
"""Temperature reported by the check [degrees C]; servos switch off at 70 by default."""


@dataclass(frozen=True)
class ServoCalibration:
    """Calibration of one joint."""

    servo: int
    """Id on the bus."""
    homing_offset: int
    """[counts]"""
    range_min: int
    """Lowest position of the joint's range [counts]."""
    range_max: int
    """Highest position [counts]."""
    reversed: bool = False
    """Whether positive angles are decreasing counts."""
    zero_at_min: bool = False
    """Whether the joint's zero is the lower end of its range; else its middle."""

    @property
    def zero(self) -> float:
        """Position of the joint's zero [counts]."""
        end = self.range_max if self.reversed else self.range_min
        return float(end) if self.zero_at_min else 0.5 * (self.range_min + self.range_max)

    @property
    def whole_turn(self) -> bool:
        """Whether the range is the full range of the servo, as of an uncalibrated joint."""
        return self.range_min <= 0 and self.range_max >= COUNTS - 1

    def angle(self, counts: float) -> float:
        """Return the joint's angle [rad] at a position [counts]."""
        return (counts - self.zero) * RADIANS * (-1.0 if self.reversed else 1.0)

    def counts(self, angle: float) -> int:
        """Return the position [counts] of an angle [rad], within the calibrated range."""
        sign = -1.0 if self.reversed else 1.0
        counts = round(self.zero + sign * angle / RADIANS)
        return min(max(counts, self.range_min, 0), self.range_max, COUNTS - 1)


def read_calibration(
    file: str | Path, joints: Mapping[str, int], zero_at_min: frozenset[str] = frozenset()
) -> dict[str, ServoCalibration]:
    """Read a calibration file of LeRobot.

    Args:
        file: path of the file.
        joints: servo ids by joint, of the robot's description.
        zero_at_min: joints whose zero is the lower end of their range.

    Raises:
        InvalidConfig: the file cannot be read, or belongs to another arm.
        UnknownJoint: a joint of the arm is missing.
    """
    path = Path(file).expanduser()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidConfig(f"calibration '{path}' cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise InvalidConfig(f"calibration '{path}' is not an object of joints")
    found = {}
    for joint, servo in joints.items():
        if joint not in data:
            raise UnknownJoint(joint, data, f"calibration '{path}'")
        found[joint] = _entry(str(path), joint, data[joint], zero_at_min)
        if found[joint].servo != servo:
            raise InvalidConfig(
                f"calibration '{path}': {joint} has servo {found[joint].servo}, but the robot's "
                f"description has {servo}; it is of another arm"
            )
    return found


def _entry(where: str, joint: str, entry: object, zero_at_min: frozenset[str]) -> ServoCalibration:
    fields = ("id", "homing_offset", "range_min", "range_max")
    given = entry if isinstance(entry, dict) else {}
    values = [given.get(name) for name in fields]
    for name, value in zip(fields, values, strict=True):
        if not isinstance(value, int) or isinstance(value, bool) or not abs(value) < 1 << 16:
            raise InvalidConfig(f"calibration '{where}': {joint}.{name} is not a number of counts")
    servo, offset, low, high = (int(value) for value in values if isinstance(value, int))
    if not 0 <= low < high < COUNTS:
        raise InvalidConfig(
            f"calibration '{where}': {joint} has the range {low} to {high}; needed is 0 <= "
            f"range_min < range_max < {COUNTS}"
        )
    reverse = bool(given.get("drive_mode", 0))
    return ServoCalibration(servo, offset, low, high, reverse, joint in zero_at_min)


@dataclass(frozen=True)
class FeetechSettings:
    """The block ``hardware.settings``."""

    ids: dict[str, int]
    """Id of each joint's servo."""
    baud_rate: int = setting(
        1_000_000, doc="Baud rate of the bus.", unit="bit/s", ge=9600, le=4_000_000
    )
    rate: float = setting(100.0, doc="Rate of the bus.", unit="Hz", gt=0.0, le=500.0)
    reply_timeout: float = setting(
        REPLY_TIMEOUT, doc="Max time to wait for a servo's answer.", unit="s", gt=0.0, le=1.0
    )
    zero_at_min: tuple[str, ...] = ()
    """Joints whose zero is the lower end of their calibrated range; else it is the middle."""

    def __post_init__(self) -> None:
        check_settings(self)
        check_servo_ids(self.ids)


class FeetechDriver(RobotDriver):
    """Position control of an arm on a Feetech bus."""

    device_example = "/dev/ttyACM0"

    def __init__(
        self, robot: Robot, bus: ServoBus, settings: FeetechSettings, calibration: str = ""
    ) -> None:
        """Create the driver.

        Args:
            robot: the robot.
            bus: with the servos.
            settings: ids and rate.
            calibration: file; empty: the calibration is read from the servos.

        Raises:
            UnknownJoint: the settings name a joint that the robot does not have.
            InvalidConfig: an unusable calibration file.
        """
        require_joints(robot, (*settings.ids, *settings.zero_at_min))
        self.joint_names = tuple(name for name in robot.joint_names if name in settings.ids)
        self.rate = settings.rate
        self._robot, self._bus, self._settings = robot, bus, settings
        self._servos = [settings.ids[name] for name in self.joint_names]
        self._max_effort = np.array([robot.drive(name).max_effort for name in self.joint_names])
        self._file = calibration
        self._calibration = read_calibration(
            calibration, settings.ids, frozenset(settings.zero_at_min)
        ) if calibration else {}  # fmt: skip

    @classmethod
    def create(cls, robot: Robot, options: DriverOptions) -> FeetechDriver:
        """Return a driver; see :meth:`RobotDriver.create`."""
        settings = options.decoded(FeetechSettings, robot, calibrated=True)
        port = SerialPort(options.device, settings.baud_rate)
        bus = ServoBus(port, feetech_packets, settings.reply_timeout)
        return cls(robot, bus, settings, options.calibration)

    def connect(self) -> None:
        """Open the port, find all servos, and read or compare their calibration.

        Raises:
            DriverFault: a servo is missing, not calibrated, or not in position mode, or the file is
                of another arm.
        """
        self._bus.open()
        self._bus.require(self._pairs(), "check power, cables and ids of the servos")
        self._require_position_mode()
        stored = self._stored()
        if not self._file:
            self._require_calibrated(stored)
            self._calibration = stored
            return
        for name, mine in self._calibration.items():
            if mine.homing_offset != stored[name].homing_offset:
                raise DriverFault(
                    f"calibration '{self._file}' is not that of this arm: {name} has the homing "
                    f"offset {stored[name].homing_offset}, the file {mine.homing_offset}"
                )

    def read(self) -> RobotReading:
        """Return the measured state; see :meth:`RobotDriver.read`."""
        answers = self._bus.read_all(self._servos, PRESENT_POSITION, STATE_LENGTH)
        rows = [self._state(name, answers[servo]) for name, servo in self._pairs()]
        position, velocity, effort = np.array(rows, dtype=np.float64).T
        faults = tuple(
            f"{name}: {text}"
            for name, servo in self._pairs()
            for text in feetech_packets.status_words(answers[servo].error)
        )
        return RobotReading(position, velocity, effort * self._max_effort, faults)

    def enable(self, position: Array) -> None:
        """Set the goals to a position [rad], then switch the torque on."""
        self._check_first_goals(position)
        self._bus.write_all(ACCELERATION, dict.fromkeys(self._servos, b"\x00"))
        self._write_goals(position)
        for name, servo in self._pairs():
            error = self._bus.write(servo, TORQUE_ENABLE, b"\x01")
            if error:
                raise DriverFault(f"{name}: {', '.join(feetech_packets.status_words(error))}")

    def write(self, reference: StreamSample) -> None:
        """Send goal positions."""
        self._write_goals(reference.position)

    def disable(self) -> None:
        """Switch the torque off; the arm sinks."""
        self._bus.write_all(TORQUE_ENABLE, dict.fromkeys(self._servos, b"\x00"))

    def clear_faults(self) -> None:
        """Hold servos with a fault at their positions, which clears an overload."""
        answers = self._bus.read_all(self._servos, PRESENT_POSITION, STATE_LENGTH)
        failed = [servo for servo in self._servos if answers[servo].error]
        if not failed:
            return
        rows = [self._state(name, answers[servo]) for name, servo in self._pairs()]
        position = np.array(rows, dtype=np.float64)[:, 0]
        self._check_first_goals(position)
        self._write_goals(position, failed)
        for servo in failed:
            self._bus.write(servo, TORQUE_ENABLE, b"\x01")

    def close(self) -> None:
        """Close the port; servos hold their goals."""
        self._bus.close()

    def check(self) -> list[CheckResult]:
        """Return findings: ranges, voltage and temperature of each servo."""
        answers = self._bus.read_all(self._servos, PRESENT_POSITION, STATE_LENGTH)
        results: list[CheckResult] = []
        for name, servo in self._pairs():
            answer, mine = answers[servo], self._calibration[name]
            volts, celsius = 0.1 * answer.number(6, 1), answer.number(7, 1)
            results += supply_results(name, volts, celsius, HOT)
            low, high = sorted((mine.angle(mine.range_min), mine.angle(mine.range_max)))
            # Calibrated arms have at most one such joint, such as the wrist of the SO-101.
            note = " (a whole turn)" if mine.whole_turn else ""
            text = f"{low:.2f} to {high:.2f} rad{note}"
            results.append(CheckResult(f"{name}: calibrated range", True, text))
        return results

    # ---- internal

    def _pairs(self) -> list[tuple[str, int]]:
        return list(zip(self.joint_names, self._servos, strict=True))

    def _stored(self) -> dict[str, ServoCalibration]:
        """Read the calibration that the servos store."""
        stored = {}
        for name, servo in self._pairs():
            limits = self._bus.read(servo, MIN_POSITION, 4)
            offset = self._bus.read(servo, HOMING_OFFSET, 2).number(0)
            stored[name] = ServoCalibration(
                servo,
                feetech_packets.signed(offset, OFFSET_SIGN),
                limits.number(0),
                limits.number(2),
                zero_at_min=name in self._settings.zero_at_min,
            )
        return stored

    def _require_calibrated(self, stored: dict[str, ServoCalibration]) -> None:
        whole = [name for name, each in stored.items() if each.whole_turn]
        if len(whole) > 1:
            raise DriverFault(
                f"{', '.join(whole)} are not calibrated: their servos allow a whole turn. "
                "Calibrate the arm (lerobot-calibrate), or give its calibration file"
            )

    def _state(self, name: str, answer: ServoAnswer) -> tuple[float, float, float]:
        """Return position [rad], velocity [rad/s] and effort relative to its limit."""
        mine = self._calibration[name]
        sign = -1.0 if mine.reversed else 1.0
        counts = feetech_packets.signed(answer.number(0), VALUE_SIGN)
        speed = feetech_packets.signed(answer.number(2), VALUE_SIGN)
        load = feetech_packets.signed(answer.number(4), LOAD_SIGN)
        return mine.angle(counts), sign * speed * RADIANS, sign * load / 1000.0

    def _require_position_mode(self) -> None:
        for name, servo in self._pairs():
            mode = self._bus.read(servo, OPERATING_MODE, 1).number(0, 1)
            if mode != POSITION_MODE:
                raise DriverFault(
                    f"{name} has the operating mode {mode}; needed is {POSITION_MODE} (position). "
                    "Calibrate the arm (lerobot-calibrate), which sets it"
                )

    def _goals(self, position: Array) -> list[int]:
        """Return positions [rad] as goals within the calibrated ranges [counts], shape (n,)."""
        return [
            self._calibration[name].counts(float(value))
            for name, value in zip(self.joint_names, position, strict=True)
        ]

    def _check_first_goals(self, position: Array) -> None:
        goals = [
            self._calibration[name].angle(goal)
            for name, goal in zip(self.joint_names, self._goals(position), strict=True)
        ]
        check_first_goals(self.joint_names, position, np.array(goals))

    def _write_goals(self, position: Array, servos: Sequence[int] | None = None) -> None:
        """Write goals [rad] of all servos, or of some of them."""
        goals = {
            servo: goal.to_bytes(2, "little")
            for servo, goal in zip(self._servos, self._goals(position), strict=True)
            if servos is None or servo in servos
        }
        self._bus.write_all(GOAL_POSITION, goals)
