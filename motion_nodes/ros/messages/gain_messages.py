# SPDX-License-Identifier: Apache-2.0
"""Gains of drives as a message: DynamicJointState with stiffness and damping of each joint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from control_msgs.msg import DynamicJointState, InterfaceValue
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand, UnknownJoint

GAINS = ("stiffness", "damping")
"""Names of the interfaces."""


def gains_message(joints: Sequence[str], stiffness: ArrayLike, damping: ArrayLike) -> Any:
    """Return the message of gains; NaN stands for the drive's own.

    Args:
        joints: names.
        stiffness: kp [N m/rad or N/m], shape (n,).
        damping: kd [N m s/rad or N s/m], shape (n,).
    """
    pairs = np.array([stiffness, damping], dtype=np.float64).T.tolist()
    values = [InterfaceValue(interface_names=list(GAINS), values=pair) for pair in pairs]
    return DynamicJointState(joint_names=list(joints), interface_values=values)


def read_gains(
    message: Any, joints: Sequence[str], robot: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return stiffness and damping of all joints, shape (n,) each; NaN: the drive's own.

    Args:
        message: DynamicJointState.
        joints: joints of the robot, in the order of the result.
        robot: for errors.

    Raises:
        InvalidCommand: lengths that do not match, an unknown interface, or an infinite value.
        UnknownJoint: a joint that the robot does not have.
    """
    names = list(message.joint_names)
    if len(names) != len(message.interface_values):
        raise InvalidCommand(f"{len(message.interface_values)} gains given for {len(names)} joints")
    out = np.full((2, len(joints)), np.nan)
    for name, entry in zip(names, message.interface_values, strict=True):
        if name not in joints:
            raise UnknownJoint(name, joints, robot)
        if len(entry.interface_names) != len(entry.values):
            raise InvalidCommand(f"numbers of gains and of their names differ for joint '{name}'")
        for interface, value in zip(entry.interface_names, entry.values, strict=True):
            if interface not in GAINS or math.isinf(value):
                raise InvalidCommand(
                    f"'{interface}' of joint '{name}' is {value:g}; allowed are finite "
                    f"{' and '.join(GAINS)}"
                )
            out[GAINS.index(interface), list(joints).index(name)] = value
    return out[0], out[1]
