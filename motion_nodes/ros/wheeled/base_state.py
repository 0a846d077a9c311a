# SPDX-License-Identifier: Apache-2.0
"""``~/controller_state`` of the bases for which ros2_controllers has a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from control_msgs.msg import MecanumDriveControllerState, SteeringControllerStatus

from motion_nodes.bases.base import Array, BaseCommand
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.node import MotionNode

TOPIC = "~/controller_state"


class StateWriter(Protocol):
    """Publishes what a base's joints do and were told."""

    def publish(self, position: Array, velocity: Array, told: BaseCommand, stamp: int) -> None:
        """Publish one state.

        Args:
            position: measured angles [rad], wheels first, then steering joints.
            velocity: measured speeds of the same joints [rad/s].
            told: what was commanded last.
            stamp: time of the measurement [ns].
        """
        ...


class SteeringState:
    """Of a base on steered wheels; wheels and steering joints in the node's order."""

    def __init__(self, node: MotionNode[Any], radii: Array) -> None:
        """Create the publisher.

        Args:
            node: whose topic it is.
            radii: of the driven wheels [m], shape (wheels,).
        """
        self._radii = radii
        self._out = node.advertise(SteeringControllerStatus, TOPIC)
        self._message = SteeringControllerStatus()

    def publish(self, position: Array, velocity: Array, told: BaseCommand, stamp: int) -> None:
        """Publish one state; the command of each wheel is the speed of its tread [m/s]."""
        message, n = self._message, len(self._radii)
        message.traction_wheels_position = position[:n]
        message.traction_wheels_velocity = velocity[:n]
        message.steer_positions = position[n:]
        message.linear_velocity_command = told.wheels * self._radii
        message.steering_angle_command = told.steering
        set_stamp(message, stamp)
        self._out.publish(message)


class MecanumState:
    """Of a base on four wheels at the corners of a rectangle."""

    def __init__(self, node: MotionNode[Any], corners: Sequence[int]) -> None:
        """Create the publisher.

        Args:
            node: whose topic it is.
            corners: which wheel is front left, front right, rear left and rear right.
        """
        self._corners = tuple(corners)
        self._out = node.advertise(MecanumDriveControllerState, TOPIC)
        self._message = MecanumDriveControllerState()

    @staticmethod
    def corners(x: Sequence[float], y: Sequence[float]) -> tuple[int, ...] | None:
        """Return which wheels stand at the corners, or None where there are not just four."""
        quadrants = [(bx > 0.0, by > 0.0) for bx, by in zip(x, y, strict=True)]
        wanted = [(True, True), (True, False), (False, True), (False, False)]
        if sorted(quadrants) != sorted(wanted):
            return None
        return tuple(quadrants.index(quadrant) for quadrant in wanted)

    def publish(self, position: Array, velocity: Array, told: BaseCommand, stamp: int) -> None:
        """Publish one state."""
        message = self._message
        speeds = [float(velocity[i]) for i in self._corners]
        message.front_left_wheel_velocity, message.front_right_wheel_velocity = speeds[:2]
        message.back_left_wheel_velocity, message.back_right_wheel_velocity = speeds[2:]
        reference = message.reference_velocity
        reference.linear.x, reference.linear.y, reference.angular.z = told.twist
        set_stamp(message, stamp)
        self._out.publish(message)
