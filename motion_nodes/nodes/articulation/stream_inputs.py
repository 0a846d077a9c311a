# SPDX-License-Identifier: Apache-2.0
"""The streams into the articulation controller: ~/reference, ~/commands, ~/speed_scaling_input."""

from __future__ import annotations

import numpy as np
from control_msgs.msg import SpeedScalingFactor
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from motion_nodes.control.articulation import ControlMode
from motion_nodes.control.joint_command import JointCommand
from motion_nodes.errors import MotionError
from motion_nodes.nodes.articulation.controller_host import ControllerHost
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.stamps import command_time

Array = NDArray[np.float64]


class StreamInputs:
    """Takes what came on the streams, once per tick."""

    def __init__(self, host: ControllerHost) -> None:
        """Subscribe the host's node."""
        self._host = host
        node = host.node
        self._reference = node.poll(JointState, "~/reference", qos.COMMANDS)
        self._commands = node.poll(Float64MultiArray, "~/commands", qos.COMMANDS)
        self._scaling_input = node.poll(SpeedScalingFactor, "~/speed_scaling_input")
        self.scaling = 1.0
        """Share of its speed at which trajectories run, 0 to 1."""

    @property
    def count(self) -> int:
        """How many commands came."""
        return self._reference.count + self._commands.count

    def take(self, now: float) -> None:
        """Apply what came; ``now`` is ROS time [s]."""
        scaling = self._scaling_input.newest()
        if scaling is not None:
            self._set_scaling(float(scaling.factor))
        for message in self._reference.all():
            self._take_reference(message, now)
        for array in self._commands.all():
            self._take_array(np.array(array.data))

    def _take_reference(self, message: JointState, now: float) -> None:
        node = self._host.node
        given, warning = command_time(stamp_ns(message) * 1e-9, now, node.params.command_timeout)
        if warning:
            node.warn("stamp", warning)
        if given is not None:
            command = JointCommand(
                names=message.name or None,
                positions=message.position or None,
                velocities=message.velocity or None,
                efforts=message.effort or None,
            )
            self._command(command, "~/reference")

    def _take_array(self, values: Array) -> None:
        """Take one value per joint, for the channel of its control mode."""
        controller = self._host.runner.controller
        joints = controller.joint_names
        if len(values) != len(joints):
            self._host.node.warn(
                "commands",
                f"command refused, nothing moves: {len(values)} values on ~/commands for "
                f"{len(joints)} joints ({', '.join(joints)})",
            )
            return
        modes = list(controller.modes.values())

        def channel(mode: ControlMode) -> Array:
            return np.where([m is mode for m in modes], values, np.nan)

        self._command(
            JointCommand(
                positions=channel(ControlMode.POSITION),
                velocities=channel(ControlMode.VELOCITY),
                efforts=channel(ControlMode.EFFORT),
            ),
            "~/commands",
        )

    def _command(self, command: JointCommand, label: str) -> None:
        refusal = self._host.refusal()
        if refusal is not None:
            self._host.node.warn("lost", f"command refused: {refusal}")
            return
        try:
            self._host.runner.command(command, label)
        except MotionError as error:
            self._host.node.warn("command", f"command refused, nothing moves: {error}")

    def _set_scaling(self, factor: float) -> None:
        if 0.0 <= factor <= 1.0:
            self.scaling = factor
        else:
            self._host.node.warn(
                "scaling", f"speed scaling {factor} refused; it must be from 0 to 1"
            )
