# SPDX-License-Identifier: Apache-2.0
"""Topics of forward_command_controllers, which the joint controller serves beside its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.joint_command import JointCommand
from motion_nodes.control.joint_reference import ControlMode
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.model.robot_yaml import DRIVE_MODES


@dataclass(frozen=True)
class ForwardTopic:
    """Commands of one controller: an array with one value per joint."""

    name: str
    """Name of the controller."""
    interface: str
    """Quantity of the values: position, velocity or effort."""
    joints: tuple[str, ...]
    """Joints, in the order of the values."""

    @property
    def topic(self) -> str:
        """Topic of its commands."""
        return f"{self.name}/commands"

    def command(
        self, values: NDArray[np.float64], modes: Mapping[str, ControlMode]
    ) -> JointCommand:
        """Return the command of a message.

        Args:
            values: its values; NaN leaves a joint as it is.
            modes: control modes of the controller's joints by name.

        Raises:
            InvalidCommand: another number of values, or a joint in another control mode.
        """
        if len(values) != len(self.joints):
            raise InvalidCommand(
                f"{len(values)} values on {self.topic} for {len(self.joints)} joints "
                f"({', '.join(self.joints)})"
            )
        for joint in self.joints:
            if modes[joint].value != self.interface:
                raise InvalidCommand(
                    f"{self.topic} has values of the {self.interface}, but joint {joint} is under "
                    f"{modes[joint].value} control; set control_modes first",
                    field=joint,
                )

        def given(interface: str) -> NDArray[np.float64] | None:
            return values if interface == self.interface else None

        return JointCommand(
            names=self.joints,
            positions=given("position"),
            velocities=given("velocity"),
            efforts=given("effort"),
        )


def forward_topics(entries: Sequence[str], joints: Sequence[str]) -> tuple[ForwardTopic, ...]:
    """Return the topics of the parameter ``forward_commands``.

    Args:
        entries: each as NAME=INTERFACE:JOINT,JOINT.
        joints: of the controller.

    Raises:
        InvalidConfig: another form, an unknown interface, or a joint that it does not have.
    """
    found = []
    for entry in entries:
        name, _, rest = entry.partition("=")
        interface, _, listed = rest.partition(":")
        names = tuple(word for word in listed.split(",") if word)
        if not name or not names or interface not in DRIVE_MODES or len(set(names)) < len(names):
            raise InvalidConfig(
                f"forward_commands has '{entry}'; each entry is NAME=INTERFACE:JOINT,JOINT, with "
                f"one of the interfaces {', '.join(DRIVE_MODES)}",
                field="forward_commands",
            )
        unknown = [joint for joint in names if joint not in joints]
        if unknown:
            raise InvalidConfig(
                f"forward_commands: {name} has joint {', '.join(unknown)}, which this controller "
                "does not have",
                field="forward_commands",
            )
        found.append(ForwardTopic(name, interface, names))
    return tuple(found)
