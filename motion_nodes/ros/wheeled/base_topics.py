# SPDX-License-Identifier: Apache-2.0
"""Topics of a base: twist commands in; odometry and the state of its controller out.

Odometry is published as nav_msgs/Odometry and on /tf, with preallocated messages;
``~/controller_state`` for bases for which ros2_controllers defines a message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from ackermann_msgs.msg import AckermannDrive
from control_msgs.msg import MecanumDriveControllerState, SteeringControllerStatus
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry as OdometryMessage
from std_srvs.srv import Empty
from tf2_msgs.msg import TFMessage

from motion_nodes.core.bases.ackermann import AckermannBase
from motion_nodes.core.bases.base import BaseCommand, Twist2
from motion_nodes.core.bases.odometry import Odometry
from motion_nodes.core.control.state_plausibility import SenderWatch
from motion_nodes.core.robot.poses import from_xyz_quat, inverse, to_quat_xyzw
from motion_nodes.core.robot.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.endpoint_node import subscribed
from motion_nodes.ros.joint_topics import set_stamp, stamp_ns
from motion_nodes.ros.messages.cdr import MessageTemplate
from motion_nodes.ros.node import MotionNode, RobotNode
from motion_nodes.ros.ros_time import command_time
from motion_nodes.ros.transforms import TransformBuffer, frame_id, frame_prefix
from motion_nodes.ros.wheeled.wheeled_base_params import WheeledBaseParams
from motion_nodes.typing import Array

RESTART_PAUSE = 0.5
"""[s] After a stop, a stream must pause for this long before it is accepted again."""


class StreamPauses:
    """Refuses streams from before a stop until they pause."""

    def __init__(self) -> None:
        """Accept all streams."""
        self._newest: dict[PolledSubscription[Any], tuple[float, float]] = {}
        """Source time stamp and time of arrival of each topic's newest message [s]."""
        self._restarted: set[PolledSubscription[Any]] | None = None
        """Topics that paused since the last stop; None before the first stop."""

    def suspend(self) -> None:
        """Refuse current streams until they pause: the suite was stopped or resumed."""
        self._restarted = set()

    def admit(self) -> None:
        """Accept all streams: the node was activated."""
        self._restarted = None

    def continues(self, topic: PolledSubscription[Any], sent: float, timeout: float) -> str:
        """Return why a message continues a stream from before a stop; empty if it does not.

        Args:
            topic: its topic.
            sent: source time stamp [s].
            timeout: timeout of commands [s], which a stream must exceed to pause; infinite: none.
        """
        pause = RESTART_PAUSE if math.isinf(timeout) else max(timeout, RESTART_PAUSE)
        never = (-math.inf, -math.inf)
        before = self._newest.get(topic, never)
        # By both clocks: this node may stall, and clocks of publishers may differ.
        paused = min(sent - before[0], topic.polled - before[1]) > pause
        self._newest[topic] = sent, topic.polled
        if self._restarted is None:
            return ""
        if paused:
            self._restarted.add(topic)
        if topic in self._restarted:
            return ""
        return f"its stream started before the resume; it must pause for {pause:g} s"


class TwistInputs:
    """The command topics of a base, stamped and unstamped."""

    def __init__(
        self, node: MotionNode[Any], *, stamped_cmd_vel: bool, unstamped_reference: bool = False
    ) -> None:
        """Create the subscriptions.

        Args:
            node: the node.
            stamped_cmd_vel: message type of ``cmd_vel``: TwistStamped, else Twist.
            unstamped_reference: subscribe to ``~/reference_unstamped``, too.
        """
        self.pauses = StreamPauses()
        """Of all its topics."""
        self._node = node
        self._topics: tuple[PolledSubscription[Any], ...] = (
            node.poll(TwistStamped, "~/cmd_vel", qos.COMMANDS),
            node.poll(TwistStamped, "~/reference", qos.COMMANDS),
            node.poll(Twist, "~/cmd_vel_unstamped", qos.COMMANDS),
            node.poll(TwistStamped if stamped_cmd_vel else Twist, "cmd_vel", qos.COMMANDS),
        )
        if unstamped_reference:
            self._topics += (node.poll(Twist, "~/reference_unstamped", qos.COMMANDS),)
        self.senders = SenderWatch()

    def take(self, now: float, timeout: float, refusal: str) -> list[tuple[Twist2, float]]:
        """Return pending commands, each with its time [s], oldest first.

        Args:
            now: current time of this node [s].
            timeout: max age of a command; older ones are dropped with a warning [s].
            refusal: why commands are refused now, as text; empty if they are not.
        """
        commands = []
        for topic in self._topics:
            # The depth of the queue bounds the work of a cycle.
            for message, number, sent in topic.traced():
                self.senders.received(topic.topic, number, now)
                continues = self.pauses.continues(topic, sent, timeout)
                refused = refusal or continues
                if refused:
                    self._node.warn("refused", f"command refused: {refused}")
                    continue
                stamped = isinstance(message, TwistStamped)
                given = self._time_of(message, now, timeout) if stamped else now
                if given is not None:
                    t = message.twist if stamped else message
                    commands.append((Twist2(t.linear.x, t.linear.y, t.angular.z), given))
        return sorted(commands, key=lambda command: command[1])

    def _time_of(self, message: TwistStamped, now: float, timeout: float) -> float | None:
        if math.isinf(timeout):
            return now  # the last one that arrives is valid, of any age
        given, warning = command_time(stamp_ns(message) * 1e-9, now, timeout)
        if warning:
            self._node.warn("stale" if given is None else "ahead", warning)
        return given


