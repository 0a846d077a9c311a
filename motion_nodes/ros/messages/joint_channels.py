# SPDX-License-Identifier: Apache-2.0
"""The channels of a JointState for all joints of a robot, in the robot's order.

Gains of drives are a DynamicJointState with stiffness and damping of each joint.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from control_msgs.msg import DynamicJointState, InterfaceValue
from numpy.typing import ArrayLike, NDArray
from sensor_msgs.msg import JointState

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.configurations import NamedJoints
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.cdr import (
    AFTER_STAMP,
    LITTLE_ENDIAN,
    CdrReader,
    InvalidMessage,
    message_in,
)
from motion_nodes.ros.messages.message_bounds import fault_of
from motion_nodes.typing import Array

CHANNELS = ("position", "velocity", "effort")
GAINS = ("stiffness", "damping")
"""Names of the interfaces."""


class JointChannels:
    """Reader of commands to a robot's joints."""

    def __init__(
        self, joints: Sequence[str], robot: str, tree: KinematicTree | None = None
    ) -> None:
        """Create the reader.

        Args:
            joints: of the robot, in the order of the arrays.
            robot: its name, for errors.
            tree: the robot, if commands may name its mimic joints.
        """
        self._joints, self._tree, self._robot = tuple(joints), tree, robot
        self._named = NamedJoints(tree, ())
        self._indices = {joint: i for i, joint in enumerate(self._joints)}
        self._head = b""
        """Sender and names of the last serialized message."""
        self._columns: NDArray[np.intp] = np.empty(0, np.intp)
        """Indices of its joints."""
        self._rest = b""
        """The last serialized message without its stamp."""
        self._last: StreamSample | None = None

    def read(self, message: JointState) -> StreamSample:
        """Return the values of all joints, shape (n,) per channel; NaN where there are none.

        Raises:
            UnknownJoint: a joint that the robot does not have.
            InvalidCommand: a doubled name, or an array of another length.
        """
        columns = self._columns_of(message.name)
        return self._sample(columns, *(getattr(message, channel) for channel in CHANNELS))

    def read_serialized(self, data: bytes) -> tuple[int, StreamSample]:
        """Read a serialized message.

        Returns:
            Its stamp [ns], and its values as by :meth:`read`: the same object as for the message
            before if only the stamps differ.

        Raises:
            InvalidMessage: it cannot be read, or exceeds the bounds of its type.
            UnknownJoint: see :meth:`read`.
        """
        if self._last is not None and data.startswith(LITTLE_ENDIAN):
            if data[AFTER_STAMP:] == self._rest:
                return CdrReader(data).stamp_ns(), self._last
            if data.startswith(self._head, AFTER_STAMP):
                return self._read_in_place(data)
        message = message_in(data, JointState)
        fault = fault_of(message)
        if fault:
            raise InvalidMessage(fault)
        sample = self.read(message)
        if data.startswith(LITTLE_ENDIAN):
            reader = CdrReader(data)
            reader.stamp_ns()
            reader.skip_string()
            reader.texts()
            self._head, self._columns = (
                data[AFTER_STAMP : reader.at],
                self._columns_of(message.name),
            )
            self._rest, self._last = data[AFTER_STAMP:], sample
        return stamp_ns(message), sample

    def _read_in_place(self, data: bytes) -> tuple[int, StreamSample]:
        """Read a message of the same sender and names as the last one."""
        reader = CdrReader(data)
        stamp = reader.stamp_ns()
        reader.at = AFTER_STAMP + len(self._head)
        try:
            channels = [reader.doubles() for _ in CHANNELS]
        except (struct.error, ValueError) as error:
            raise InvalidMessage(f"a message of {len(data)} bytes is truncated") from error
        sample = self._sample(self._columns, *channels)
        self._rest, self._last = data[AFTER_STAMP:], sample
        return stamp, sample

    def _columns_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        if len(set(names)) != len(names):
            raise InvalidCommand("a joint name occurs more than once")
        self._named = NamedJoints(self._tree, names)
        names = self._named.names
        for name in names:
            if name not in self._indices:
                raise UnknownJoint(name, self._joints, self._robot)
        return np.array([self._indices[name] for name in names], dtype=np.intp)

    def _sample(
        self, columns: NDArray[np.intp], *channels: Sequence[float] | Array
    ) -> StreamSample:
        count, found, named = len(self._named.given), [], self._named
        reduced = {
            "position": lambda values: named.positions(values, missing=True),
            "velocity": lambda values: named.rates(values, missing=True),
            "effort": named.efforts,
        }
        for channel, values in zip(CHANNELS, channels, strict=True):
            if len(values) not in (0, count):
                raise InvalidCommand(f"{len(values)} values of {channel} given for {count} joints")
            full = np.full(len(self._joints), np.nan)
            if len(values):
                full[columns] = values if named.trivial else reduced[channel](values)
            found.append(full)
        return StreamSample(*found)


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
