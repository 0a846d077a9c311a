# SPDX-License-Identifier: Apache-2.0
"""Kinematics of a robot's base, from its description.

Positions of wheels and limits of steering joints are those of its URDF.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.core.bases.ackermann import (
    NO_TRACK,
    AckermannBase,
    AckermannConfig,
    AckermannGeometry,
)
from motion_nodes.core.bases.base import WheeledBase
from motion_nodes.core.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.core.bases.holonomic import (
    HolonomicConfig,
    HolonomicWheel,
    axis_yaw_of,
    holonomic_base,
)
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_builder import wheel_place
from motion_nodes.core.robot.robot_yaml import AckermannSpec, DifferentialSpec, HolonomicSpec
from motion_nodes.errors import InvalidConfig, UnknownJoint
from motion_nodes.typing import Array

ALIKE = 0.05
"""Max distance of the steering joints in the URDF from one line across the car [m]."""

MAX_WHEEL_ANGLE = 1.5
"""Max angle of a steered wheel, for joints with a larger range [rad]."""


def ackermann_config(robot: Robot, spec: AckermannSpec) -> AckermannConfig:
    """Return joints, geometry and limits of a car.

    The positions of the axles are those of the URDF: the steering joints define one of them, the
    other is a wheelbase away. The URDF's limits of the steering joints apply in addition to those
    of robot.yaml.

    Raises:
        InvalidConfig: joints with the wrong sign, or steering joints that are not on one axle.
    """
    geometry = _geometry(spec)
    return AckermannConfig(
        geometry=geometry,
        steering_joint_names=spec.steering_joint_names,
        front_wheel_names=spec.front_wheel_names,
        rear_wheel_names=spec.rear_wheel_names,
        fixed_axle_x=_steered_axle_x(robot, spec) - geometry.steered_x,
        max_steering_angle=_or_nan(spec.max_steering_angle),
        max_wheel_angle=max_wheel_angle(robot, spec.steering_joint_names),
        max_steering_velocity=_or_nan(spec.max_steering_velocity),
    )


def left_first(robot: Robot, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the joints of an axle, the left one first, by their positions in the URDF.

    Controllers of ros2_controllers are given the right one first.
    """
    if len(names) != 2 or not set(names) <= set(robot.joint_names):
        return names
    left, right = (_joint_in_base(robot, name)[0][1, 3] for name in names)
    return names if left >= right else names[::-1]


def max_wheel_angle(robot: Robot, steering_joint_names: tuple[str, ...]) -> float:
    """Return the max angle of the steering joints to either side [rad].

    Raises:
        InvalidConfig: an unknown joint, or one that does not turn to both sides.
    """
    angles = []
    for name in steering_joint_names:
        if name not in robot.joint_names:
            raise InvalidConfig(str(UnknownJoint(name, robot.joint_names, robot.name)))
        joint = robot.tree.joint(name)
        if not joint.lower < 0.0 < joint.upper:
            raise InvalidConfig(
                f"steering joint '{name}' of robot '{robot.name}' turns from {joint.lower} to "
                f"{joint.upper} rad; it must turn to both sides of 0, which is straight ahead"
            )
        angles += [-joint.lower, joint.upper]
    return min(angles)


def max_steering_angle(robot: Robot, spec: AckermannSpec) -> float:
    """Return the max steering angle of the virtual middle wheel [rad].

    It is that of the description, or else the one at which the inner wheel reaches its limit.

    Raises:
        InvalidConfig: see :func:`max_wheel_angle`.
    """
    if spec.max_steering_angle is not None:
        return spec.max_steering_angle
    geometry = _geometry(spec)
    inner = min(max_wheel_angle(robot, spec.steering_joint_names), MAX_WHEEL_ANGLE)
    return geometry.steering_angle(geometry.max_curvature(max_wheel_angle=inner))


def _geometry(spec: AckermannSpec) -> AckermannGeometry:
    return AckermannGeometry(
        wheelbase=spec.wheelbase,
        front_track_width=spec.front_track_width or NO_TRACK,
        rear_track_width=spec.rear_track_width or NO_TRACK,
        front_wheel_radius=spec.front_wheel_radius,
        rear_wheel_radius=spec.rear_wheel_radius,
        steered_axle=spec.steered_axle,
        rear_steering_angles=spec.rear_steering_angles,
    )


def _steered_axle_x(robot: Robot, spec: AckermannSpec) -> float:
    """Return the mean position of the steered axles ahead of the base frame [m]."""
    places = []
    for name in spec.steering_joint_names:
        X_BJ, axis = _joint_in_base(robot, name)
        if axis[2] <= 0.0:
            raise InvalidConfig(
                f"steering joint '{name}' of robot '{robot.name}' turns right for positive angles; "
                "reverse its axis in the URDF, so that it points up",
                field=name,
            )
        places.append(X_BJ[:2, 3])
    for name in spec.wheel_names:
        if _joint_in_base(robot, name)[1][1] <= 0.0:
            raise InvalidConfig(
                f"wheel joint '{name}' of robot '{robot.name}' rolls backward for positive speeds; "
                "reverse its axis in the URDF, so that it points left",
                field=name,
            )
    if len(places) == 1:
        if abs(places[0][1]) > ALIKE:
            raise InvalidConfig(
                f"the steering joint of robot '{robot.name}' is {places[0][1]:g} m beside the base "
                "frame; a single one must be in the middle",
                field="steering_joint_names",
            )
        return float(places[0][0])
    axles = [_axle_x(robot, *places[i : i + 2]) for i in range(0, len(places), 2)]
    return axles[0] if len(axles) == 1 else _middle_x(robot, spec, axles)


def _axle_x(robot: Robot, left: Array, right: Array) -> float:
    """Return the position of an axle with two steering joints ahead of the base frame [m]."""
    if left[1] <= right[1] or abs(left[0] - right[0]) > ALIKE:
        raise InvalidConfig(
            f"steering joints of robot '{robot.name}' are at (x, y) = ({left[0]:g}, {left[1]:g}) m "
            f"and ({right[0]:g}, {right[1]:g}) m of the base frame; the first must be to the left "
            "of the second, on the same axle",
            field="steering_joint_names",
        )
    return float(0.5 * (left[0] + right[0]))


def _middle_x(robot: Robot, spec: AckermannSpec, axles: list[float]) -> float:
    """Return the position of the middle between two steered axles ahead of the base frame [m]."""
    front, rear = axles
    if abs(front - rear - spec.wheelbase) > ALIKE:
        raise InvalidConfig(
            f"steering joints of robot '{robot.name}' are at x = {front:g} m and {rear:g} m of the "
            "base frame; with both axles steered the first two must be the wheelbase "
            f"{spec.wheelbase:g} m ahead of the others",
            field="steering_joint_names",
        )
    return 0.5 * (front + rear)


def _joint_in_base(robot: Robot, name: str) -> tuple[Array, Array]:
    """Return ``X_BJ`` of a joint and its axis in the base frame, all joints at zero."""
    tree = robot.tree
    poses = []
    for link in (robot.base_frame, tree.joint(name).child):
        X = np.eye(4)
        for joint in tree.path(tree.root, link):
            X = X @ joint.X_PJ
        poses.append(X)
    X_BJ = inverse(poses[0]) @ poses[1]
    return X_BJ, X_BJ[:3, :3] @ tree.joint(name).axis


def _or_nan(limit: float | None) -> float:
    return math.nan if limit is None else limit


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
                left_wheel_radius_multiplier=spec.left_wheel_radius_multiplier,
                right_wheel_radius_multiplier=spec.right_wheel_radius_multiplier,
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
