# SPDX-License-Identifier: Apache-2.0
"""Base class of nodes of wheeled bases, and its topics: twists in; wheel commands and odometry out.

Odometry is published as nav_msgs/Odometry and on /tf, with preallocated messages;
``~/controller_state`` for bases for which ros2_controllers defines a message.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from control_msgs.srv import SetOdometry
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry as OdometryMessage
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from motion_nodes.core.bases.base import BaseCommand, Twist2, WheeledBase
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.core.bases.odometry import Odometry
from motion_nodes.core.control.state_plausibility import SenderWatch
from motion_nodes.core.robot.poses import from_xyz_quat, inverse, to_quat_xyzw
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.endpoint_node import subscribed
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter, stamp_ns
from motion_nodes.ros.messages.cdr import MessageTemplate
from motion_nodes.ros.node import MotionNode, RobotNode
from motion_nodes.ros.ros_time import command_time
from motion_nodes.ros.transforms import TransformBuffer, frame_id, frame_prefix
from motion_nodes.ros.wheeled.wheeled_base_params import (
    WheeledBaseParams,
    core_config,
    limit_overrides,
)
from motion_nodes.typing import Array

BASE_REST_SPEED = 0.01
"""[m/s and rad/s] Velocity of base and wheel commands below which the base is at rest."""
RESTART_PAUSE = 0.5
"""[s] After a stop, a stream must pause for this long before it is accepted again."""
CONTROLLER_STATE = "controller_state"
"""Topic of the state of a base and its commands, below the controller's name."""

_DIAGONAL = np.arange(0, 36, 7)
"""Indices of the diagonal of a 6 x 6 row-major matrix."""
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
_TWIST = {"twist.linear.x": 0, "twist.linear.y": 0, "twist.angular.z": 0}
"""Numbers of a twist message that change."""

B = TypeVar("B", bound=WheeledBaseParams)


class StreamPauses:
    """Refuses streams from before a stop until they pause."""

    def __init__(self) -> None:
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
        self,
        node: MotionNode[Any],
        *,
        stamped_cmd_vel: bool,
        unstamped_reference: bool = False,
        aliases: Sequence[str] = (),
    ) -> None:
        """Create the subscriptions.

        Args:
            node: the node.
            stamped_cmd_vel: message type of ``cmd_vel``: TwistStamped, else Twist.
            unstamped_reference: subscribe to ``~/reference_unstamped``, too.
            aliases: names of other controllers, whose topics are subscribed to, too.
        """
        self.pauses = StreamPauses()
        """Of all its topics."""
        self._node = node
        kinds = {"cmd_vel": TwistStamped, "reference": TwistStamped, "cmd_vel_unstamped": Twist}
        if unstamped_reference:
            kinds["reference_unstamped"] = Twist
        topics = {f"{own}/{name}": k for own in ("~", *aliases) for name, k in kinds.items()}
        topics["cmd_vel"] = TwistStamped if stamped_cmd_vel else Twist
        self._topics: tuple[PolledSubscription[Any], ...] = tuple(
            node.poll(kind, name, qos.COMMANDS) for name, kind in topics.items()
        )
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
        self._odom_out, self._tf_out = [], [node.advertise(TFMessage, "/tf", qos.TF)]
        for own in ("~", *params.aliases):
            self._odom_out.append(node.advertise(OdometryMessage, f"{own}/odom"))
            if twice:
                self._odom_out.append(node.advertise(OdometryMessage, f"{own}/odometry"))
                self._tf_out.append(node.advertise(TFMessage, f"{own}/tf_odometry"))
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