_DIAGONAL = np.arange(0, 36, 7)
"""Indices of the diagonal of a 6 x 6 row-major matrix."""
TOPIC = "~/controller_state"
_WRITTEN = {
    "pose.pose.position.x": 0,
    "pose.pose.position.y": 0,
    "pose.pose.orientation.z": 0,
    "pose.pose.orientation.w": 0,
    "twist.twist.linear.x": 0,
    "twist.twist.linear.y": 0,
    "twist.twist.angular.z": 0,
    "pose.covariance": 36,
}
"""Fields of an odometry message that change, and their lengths; 0: a number."""
_PLANAR = np.array([(6 * row + column) for row in (0, 1, 5) for column in (0, 1, 5)])
"""Indices of x, y and yaw in it."""


class RegularMoments:
    """Decimation: selects the measurements nearest to a fixed rate."""

    def __init__(self, rate: float) -> None:
        """Select at a rate [Hz]; 0 selects all."""
        self._period = 1e9 / rate if rate > 0.0 else 0.0
        self._due = 0.0
        self._last = 0

    def is_due(self, stamp: int) -> bool:
        """Return whether to publish the measurement at a time [ns]."""
        step, self._last = stamp - self._last, stamp
        if self._period == 0.0:
            return True
        early = self._due - stamp
        if 0.5 * step < early <= self._period and step > 0:
            return False
        # After a gap or a jump of time, the schedule restarts.
        regular = -step <= early <= self._period and step > 0
        self._due = (self._due if regular else stamp) + self._period
        return True


def root_in_base(robot: Robot, base_frame: str) -> tuple[str, Array]:
    """Return the root of a robot's description, and its pose in the base frame.

    Args:
        robot: the robot.
        base_frame: name of the base frame.

    Returns:
        The root and ``X_BR``, shape (4, 4). The base frame itself, and no offset, if it is the
        root, no link, or moved by a joint.
    """
    tree, X_RB = robot.tree, np.eye(4)
    if base_frame not in tree.links:
        return base_frame, X_RB
    for joint in tree.path(tree.root, base_frame):
        if joint.movable:
            return base_frame, np.eye(4)
        X_RB = X_RB @ joint.X_PJ
    return tree.root, inverse(X_RB)


class OdometryPublisher:
    """Publishes ``~/odom`` and the base on ``/tf``; on request on ``~/odometry``, too.

    The child on ``/tf`` is the root of the description, of which the base frame is a rigid part:
    a frame has one parent, and ``robot_state`` publishes what is below the root. Nothing is
    published while nobody subscribes.
    """

    def __init__(
        self, node: RobotNode[Any], params: WheeledBaseParams, *, twice: bool = False
    ) -> None:
        """Create the publishers.

        Args:
            node: the node.
            params: its parameters.
            twice: also publish ``~/odometry`` and ``~/tf_odometry``, the topics of steering and
                mecanum controllers of ros2_controllers.
        """
        self._node = node
        self._odom_out = [node.advertise(OdometryMessage, "~/odom")]
        self._tf_out = [node.advertise(TFMessage, "/tf", qos.TF)]
        if twice:
            self._odom_out.append(node.advertise(OdometryMessage, "~/odometry"))
            self._tf_out.append(node.advertise(TFMessage, "~/tf_odometry"))
        self.configure(params)

    def configure(self, params: WheeledBaseParams) -> None:
        """Apply frames, covariances and rate."""
        self._with_tf = params.enable_odom_tf
        self._moments = RegularMoments(params.publish_rate)
        enabled = params.tf_frame_prefix_enable
        prefix = frame_prefix(self._node, params.tf_frame_prefix) if enabled else ""
        message = OdometryMessage()
        message.header.frame_id = frame_id(prefix, params.odom_frame_id)
        message.child_frame_id = frame_id(prefix, params.base_frame_id)
        self.base_frame: str = message.child_frame_id
        """Name of the base frame, with prefix."""
        self._pose_covariance, twist = np.zeros(36), np.zeros(36)
        for covariance, kind in ((self._pose_covariance, "pose"), (twist, "twist")):
            usual = getattr(params, f"{kind}_covariance_diagonal")
            covariance[_DIAGONAL] = getattr(params, f"diagonal_covariance_{kind}", ()) or usual
        message.twist.covariance = twist
        root, self._X_BR = root_in_base(self._node.robot, params.base_frame_id)
        self._height = -float(self._X_BR[2, 3]) if root != params.base_frame_id else 0.0
        message.pose.pose.position.z = self._height
        self._odom = MessageTemplate(message, _WRITTEN)
        self._tf = TransformBuffer([(message.header.frame_id, frame_id(prefix, root))])

    def publish(self, odometry: Odometry, stamp: int) -> bool:
        """Publish the odometry at a time [ns], unless the rate skips it; return whether it did."""
        if not self._moments.is_due(stamp):
            return False
        z, w = math.sin(0.5 * odometry.yaw), math.cos(0.5 * odometry.yaw)
        if listened := subscribed(self._odom_out):
            covariance = self._pose_covariance
            if odometry.config.errors_grow:
                covariance = covariance.copy()
                covariance[_PLANAR] += odometry.covariance.ravel()
            values: tuple[Array | float, ...] = (
                odometry.x, odometry.y, z, w, *odometry.twist, covariance,
            )  # fmt: skip
            for array, value in zip(self._odom.arrays.values(), values, strict=True):
                array[:] = value
            data = self._odom.bytes(stamp)
            for publisher in listened:
                publisher.publish(data)
        if self._with_tf and (listened := subscribed(self._tf_out)):
            X_OB = from_xyz_quat((odometry.x, odometry.y, self._height), (0.0, 0.0, z, w))
            X_OR = X_OB @ self._X_BR
            data = self._tf.bytes(X_OR[None, :3, 3], to_quat_xyzw(X_OR)[None], stamp)
            for publisher in listened:
                publisher.publish(data)
        return True


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
