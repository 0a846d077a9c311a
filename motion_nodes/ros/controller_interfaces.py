# SPDX-License-Identifier: Apache-2.0
"""Controllers of a robot and their interfaces, as the controller manager lists them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller_manager_msgs.msg import HardwareInterface

from motion_nodes.errors import UnknownGroup
from motion_nodes.model.robot import Robot
from motion_nodes.ros.names import (
    IMPEDANCE_CONTROLLER,
    IMPEDANCE_GROUP,
    JOINT_CONTROLLER,
    base_controller,
)

INTERFACE_PARAMETERS = (
    "joints", "control_modes", "command_interface", "command_interfaces", "update_rate"
)  # fmt: skip
"""Parameters of the joint controller that define its interfaces."""
MODES = {IMPEDANCE_CONTROLLER: JOINT_CONTROLLER}
"""Controllers that are modes of another one, which must be active when they are."""


def hardware_interface(name: str, *, claimed: bool) -> HardwareInterface:
    """Return the HardwareInterface message of an interface ``joint/kind``."""
    return HardwareInterface(name=name, data_type="double", is_available=True, is_claimed=claimed)


def controllers_of(robot: Robot, base: str = "") -> tuple[str, ...]:
    """Return the names of a robot's controllers, which the bring-up starts.

    Args:
        robot: the robot.
        base: name of the controller of its base; empty: that of its description.
    """
    names = []
    if robot.base is not None:
        names.append(base or base_controller(robot))
    if robot.arm_joints:
        names[:0] = [JOINT_CONTROLLER]
        if impedance_joints(robot):
            names.insert(1, IMPEDANCE_CONTROLLER)
    return tuple(names)


def impedance_joints(robot: Robot) -> tuple[str, ...]:
    """Return the joints of a robot under impedance control; none without such a group."""
    try:
        return robot.group(IMPEDANCE_GROUP).joints
    except UnknownGroup:
        return ()


def interfaces_of(
    name: str, robot: Robot, params: dict[str, Any]
) -> tuple[list[str], Iterable[str]]:
    """Return the interfaces of a controller.

    Args:
        name: of the controller.
        robot: of the controller.
        params: see :data:`INTERFACE_PARAMETERS`; empty if it is unconfigured.

    Returns:
        Required command interfaces, and the joints of its state interfaces.
    """
    if name == IMPEDANCE_CONTROLLER:
        joints = impedance_joints(robot)
        return [f"{j}/effort" for j in joints], joints
    if name != JOINT_CONTROLLER:
        return [f"{j}/{robot.drive(j).mode}" for j in robot.base_joints], robot.base_joints
    joints, modes = params.get("joints") or (), params.get("control_modes") or ()
    given = params.get("command_interfaces")
    if given:
        return [f"{j}/{interface}" for interface in given for j in joints], joints
    if params.get("command_interface") in ("velocity", "effort"):
        modes = (params["command_interface"],)
    per_joint = list(modes) * len(joints) if len(modes) == 1 else modes
    return [f"{j}/{mode}" for j, mode in zip(joints, per_joint, strict=False)], joints