class WheeledBaseNode(RobotNode[B]):
    """Controller node of one wheeled base."""

    obeys_stop = drives_robot = True
    has_reference = False
    """Whether it has the topics of steering and mecanum controllers of ros2_controllers, too:
    ``~/reference_unstamped``, ``~/odometry`` and ``~/tf_odometry``."""

    def prepare(self) -> dict[str, Any]:
        """Translate parameters of other names, and load the robot."""
        self._parameter_overrides: dict[str, Parameter] = limit_overrides(self._parameter_overrides)
        return super().prepare()

    def make_base(self, params: B) -> WheeledBase:
        """Return the kinematics for a parameter set."""
        raise NotImplementedError

    def make_state_writer(self) -> StateWriter | None:
        """Return the publisher of ``~/controller_state``; None if there is no message for it."""
        return None

    def state_joints(self, joint: str) -> str:
        """Return the joint whose state is that of a joint of the base."""
        return joint

    def timeout(self, params: B) -> float:
        """Return the timeout of commands [s]; 0: none."""
        return params.cmd_vel_timeout

    def continue_motion(self, dt: float) -> None:
        """Advance commands that change over time by ``dt`` [s]; called before each deadline."""

    def check(self, params: B) -> str | None:
        """Reject parameters that the core rejects."""
        for name in ("pose_covariance_diagonal", "twist_covariance_diagonal"):
            if len(getattr(params, name)) != 6:
                return f"{name} has {len(getattr(params, name))} entries; it needs 6"
        for name in ("odom_frame_id", "base_frame_id"):
            if not getattr(params, name).strip("/"):
                return f"{name} is {getattr(params, name)!r}; a frame needs a name"
        if params.odom_frame_id == params.base_frame_id:
            return f"odom_frame_id and base_frame_id are both {params.base_frame_id!r}"
        try:
            base, _ = self._core_parts(params)
            for joint in base.wheel_names + base.steering_names:
                if joint not in self.robot.joint_names:
                    return str(UnknownJoint(joint, self.robot.joint_names, self.robot.name))
        except ValueError as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Create the controller and its endpoints."""
        params = self.params
        self.controller = BaseController(*self._core_parts(params))
        base = self.controller.base
        joints, self._n_wheels = base.wheel_names + base.steering_names, len(base.wheel_names)
        reported = tuple(self.state_joints(joint) for joint in joints)
        self._steering_joints = np.arange(self._n_wheels, len(joints))
        self._inputs = TwistInputs(
            self,
            stamped_cmd_vel=params.stamped_cmd_vel,
            unstamped_reference=self.has_reference,
            aliases=params.aliases,
        )
        self._state = JointStateReader(
            self.poll_bytes(JointState, "joint_states", qos.STATES),
            reported,
            by_velocity=(
                () if params.position_feedback else [*map(self.state_joints, base.wheel_names)]
            ),
            limits=replace(self.robot.limits.select(joints), names=reported),
        )
        self._command = JointStateWriter(
            self.advertise(JointState, "joint_command", qos.REFERENCE_STREAM),
            joints,
            position=bool(base.steering_names),
        )
        self._odometry_out = OdometryPublisher(self, params, twice=self.has_reference)
        self._state_out = self.make_state_writer()
        self._twist_out = self.advertise_all(TwistStamped, "cmd_vel_out")
        self._limited = self._twist_message()
        for name in self.own_names("set_odometry"):
            self.serve(SetOdometry, name, self._set_odometry)

    def own_names(self, name: str) -> list[str]:
        """Return the names of a topic or service: below this node's name, and each alias."""
        return [f"{own}/{name}" for own in ("~", *self.params.aliases)]

    def advertise_all(self, kind: type, name: str) -> list[Any]:
        """Return the publishers of a topic under all its names."""
        return [self.advertise(kind, each) for each in self.own_names(name)]

    def activate(self) -> None:
        """Start at rest."""
        self._inputs.pauses.admit()
        self.controller.halt()
        self._begin_measuring()

    def tick(self, dt: float) -> None:
        """Update the odometry, and publish a command for each deadline."""
        now_ns = self.input_ns()
        now = now_ns * 1e-9
        if self._state.update():
            self._measure()
        fault = self._drive_fault()
        refused = self.stop_reason or fault
        for twist, given in self._inputs.take(now, self.command_timeout, refused):
            self._take(twist, given)
        if fault:
            self.controller.halt()
        for stamp in self.deadlines:
            self.continue_motion(self.period)
            self._drive(self.controller.step(stamp * 1e-9, self.period), stamp)
        if fault and not self.deadlines:
            # Simulated time may be stalled; the wheels must stop regardless.
            self._drive(self.controller.driven, now_ns)
        if self.rest.waiting:
            measured = self.controller.odometry.twist
            still = not self.in_motion() and all(abs(v) < BASE_REST_SPEED for v in measured)
            self.rest.update(self.now(), still=still, fault=fault)

    def halt(self) -> None:
        """Stop the wheels."""
        self._fill(self.controller.halt())
        self._command.send_last(self.now_ns())

    def in_motion(self) -> bool:
        """Return whether the commanded wheels turn."""
        return bool((abs(self.controller.driven.wheels) >= BASE_REST_SPEED).any())

    def stopped(self, why: str) -> None:
        """Bring the base to rest within its limits."""
        self.rest.start(self.now())
        self.controller.brake()
        self._inputs.pauses.suspend()

    def resumed(self) -> None:
        """Refuse streams that continued meanwhile, until they pause."""
        self._inputs.take(self.now(), self.command_timeout, self.stop_reason)
        self._inputs.pauses.suspend()

    def parameters_changed(self, params: B) -> None:
        """Apply geometry, limits and frames; motion and odometry continue."""
        self.controller.reconfigure(*self._core_parts(params))
        self._odometry_out.configure(params)
        self._limited = self._twist_message()

    def time_jumped(self, before: float, after: float) -> None:
        """Stop, and reset the wheel measurement."""
        self.controller.halt()
        self._begin_measuring()

    def waiting_for(self) -> str:
        """Wait for the first state of the wheels."""
        return "" if self._state.received else self._state_fault()

    def diagnose(self, report: Report) -> None:
        """Report the state of commands, measurements and slip."""
        fault = self._state_fault()
        if fault and self._state.received:
            report.note("ERROR", f"{fault}; wheels stopped")
        elif fault:
            report.note("WARN", fault)
        now = self.now()
        command_age = self.controller.command_age(now)
        if command_age < self.command_timeout and not self.controller.expired:
            report.note("OK", "driving")
            self._diagnose_commands(report, now)
        elif math.isfinite(command_age):
            report.note("OK", f"no command for {command_age:.1f} s; at rest")
        else:
            report.note("OK", "no command yet")
        slip, wheel = self.controller.slip.take_worst(), self.controller.slip.wheel
        if slip > self.params.slip_threshold > 0.0:
            report.note("WARN", f"wheel slip of up to {slip:.2g} m/s ({wheel})")
        report.value("age of joint_states [s]", self._state.age())
        report.value("age of command [s]", command_age)
        report.value("slip [m/s]", slip)

    def _diagnose_commands(self, report: Report, now: float) -> None:
        if self.controller.not_driven:
            report.note("WARN", f"infeasible command: {self.controller.not_driven}")
        conflicts = self._inputs.senders.competing(now)
        if conflicts:
            report.note("WARN", f"conflicting publishers on {', '.join(conflicts)}")

    def _drive(self, command: BaseCommand, stamp: int) -> None:
        """Publish the command of a deadline [ns], and the limited twist and odometry."""
        self._fill(command)
        self._command.send(stamp)
        if self.params.open_loop:
            self._odometry_out.publish(self.controller.odometry, stamp)
        if self.params.publish_limited_velocity and (listened := subscribed(self._twist_out)):
            for array, value in zip(self._limited.arrays.values(), command.twist, strict=True):
                array[:] = value
            data = self._limited.bytes(stamp)
            for publisher in listened:
                publisher.publish(data)

    def _twist_message(self) -> MessageTemplate:
        message = TwistStamped()
        message.header.frame_id = self._odometry_out.base_frame
        return MessageTemplate(message, _TWIST)

    @property
    def command_timeout(self) -> float:
        """Time for which a command is valid [s]; infinite without a timeout."""
        return self.controller.config.command_timeout

    def _fill(self, command: BaseCommand) -> None:
        """Write wheel velocities and steering angles to the message."""
        self._command.velocity[: self._n_wheels] = command.wheels
        if command.steering.size:
            self._command.position[self._n_wheels :] = command.steering

    def _state_fault(self) -> str:
        """Return why the measured state is not available; empty if it is, or is not needed."""
        return "" if self.params.open_loop else self._state.fault(self.params.state_timeout)

    def _drive_fault(self) -> str:
        """Return why the base must not move; empty if it may."""
        fault = self._state_fault()
        if fault and self._state.received:
            # Wheel angles may restart from zero when they are reported again.
            self._begin_measuring()
        if not fault and self.time_stands:
            return "/clock does not advance, so commands cannot time out"
        return fault

    def _core_parts(self, params: B) -> tuple[WheeledBase, BaseControllerConfig]:
        config = dataclasses.replace(core_config(params), cmd_vel_timeout=self.timeout(params))
        return self.make_base(params), config

    def _take(self, twist: Twist2, given: float) -> None:
        try:
            self.controller.command(twist, given)
        except InvalidCommand as error:
            self.warn("command", f"command ignored: {error}")
            return
        if self.controller.not_driven:
            self.warn("not driven", f"infeasible command: {self.controller.not_driven}")

    def _begin_measuring(self) -> None:
        self.controller.forget_wheels()
        self._last_stamp: int | None = None

    def _measure(self) -> None:
        stamp = self._state.stamp_ns
        last = self._last_stamp
        if last is not None and stamp < last:
            self._begin_measuring()
        self._last_stamp = stamp
        dt = 0.0 if last is None else (stamp - last) * 1e-9
        n = self._n_wheels
        values = self._state.position if self.params.position_feedback else self._state.velocity
        jumps = self.controller.wheel_jumps
        self.controller.measure(values[:n], dt, self.measured_steering())
        if self.controller.wheel_jumps != jumps:
            self.warn(
                "jump",
                "the measured wheels jumped by more than their velocity limits allow; the odometry "
                "does not include the jump. Check for a second publisher and a restarted driver",
            )
        if self.params.open_loop:
            return
        if self._odometry_out.publish(self.controller.odometry, stamp) and self._state_out:
            state = self._state
            self._state_out.publish(state.position, state.velocity, self.controller.driven, stamp)

    def measured_steering(self) -> Array:
        """Return the steering angles between -pi and pi [rad], shape (steering joints,)."""
        angles = self._state.position[self._n_wheels :]
        if not len(angles):
            return angles
        return self._state.encoders.turns.select(self._steering_joints).nearest(
            angles, np.zeros(len(angles))
        )

    def _set_odometry(self, request: Any, response: Any) -> Any:
        def set_pose() -> None:
            self.controller.odometry.set_pose(request.x, request.y, request.yaw)

        try:
            self.in_loop(set_pose)
        except (InvalidCommand, TimeoutError) as error:
            response.success, response.message = False, str(error)
            return response
        response.success = True
        response.message = f"odometry is at ({request.x:g}, {request.y:g}), yaw {request.yaw:g}"
        if request.z or request.roll or request.pitch:
            response.message += "; z, roll and pitch are ignored: the odometry is planar"
        return response
