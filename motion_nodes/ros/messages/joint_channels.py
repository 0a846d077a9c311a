# SPDX-License-Identifier: Apache-2.0
"""The channels of a JointState for all joints of a robot, in the robot's order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sensor_msgs.msg import JointState

from motion_nodes.control.stream_pieces import StreamSample
from motion_nodes.errors import InvalidCommand, UnknownJoint


class JointChannels:
    """Reader of commands to a robot's joints."""

    def __init__(self, joints: Sequence[str], robot: str) -> None:
        """Create the reader.

        Args:
            joints: of the robot, in the order of the arrays.
            robot: its name, for errors.
        """
        self._joints, self._robot = tuple(joints), robot
        self._indices = {joint: i for i, joint in enumerate(self._joints)}

    def read(self, message: JointState) -> StreamSample:
        """Return the values of all joints, shape (n,) per channel; NaN where there are none.

        Raises:
            UnknownJoint: a joint that the robot does not have.
            InvalidCommand: a doubled name, or an array of another length.
        """
        count = len(message.name)
        for name in message.name:
            if name not in self._indices:
                raise UnknownJoint(name, self._joints, self._robot)
        if len(set(message.name)) != count:
            raise InvalidCommand("a joint name occurs more than once")
        columns = [self._indices[name] for name in message.name]
        channels = []
        for channel in ("position", "velocity", "effort"):
            values = getattr(message, channel)
            if len(values) not in (0, count):
                raise InvalidCommand(f"{len(values)} values of {channel} given for {count} joints")
            full = np.full(len(self._joints), np.nan)
            if len(values):
                full[columns] = values
            channels.append(full)
        return StreamSample(*channels)
