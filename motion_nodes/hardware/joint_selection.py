# SPDX-License-Identifier: Apache-2.0
"""Validation of the joints that the settings of a driver name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from motion_nodes.errors import InvalidDescription, UnknownJoint
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import JointKind


def require_joints(robot: Robot, joints: Iterable[str]) -> None:
    """Check that a robot has the joints of a driver's settings.

    Raises:
        UnknownJoint: names the first joint that it does not have.
    """
    for joint in joints:
        if joint not in robot.joint_names:
            raise UnknownJoint(joint, robot.joint_names, f"hardware of {robot.name}")


def select_joints(
    robot: Robot, joints: Sequence[str], counts: Sequence[int], rule: str, field: str = "joints"
) -> tuple[str, ...]:
    """Return the joints of a driver.

    Args:
        robot: the robot.
        joints: joints of the settings, or those found in the robot's description.
        counts: allowed numbers of joints.
        rule: these numbers as text, for errors, such as "an arm has 6 joints".
        field: name of the setting.

    Raises:
        UnknownJoint: a joint that the robot does not have.
        InvalidDescription: another number of joints, or a joint that is named twice.
    """
    require_joints(robot, joints)
    if len(joints) not in counts or len(set(joints)) != len(joints):
        raise InvalidDescription(
            f"{robot.name}: {rule}, not {len(set(joints))}; name them in hardware.settings.{field}",
            field=f"hardware.settings.{field}",
        )
    return tuple(joints)


def revolute_arm_joints(robot: Robot) -> tuple[str, ...]:
    """Return the joints of the arm that are not prismatic, from the base on."""
    kinds = {name: robot.tree.joint(name).kind for name in robot.arm_joints}
    return tuple(name for name, kind in kinds.items() if kind is not JointKind.PRISMATIC)
