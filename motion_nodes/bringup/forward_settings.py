# SPDX-License-Identifier: Apache-2.0
"""Settings of the joint controller for forward_command_controllers of parameter files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motion_nodes.model.robot import Robot
from motion_nodes.model.robot_yaml import DRIVE_MODES

OF_TYPE = {
    "position_controllers/JointGroupPositionController": "position",
    "velocity_controllers/JointGroupVelocityController": "velocity",
    "effort_controllers/JointGroupEffortController": "effort",
}
"""Interfaces of controllers that have a fixed one, by type."""

Section = tuple[str, str, Mapping[str, Any]]
"""Name, type and parameters of a controller."""


def forward_settings(
    sections: Sequence[Section], robot: Robot, listed: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    """Return the topics of the joint controller for these controllers, and its control modes.

    Joints that have such controllers of one interface only, and no trajectories, are in its control
    mode; all others keep theirs, since the peer's controllers are switched there.

    Args:
        sections: the controllers.
        robot: whose controllers they are.
        listed: joints given for trajectories; empty: the joint controller has all joints.
        notes: receives what is offered, and what has no effect and why.
    """
    own = list(dict.fromkeys(listed)) or list(robot.arm_joints)
    entries, interfaces = list[str](), dict[str, set[str]]()
    for name, kind, values in sections:
        joints = [str(joint) for joint in values.get("joints") or ()]
        interface = OF_TYPE.get(kind) or str(values.get("interface_name", ""))
        lacking = [joint for joint in joints if joint not in own]
        if interface not in DRIVE_MODES:
            notes.append(
                f"{name} has no effect: its interface '{interface}' is none of "
                f"{', '.join(DRIVE_MODES)}"
            )
        elif not joints or lacking:
            why = f"no controller of {', '.join(lacking)}" if lacking else "no joints are given"
            notes.append(f"{name} has no effect: {why}")
        else:
            entries.append(f"{name}={interface}:{','.join(joints)}")
            notes.append(f"{name}: {name}/commands is served in the control mode {interface}")
            for joint in joints:
                interfaces.setdefault(joint, set()).add(interface)
    if not entries:
        return {}
    settings: dict[str, Any] = {"forward_commands": entries}
    usual = [robot.drive(joint).mode for joint in own]
    only = [interfaces.get(joint, set()) for joint in own]
    modes = [
        next(iter(wanted)) if len(wanted) == 1 else mode
        for wanted, mode in zip(only, usual, strict=True)
    ]
    if not listed and modes != usual:
        settings["control_modes"] = modes
    return settings
