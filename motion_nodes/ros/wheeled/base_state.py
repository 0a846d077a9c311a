# SPDX-License-Identifier: Apache-2.0
"""``~/controller_state`` of bases for which ros2_controllers defines a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ackermann_msgs.msg import AckermannDrive
from control_msgs.msg import MecanumDriveControllerState, SteeringControllerStatus
from std_srvs.srv import Empty

from motion_nodes.bases.ackermann import AckermannBase
from motion_nodes.bases.base import BaseCommand
from motion_nodes.bases.odometry import Odometry
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.node import MotionNode
from motion_nodes.typing import Array

TOPIC = "~/controller_state"


class StateWriter(Protocol):
    """Publisher of a base's measured and commanded state."""

    def publish(self, position: Array, velocity: Array, command: BaseCommand, stamp: int) -> None:
        """Publish one state.

        Args:
            position: measured angles, wheels first, then steering joints [rad], shape (n,).
            velocity: measured velocities of the same joints [rad/s], shape (n,).
            command: the last command.
            stamp: time of the measurement [ns].
        """
        ...


class SteeringState:
    """State of a base with steered wheels; joints in the node's order."""

    def __init__(
        self,
        node: MotionNode[Any],
        radii: Array,
        wheels: Sequence[int] | None = None,
        steering: Sequence[int] | None = None,
    ) -> None:
        """Create the publisher.

        Args:
            node: the node.
            radii: radii of the driven wheels [m], shape (wheels,).
            wheels: indices of the driven wheels in the order of the message; None: theirs.
            steering: indices of the steering joints in the order of the message; None: theirs.
        """
        self._radii = radii
        self._wheels: Any = slice(None) if wheels is None else list(wheels)
        self._steering: Any = slice(None) if steering is None else list(steering)
        self._out = node.advertise(SteeringControllerStatus, TOPIC)
        self._message = SteeringControllerStatus()

    def publish(self, position: Array, velocity: Array, command: BaseCommand, stamp: int) -> None:
        """Publish one state; wheel commands are rim speeds [m/s]."""
        message, n = self._message, len(self._radii)
        message.traction_wheels_position = position[:n][self._wheels]
        message.traction_wheels_velocity = velocity[:n][self._wheels]
        message.steer_positions = position[n:][self._steering]
        message.linear_velocity_command = (command.wheels * self._radii)[self._wheels]
        message.steering_angle_command = command.steering[self._steering]
        set_stamp(message, stamp)
        self._out.publish(message)


class TricycleTopics:
    """``~/cmd_ackermann`` and ``~/reset_odometry`` of ros2_controllers' tricycle_controller."""

    def __init__(self, node: MotionNode[Any], odometry: Odometry) -> None:
        """Create the publisher and the service.

        Args:
            node: the node.
            odometry: is reset by the service, in the loop.
        """
        self._node, self._odometry = node, odometry
        self._out = node.advertise(AckermannDrive, "~/cmd_ackermann")
        node.serve(Empty, "~/reset_odometry", self._reset)

    def publish(self, base: AckermannBase, command: BaseCommand) -> None:
        """Publish steering angle [rad] and speed of the first wheel [rad/s]."""
        angle, speed = base.steering_angle(command.steering), float(command.wheels[0])
        self._out.publish(AckermannDrive(speed=speed, steering_angle=angle))

    def _reset(self, _: Any, response: Any) -> Any:
        try:
            self._node.in_loop(lambda: self._odometry.set_pose(0.0, 0.0, 0.0))
        except TimeoutError as error:
            self._node.warn("reset", f"odometry not reset: {error}")
        return response


class MecanumState:
    """State of a base with four wheels at the corners of a rectangle."""

    def __init__(self, node: MotionNode[Any], corners: Sequence[int]) -> None:
        """Create the publisher.

        Args:
            node: the node.
            corners: indices of the front left, front right, rear left and rear right wheel.
        """
        self._corners = tuple(corners)
        self._out = node.advertise(MecanumDriveControllerState, TOPIC)
        self._message = MecanumDriveControllerState()

    @staticmethod
    def corners(x: Sequence[float], y: Sequence[float]) -> tuple[int, ...] | None:
        """Return the indices of the wheels at the corners; None unless there are exactly four.

        Args:
            x: positions of the wheels along the x axis [m].
            y: positions along the y axis [m].
        """
        quadrants = [(bx > 0.0, by > 0.0) for bx, by in zip(x, y, strict=True)]
        order = [(True, True), (True, False), (False, True), (False, False)]
        if sorted(quadrants) != sorted(order):
            return None
        return tuple(quadrants.index(quadrant) for quadrant in order)

    def publish(self, position: Array, velocity: Array, command: BaseCommand, stamp: int) -> None:
        """Publish one state."""
        message = self._message
        speeds = [float(velocity[i]) for i in self._corners]
        message.front_left_wheel_velocity, message.front_right_wheel_velocity = speeds[:2]
        message.back_left_wheel_velocity, message.back_right_wheel_velocity = speeds[2:]
        reference = message.reference_velocity
        reference.linear.x, reference.linear.y, reference.angular.z = command.twist
        set_stamp(message, stamp)
        self._out.publish(message)
