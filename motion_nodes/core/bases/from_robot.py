# SPDX-License-Identifier: Apache-2.0
"""Kinematics of a robot's base, from its description.

The holonomic base of a robot's description.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.core.bases.ackermann import AckermannBase
from motion_nodes.core.bases.ackermann_robot import ackermann_config
from motion_nodes.core.bases.base import WheeledBase
from motion_nodes.core.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.core.bases.holonomic import (
    HolonomicConfig,
    HolonomicWheel,
    axis_yaw_of,
    holonomic_base,
)
from motion_nodes.core.robot.base_description import AckermannSpec, DifferentialSpec, HolonomicSpec
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_builder import wheel_place
from motion_nodes.errors import InvalidConfig


def holonomic_config(robot: Robot, spec: HolonomicSpec) -> HolonomicConfig:
    """Return the geometry: positions and axes from the URDF, radii and angles from the description.

    Raises:
        InvalidConfig: invalid wheels.
        InvalidDescription: a moving joint between base and wheel.
    """
    wheels = []
    for wheel in spec.wheels:
        place = wheel_place(robot.tree, wheel.joint, robot.base_frame)
        # Both are set when the robot is loaded.
        assert wheel.radius is not None
        assert wheel.roller_angle_deg is not None
        wheels.append(
            HolonomicWheel(
                name=wheel.joint,
                radius=wheel.radius,
                x=float(place.position[0]),
                y=float(place.position[1]),
                axis_yaw=axis_yaw_of(place.axis, wheel.joint),
                roller_angle_deg=wheel.roller_angle_deg,
            )
        )
    return HolonomicConfig(wheels=tuple(wheels))


def base_of(robot: Robot) -> WheeledBase:
    """Return the base's kinematics.

    Raises:
        InvalidConfig: the robot is not mobile.
    """
    spec = robot.base
    if isinstance(spec, DifferentialSpec):
        return DifferentialBase(
            DifferentialConfig(
                left_wheel_names=spec.left_wheel_names,
                right_wheel_names=spec.right_wheel_names,
                wheel_radius=spec.wheel_radius,
                wheel_separation=spec.wheel_separation,
            )
        )
    if isinstance(spec, HolonomicSpec):
        return holonomic_base(holonomic_config(robot, spec), spec.solver)
    if isinstance(spec, AckermannSpec):
        return AckermannBase(ackermann_config(robot, spec))
    raise InvalidConfig(f"robot '{robot.name}' is of kind '{robot.kind}'; it has no wheeled base")


def root_height(robot: Robot) -> float:
    """Return the height of the root link above the ground under the wheels [m].

    Raises:
        InvalidConfig: the robot is not mobile.
    """
    base = base_of(robot)
    tree = robot.tree
    X_RJ = np.eye(4)
    for joint in robot.chain(tree.root, tree.joint(base.wheel_names[0]).child):
        X_RJ = X_RJ @ joint.X_PJ
    return float(base.wheel_radii[0] - X_RJ[2, 3])
