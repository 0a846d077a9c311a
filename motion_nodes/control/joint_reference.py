# SPDX-License-Identifier: Apache-2.0
"""Control modes of joints, and the references of their drives."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array


class ControlMode(enum.Enum):
    """Control mode of a joint's drive."""

    POSITION = "position"
    VELOCITY = "velocity"
    EFFORT = "effort"

    @classmethod
    def named(cls, name: str) -> ControlMode:
        """Return the mode with a name.

        Raises:
            InvalidCommand: unknown name; lists the modes.
        """
        try:
            return cls(name)
        except ValueError:
            allowed = ", ".join(mode.value for mode in cls)
            raise InvalidCommand(
                f"control mode '{name}' is not known. Available: {allowed}.", field=name
            ) from None


@dataclass(frozen=True, eq=False)
class JointReference:
    """References of the drives: one value per joint and channel, NaN where there is none.

    A joint in position mode has position and velocity, in velocity mode a velocity, both with an
    acceleration for feedforward; a joint in effort mode has an effort.
    """

    positions: Array
    velocities: Array
    efforts: Array
    accelerations: Array

    @property
    def channels(self) -> tuple[Array, Array, Array, Array]:
        """All channels: positions [rad or m], velocities, efforts [N m or N], accelerations."""
        return self.positions, self.velocities, self.efforts, self.accelerations
