# SPDX-License-Identifier: Apache-2.0
"""Joint commands, and their validation as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.model.bounds import (
    EFFORT,
    JOINT_POSITION,
    NAMES,
    VELOCITY,
    check_count,
    check_numbers,
    repeated,
)
from motion_nodes.model.limits import JointLimits

Array = NDArray[np.float64]
Channel = Sequence[float | None] | Array

CHANNELS = ("positions", "velocities", "efforts")
POSITION_TOLERANCE = 1e-6
"""[rad or m] A position this far outside its limit is clamped to it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class JointCommand:
    """Command to some joints.

    A channel that is None, or an element that is None or NaN, keeps the previous target of that
    joint and channel. Zero is a valid target.
    """

    positions: Channel | None = None
    """Positions [rad or m]."""
    velocities: Channel | None = None
    """Velocities [rad/s or m/s]."""
    efforts: Channel | None = None
    """Efforts [N m or N]."""
    names: Sequence[str] | None = None
    """Joints by name; takes precedence over ``indices``. If both are None: all joints in order."""
    indices: Sequence[int] | None = None
    """Joints by index in the controller's order."""


@dataclass(frozen=True, eq=False)
class CheckedCommand:
    """A validated command: one full-length array per channel, NaN for no value."""

    positions: Array
    velocities: Array
    efforts: Array

    @property
    def given(self) -> NDArray[np.bool_]:
        """Joints with a target, shape (n,)."""
        said = ~(np.isnan(self.positions) & np.isnan(self.velocities) & np.isnan(self.efforts))
        return np.asarray(said)

    def without(self, joints: NDArray[np.bool_]) -> CheckedCommand:
        """Return the command without some joints, mask of shape (n,)."""
        return CheckedCommand(
            np.where(joints, np.nan, self.positions),
            np.where(joints, np.nan, self.velocities),
            np.where(joints, np.nan, self.efforts),
        )


def select_joints(command: JointCommand, joint_names: Sequence[str]) -> NDArray[np.intp]:
    """Return the addressed joints as indices into ``joint_names``, shape (k,).

    Args:
        command: the command.
        joint_names: joints of the controller.

    Raises:
        InvalidCommand: a joint is addressed twice, or an index is out of range.
        UnknownJoint: a name that is not among the joints.
    """
    for given in (command.names, command.indices):
        if given is not None and not isinstance(given, str):
            check_count(len(given), NAMES, "the list of joints")
    if isinstance(command.names, str):
        raise InvalidCommand(
            f"names is the text '{command.names}'; give a list of joint names", field="names"
        )
    if command.names is not None and len(command.names) > 0:
        where = {name: i for i, name in enumerate(joint_names)}
        for name in command.names:
            if name not in where:
                raise UnknownJoint(name, joint_names, "this controller")
        chosen = [where[name] for name in command.names]
    elif command.indices is not None:
        chosen = [_checked_index(index, len(joint_names)) for index in command.indices]
    else:
        chosen = list(range(len(joint_names)))
    twice = repeated(joint_names[i] for i in chosen)
    if twice:
        raise InvalidCommand(
            f"joint {', '.join(twice)} is addressed more than once in one command", field=twice[0]
        )
    return np.array(chosen, dtype=np.intp)


def _checked_index(index: object, count: int) -> int:
    whole = not isinstance(index, bool | np.bool_) and index in range(count)
    if not whole:
        raise InvalidCommand(
            f"joint index {index} is not allowed; this controller has indices 0 to {count - 1}",
            field="indices",
        )
    return int(index)  # type: ignore[call-overload, no-any-return]


def check_command(command: JointCommand, limits: JointLimits) -> CheckedCommand:
    """Validate a command as a whole.

    Args:
        command: the command.
        limits: limits of all joints of the controller, which also define their names.

    Returns:
        The command expanded to all joints.

    Raises:
        InvalidCommand: wrong length, infinite value, position outside its limits, or effort
            together with position or velocity on one joint.
        UnknownJoint: a name that is not among the joints.
    """
    chosen = select_joints(command, limits.names)
    channels = [_spread(command, name, chosen, limits.names) for name in CHANNELS]
    positions, velocities, efforts = channels
    mixed = ~np.isnan(efforts) & ~(np.isnan(positions) & np.isnan(velocities))
    if mixed.any():
        raise InvalidCommand(
            f"joint {_list(limits.names, mixed)} is given an effort together with a position or "
            "velocity; give either the effort, or position and velocity",
            field="efforts",
        )
    # Comparisons with NaN are false, so joints without a value pass.
    outside = (positions < limits.lower - POSITION_TOLERANCE) | (
        positions > limits.upper + POSITION_TOLERANCE
    )
    if outside.any():
        i = int(np.argmax(outside))
        raise InvalidCommand(
            f"position {positions[i]:.6g} of joint {limits.names[i]} is outside its limits "
            f"{limits.lower[i]:.6g} to {limits.upper[i]:.6g}",
            field=limits.names[i],
        )
    check_numbers(positions, JOINT_POSITION, "position", limits.names)
    check_numbers(velocities, VELOCITY, "velocity", limits.names)
    check_numbers(efforts, EFFORT, "effort", limits.names)
    return CheckedCommand(np.clip(positions, limits.lower, limits.upper), velocities, efforts)


def _spread(
    command: JointCommand, channel: str, chosen: NDArray[np.intp], names: Sequence[str]
) -> Array:
    spread = np.full(len(names), np.nan)
    given: Channel | None = getattr(command, channel)
    if given is None:
        return spread
    try:
        values = np.array([np.nan if value is None else value for value in given], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidCommand(
            f"{channel} must be a list of numbers: {error}", field=channel
        ) from error
    if values.ndim != 1:
        raise InvalidCommand(
            f"{channel} must be a plain list, not one of shape {values.shape}", field=channel
        )
    if len(values) != len(chosen):
        raise InvalidCommand(
            f"{len(values)} {channel} given for {len(chosen)} joints "
            f"({', '.join(names[i] for i in chosen)}); give one each, NaN to leave one as it is",
            field=channel,
        )
    if np.isinf(values).any():
        i = int(np.argmax(np.isinf(values)))
        raise InvalidCommand(
            f"{channel} of joint {names[chosen[i]]} is {values[i]}; give a number",
            field=names[chosen[i]],
        )
    spread[chosen] = values
    return spread


def _list(names: Sequence[str], mask: NDArray[np.bool_]) -> str:
    return ", ".join(name for name, hit in zip(names, mask, strict=True) if hit)


def check_modes(checked: CheckedCommand, names: Sequence[str], modes: Sequence[str]) -> None:
    """Reject a command to a channel that a joint's control mode does not use.

    Args:
        checked: the command.
        names: names of all joints.
        modes: control modes: ``position``, ``velocity`` or ``effort``.

    Raises:
        InvalidCommand: names the first such joint.
    """
    used = {"position": "pv", "velocity": "v", "effort": "e"}
    channels = (
        (checked.positions, "p", "a position"),
        (checked.velocities, "v", "a velocity"),
        (checked.efforts, "e", "an effort"),
    )
    for values, channel, what in channels:
        for i in np.flatnonzero(~np.isnan(values)).tolist():
            if channel not in used[modes[i]]:
                raise InvalidCommand(
                    f"joint {names[i]} is given {what}, but is under {modes[i]} control; "
                    "switch its mode first",
                    field=names[i],
                )
