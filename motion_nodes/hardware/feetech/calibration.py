# SPDX-License-Identifier: Apache-2.0
"""Calibration of Feetech arms: conversion of servo positions to joint angles.

The format is that of LeRobot's calibration files: JSON with, by joint, ``id``, ``drive_mode``,
``homing_offset``, ``range_min`` and ``range_max``. LeRobot also writes offset and range into the
servos, so they can be read from there. Positions are counts of 4096 per revolution, after the
servo has subtracted its homing offset.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from motion_nodes.errors import InvalidConfig, UnknownJoint

COUNTS = 4096
"""Counts per revolution."""
RADIANS = 2.0 * math.pi / COUNTS
"""Angle of one count [rad]."""


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
