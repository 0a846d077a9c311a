# SPDX-License-Identifier: Apache-2.0
"""The holonomic base of a robot's description."""

from __future__ import annotations

from motion_nodes.bases.holonomic import HolonomicConfig
from motion_nodes.bases.holonomic_layout import HolonomicWheel, axis_yaw_of
from motion_nodes.model.base_description import HolonomicSpec
from motion_nodes.model.robot import Robot
from motion_nodes.model.roller_wheels import wheel_place


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
