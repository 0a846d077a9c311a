# SPDX-License-Identifier: Apache-2.0
"""Arrays from MoveIt Servo's commands, validated and scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.typing import Array

MAX_UNITLESS = 1.0 + 1e-6
"""Max magnitude of a component of a unitless command."""


def twist_of(message: Any, linear: float | None, rotational: float | None) -> Array:
    """Return a twist, linear [m/s] and angular [rad/s], in its reference frame, shape (6,).

    Args:
        message: geometry_msgs/Twist.
        linear: scale of a unitless linear velocity [m/s]; None if the message is in m/s and rad/s.
        rotational: scale of a unitless angular velocity [rad/s].

    Raises:
        InvalidCommand: values that are not finite, or unitless ones beyond 1.
    """
    v, w = message.linear, message.angular
    numbers = np.array([v.x, v.y, v.z, w.x, w.y, w.z])
    _check(numbers, ("linear.x", "linear.y", "linear.z", "angular.x", "angular.y", "angular.z"),
           unitless=linear is not None)  # fmt: skip
    if linear is not None and rotational is not None:
        numbers *= (linear,) * 3 + (rotational,) * 3
    return numbers


def jog_of(message: Any, joints: Sequence[str], scale: float | None) -> Array:
    """Return the velocities of all joints [rad/s or m/s], 0 if not commanded, shape (n,).

    Args:
        message: control_msgs/JointJog.
        joints: names of the joints that may be commanded.
        scale: scale of unitless velocities [rad/s or m/s]; None if the message is in these units.

    Raises:
        UnknownJoint: a joint that is not among ``joints``.
        InvalidCommand: arrays of different lengths, values that are not finite, unitless ones
            beyond 1, or displacements without velocities.
    """
    names, velocities = message.joint_names, message.velocities
    if not len(velocities) and len(message.displacements):
        raise InvalidCommand("the jog has displacements and no velocities; give velocities.")
    if len(names) != len(velocities):
        raise InvalidCommand(
            f"the jog has {len(names)} joint_names and {len(velocities)} velocities."
        )
    for name in names:
        if name not in joints:
            raise UnknownJoint(name, joints, "the joints that can be jogged")
    numbers = np.array(velocities, np.float64)
    _check(numbers, names, unitless=scale is not None)
    result = np.zeros(len(joints))
    result[[joints.index(name) for name in names]] = numbers * (1.0 if scale is None else scale)
    return result


def _check(numbers: Array, names: Sequence[str], *, unitless: bool) -> None:
    for name, value in zip(names, numbers.tolist(), strict=True):
        if not math.isfinite(value):
            raise InvalidCommand(f"{name} is {value}; it must be a finite number.", field=name)
        if unitless and abs(value) > MAX_UNITLESS:
            raise InvalidCommand(
                f"{name} is {value:g}; unitless commands are from -1 to 1 (servo.command_in_type).",
                field=name,
            )
