# SPDX-License-Identifier: Apache-2.0
"""Control modes of the joints of one controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from motion_nodes.control.joint_command import CheckedCommand, no_values
from motion_nodes.control.joint_reference import ControlMode, JointReference
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.typing import Array, Mask


class JointModes:
    """Control mode of each joint, and the channels that it uses."""

    def __init__(self, names: Sequence[str], modes: Mapping[str, ControlMode]) -> None:
        """Create the modes of joints.

        Args:
            names: names of the joints.
            modes: control mode by joint; default: position.

        Raises:
            UnknownJoint: ``modes`` names an unknown joint.
        """
        self._names = tuple(names)
        self._modes = [ControlMode.POSITION] * len(names)
        self.position: Mask
        """Joints under position control, shape (n,)."""
        self.effort: Mask
        """Joints under effort control, shape (n,)."""
        self.not_position: Mask
        """Joints that are not under position control, shape (n,)."""
        self.all_position = True
        """Whether all joints are under position control."""
        self._set_masks()
        for name, mode in modes.items():
            self.switch(mode, self.indices([name]))

    def indices(self, names: Sequence[str]) -> list[int]:
        """Return the indices of joints.

        Raises:
            UnknownJoint: a name that is not among the joints.
        """
        for name in names:
            if name not in self._names:
                raise UnknownJoint(name, self._names, "this controller")
        return [self._names.index(name) for name in names]

    def switch(self, mode: ControlMode, joints: Sequence[int]) -> None:
        """Set the mode of joints by index."""
        for i in joints:
            self._modes[i] = mode
        self._set_masks()

    def by_name(self) -> dict[str, ControlMode]:
        """Return the control mode by joint."""
        return dict(zip(self._names, self._modes, strict=True))

    def reference(
        self, positions: Array, velocities: Array, efforts: Array, accelerations: Array
    ) -> JointReference:
        """Return values as a reference, NaN in channels that a mode does not use; may keep arrays.

        Args:
            positions: of all joints [rad or m], shape (n,).
            velocities: [rad/s or m/s], shape (n,).
            efforts: [N m or N], shape (n,).
            accelerations: [rad/s^2 or m/s^2], shape (n,).
        """
        if self.all_position:
            none = no_values(len(self._names)).copy()
            return JointReference(positions, velocities, none, accelerations)
        return JointReference(
            np.where(self.position, positions, np.nan),
            np.where(self.effort, np.nan, velocities),
            np.where(self.effort, efforts, np.nan),
            np.where(self.effort, np.nan, accelerations),
        )

    def check(self, checked: CheckedCommand) -> None:
        """Reject a command to a channel that a joint's control mode does not use.

        Raises:
            InvalidCommand: names the first such joint.
        """
        if self.all_position and checked.efforts is no_values(len(self._names)):
            return
        channels = (
            (checked.positions, self.not_position, "a position"),
            (checked.velocities, self.effort, "a velocity"),
            (checked.efforts, ~self.effort, "an effort"),
        )
        for values, unused, what in channels:
            if values is no_values(len(values)):
                continue
            wrong = unused & ~np.isnan(values)
            if np.count_nonzero(wrong):
                i = int(np.argmax(wrong))
                raise InvalidCommand(
                    f"joint {self._names[i]} is given {what}, but is under "
                    f"{self._modes[i].value} control; switch its mode first",
                    field=self._names[i],
                )

    def require_position(self, names: Sequence[str], rule: str) -> None:
        """Check that joints are under position control.

        Args:
            names: their names.
            rule: what requires it, for the error.

        Raises:
            InvalidCommand: names the first joint that is not.
            UnknownJoint: a name that is not among the joints.
        """
        for i in self.indices(names):
            if self._modes[i] is not ControlMode.POSITION:
                raise InvalidCommand(
                    f"joint {self._names[i]} is under {self._modes[i].value} control; {rule}",
                    field=self._names[i],
                )

    def _set_masks(self) -> None:
        self.position = np.array([mode is ControlMode.POSITION for mode in self._modes])
        self.effort = np.array([mode is ControlMode.EFFORT for mode in self._modes])
        self.not_position = ~self.position
        self.all_position = bool(self.position.all())
