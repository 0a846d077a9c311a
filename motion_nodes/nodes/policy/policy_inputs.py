# SPDX-License-Identifier: Apache-2.0
"""Inputs of the reactive policy: state of the robot, targets, postures, MoveIt Servo's commands.

Its services are its own, and those of MoveIt Servo in ROS 1 and ROS 2.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.msg import JointJog, JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TwistStamped
from moveit_msgs.srv import ServoCommandType
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import PolicyView, RobotMotion
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.bounds import JOINT_POSITION
from motion_nodes.core.robot.configurations import NamedJoints
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.servers import respond_from_loop
from motion_nodes.ros.current_state import ControllerReferences, Preemptions, RobotFrames
from motion_nodes.ros.joint_topics import JointStateReader, stamp_ns
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of, require_active
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.ros_time import command_time
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array

IDLE_PERIOD = 0.1
"""Period of state updates without a target [s]."""


class PolicyRobot:
    """Reads the state of the robot and of its joint controller; only in the loop."""

    def __init__(
        self, node: MotionNode[Any], policy: RmpflowPolicy, joints: tuple[str, ...]
    ) -> None:
        """Subscribe.

        Args:
            node: the policy node.
            policy: with the active and watched joints.
            joints: all joints of the robot.
        """
        self._node, self._policy = node, policy
        controller = node.params.controller
        self._active, self._watched = (
            [joints.index(name) for name in names]
            for names in (policy.active_joints, policy.watched_joints)
        )
        self.state = JointStateReader(
            node.poll_bytes(JointState, "joint_states", qos.STATES),
            joints,
            limits=policy.robot.limits,
        )
        reports = node.poll_bytes(JointTrajectoryControllerState, f"{controller}/controller_state")
        self._references = ControllerReferences(reports, policy.active_joints)
        self.preemptions = Preemptions(
            node.poll(DiagnosticStatus, f"{controller}/status", qos.STATUS)
        )
        self._idle_at = -np.inf
        self._seen: PolicyView | None = None
        """The last view of the robot at rest."""

    @property
    def fault(self) -> str:
        """Why the state is not available; empty if it is."""
        return self.state.fault(self._node.params.state_timeout)

    def positions(self, *, update: bool) -> Array | None:
        """Return positions of all joints [rad or m], shape (n,); None if unknown.

        Args:
            update: whether to read new messages first.
        """
        if update:
            self.state.update()
        return self.state.position if self.state.received else None

    def motion(self, now_ns: int) -> RobotMotion:
        """Return the measured state, and the controller's reference if it is known.

        Args:
            now_ns: time of the reference [ns].
        """
        state = self.state
        q = state.position[self._active]
        reference_q, reference_qd = self._references.newest(now_ns) or (None, None)
        if reference_q is not None:
            # The controller may count the turns of continuous joints differently.
            reference_q = self._policy.turns.nearest(reference_q, q)
        return RobotMotion(
            q, state.velocity[self._active],
            state.position[self._watched], state.velocity[self._watched],
            reference_q, reference_qd,
        )  # fmt: skip

    def idle_view(self, scene: Scene) -> PolicyView | None:
        """Return a view of the robot at rest, for markers; None between two updates.

        The same object while nothing changes, so that it is not evaluated again.
        """
        now = time.monotonic()
        if now - self._idle_at < IDLE_PERIOD:
            return None
        self._idle_at = now
        self.state.update()
        if not self.state.received:
            return None
        q = self.state.position[[*self._active, *self._watched]]
        posture, settings = self._policy.default_cspace_target, self._policy.settings
        last = self._seen
        if (
            last is None
            or last.scene is not scene
            or last.settings is not settings
            or np.abs(q - last.q).max() > EQUAL_POSITIONS
            or not np.array_equal(posture, last.goal.posture)
        ):
            still, X_WB = np.zeros(len(q)), np.eye(4)
            self._seen = PolicyView(q, still, Goal(posture), scene, {}, X_WB, settings)
        return self._seen


MAX_UNITLESS = 1.0 + 1e-6
"""Max magnitude of a component of a unitless command."""
Types = ServoCommandType.Request
SILENT_AFTER, SILENT_PERIOD = 0.5, 0.015
"""Time without a message after which a topic is silent, and poll period of silent topics [s]."""
INPUT_PAUSE = 0.5
"""Pause after which a topic is accepted again after the preemption of the policy [s]."""
SERVO_NAMES = {Types.JOINT_JOG: "joint jog", Types.TWIST: "twist", Types.POSE: "pose"}


def twist_of(message: Any, linear: float | None, rotational: float | None) -> Array:
    """Return a twist, linear [m/s] and angular [rad/s], in its reference frame, shape (6,).

    Args:
        message: geometry_msgs/Twist.
        linear: scale of a unitless linear velocity [m/s]; None if the message is in m/s and rad/s.
        rotational: scale of a unitless angular velocity [rad/s].

    Raises:
        InvalidCommand: values that are not finite, or unitless ones beyond 1.
    """
    v, w = message.linear, message.angular
    numbers = np.array([v.x, v.y, v.z, w.x, w.y, w.z])
    _check(numbers, ("linear.x", "linear.y", "linear.z", "angular.x", "angular.y", "angular.z"),
           unitless=linear is not None)  # fmt: skip
    if linear is not None and rotational is not None:
        numbers *= (linear,) * 3 + (rotational,) * 3
    return numbers


def jog_of(message: Any, joints: Sequence[str], scale: float | None) -> Array:
    """Return the velocities of all joints [rad/s or m/s], 0 if not commanded, shape (n,).

    Args:
        message: control_msgs/JointJog.
        joints: names of the joints that may be commanded.
        scale: scale of unitless velocities [rad/s or m/s]; None if the message is in these units.

    Raises:
        UnknownJoint: a joint that is not among ``joints``.
        InvalidCommand: arrays of different lengths, values that are not finite, unitless ones
            beyond 1, or displacements without velocities.
    """
    names, velocities = message.joint_names, message.velocities
    if not len(velocities) and len(message.displacements):
        raise InvalidCommand("the jog has displacements and no velocities; give velocities.")
    if len(names) != len(velocities):
        raise InvalidCommand(
            f"the jog has {len(names)} joint_names and {len(velocities)} velocities."
        )
    for name in names:
        if name not in joints:
            raise UnknownJoint(name, joints, "the joints that can be jogged")
    numbers = np.array(velocities, np.float64)
    _check(numbers, names, unitless=scale is not None)
    result = np.zeros(len(joints))
    result[[joints.index(name) for name in names]] = numbers * (1.0 if scale is None else scale)
    return result


def _check(numbers: Array, names: Sequence[str], *, unitless: bool) -> None:
    for name, value in zip(names, numbers.tolist(), strict=True):
        if not math.isfinite(value):
            raise InvalidCommand(f"{name} is {value}; it must be a finite number.", field=name)
        if unitless and abs(value) > MAX_UNITLESS:
            raise InvalidCommand(
                f"{name} is {value:g}; unitless commands are from -1 to 1 (servo.command_in_type).",
                field=name,
            )


@dataclass
class _Input:
    """A topic."""

    topic: PolledSubscription[Any]
    accept: Callable[[Any, float], None]
    """Applies a message with its time [s]; raises MotionError for an invalid one."""
    servo_type: int | None
    """Command type of MoveIt Servo; None for other topics."""
    pending: Any = None
    """Message that waits for the transform of its frame."""
    sent: float = -math.inf
    """Send time of the last message, by its publisher's clock [s]."""
    held_off: bool = False
    """Whether the topic is ignored until it pauses."""

    @property
    def name(self) -> str:
        """The topic's name, for warnings."""
        return self.topic.topic


class RmpflowInputs:
    """Subscriptions of the policy's inputs, read once per cycle."""

    def __init__(
        self,
        node: MotionNode[Any],
        follower: Follower,
        frames: RobotFrames,
        robot: PolicyRobot,
        transforms_ready: Callable[[], bool],
    ) -> None:
        """Subscribe.

        Args:
            node: the policy node.
            follower: receives the commands.
            frames: of the robot and /tf.
            robot: its measured joints.
            transforms_ready: requests transforms and returns whether they are available; messages
                wait until they are.
        """
        self._node, self._follower = node, follower
        self._frames, self._robot = frames, robot
        self._transforms_ready = transforms_ready
        self._inputs = [
            _Input(node.poll(kind, topic), accept, servo_type)
            for kind, topic, accept, servo_type in (
                (JointState, "~/posture", self._accept_posture, None),
                (PoseStamped, "~/reference", self._accept_pose, None),
                (PoseStamped, "servo_node/pose_target_cmds", self._accept_pose, Types.POSE),
                (TwistStamped, "servo_node/delta_twist_cmds", self._accept_twist, Types.TWIST),
                (JointJog, "servo_node/delta_joint_cmds", self._accept_jog, Types.JOINT_JOG),
            )
        ]
        self._poll_silent_at = 0.0
        self.servo_on = True
        """Whether Servo commands are accepted: between start_servo and stop_servo."""
        self.servo_paused = False
        """Whether pause_servo is set."""
        self.servo_type: int | None = None
        """Accepted type of Servo commands; None for all."""
        self.servo_fault = ""
        """Why the newest Servo command was refused; empty if it was accepted."""
        self.refused = 0
        """Number of rejected messages."""

    @property
    def topics(self) -> tuple[PolledSubscription[Any], ...]:
        """The subscriptions."""
        return tuple(source.topic for source in self._inputs)

    @property
    def count(self) -> int:
        """Number of received messages."""
        return sum(source.topic.count for source in self._inputs)

    def take(self, now: float) -> None:
        """Apply the newest message of each topic.

        Silent topics are polled less often: polling all five costs a tenth of a policy step.

        Args:
            now: ROS time [s].
        """
        wall = time.monotonic()
        poll_all = wall >= self._poll_silent_at
        if poll_all:
            self._poll_silent_at = wall + SILENT_PERIOD
        for source in self._inputs:
            arrived = source.topic.arrived
            active = arrived and wall - arrived < SILENT_AFTER
            if poll_all or source.pending is not None or active:
                self._read(source, now)

    def suspend(self, *, drop: bool = False) -> None:
        """Ignore current streams until they pause, after a preemption or stop.

        Args:
            drop: also ignore messages that are already received.
        """
        for source in self._inputs:
            source.pending, source.held_off = None, True
            if drop and source.topic.newest() is not None:
                source.sent = source.topic.sent

    def discard(self) -> None:
        """Drop messages that were received and not read: a request that is processed now is newer.

        Topics are polled, so that a target that was sent before a request may be read after it.
        """
        for source in self._inputs:
            source.pending = None
            if source.topic.newest() is not None:
                source.sent = source.topic.sent

    def reset(self) -> None:
        """Accept all topics and all Servo commands, as at the start; drop received messages."""
        self.discard()
        self.accept_all()
        self.servo_on, self.servo_paused, self.servo_type = True, False, None
        self.servo_fault = ""

    def accept_all(self) -> None:
        """Accept all topics again."""
        for source in self._inputs:
            source.held_off = False

    def _read(self, source: _Input, now: float) -> None:
        new = source.topic.newest()
        message, source.pending = new or source.pending, None
        if message is None:
            return
        if new is not None and self._is_held_off(source):
            return
        node, params = self._node, self._node.params
        try:
            if node.stop_reason:
                raise InvalidCommand(node.stop_reason)
            if source.servo_type is not None:
                self._check_servo(source.servo_type)
            servo = source.servo_type in (Types.TWIST, Types.JOINT_JOG)
            timeout = params.servo_timeout if servo else params.command_timeout
            stamp, warning = command_time(stamp_ns(message) * 1e-9, now, timeout)
            if warning:
                node.warn(f"{source.name} stamp", f"{source.name}: {warning}")
            if stamp is None:
                self.refused += 1
            else:
                source.accept(message, stamp)
            if source.servo_type is not None:
                self.servo_fault = (warning or "") if stamp is None else ""
        except _TransformPending:
            source.pending = message
        except MotionError as error:
            self.refused += 1
            if source.servo_type is not None:
                self.servo_fault = f"{source.name} refused: {error}"
            node.warn(source.name, f"{source.name} refused, nothing changes: {error}")

    def _is_held_off(self, source: _Input) -> bool:
        sent = source.topic.sent
        paused = not 0.0 <= sent - source.sent < INPUT_PAUSE
        source.sent = sent
        source.held_off = source.held_off and not paused
        if source.held_off:
            self.refused += 1
            self._node.warn(
                f"{source.name} held off",
                f"{source.name} ignored: it was preempted; it is accepted again after a pause of "
                f"{INPUT_PAUSE:g} s, or after ~/clear_target",
            )
        return source.held_off

    def _check_servo(self, kind: int) -> None:
        if not self.servo_on:
            raise InvalidCommand("servo is stopped; call servo_node/start_servo")
        if self.servo_paused:
            raise InvalidCommand("servo is paused; call servo_node/pause_servo with false")
        if self.servo_type not in (None, kind):
            raise InvalidCommand(
                f"servo accepts {SERVO_NAMES[self.servo_type]} commands; "
                "servo_node/switch_command_type selects others"
            )

    def _accept_pose(self, message: PoseStamped, stamp: float) -> None:
        X_FT, note = pose_of(message.pose, "the target")
        if note:
            self._node.warn("target quaternion", note)
        X_BT = self._frame(message.header.frame_id) @ X_FT
        self._follower.follow_pose(X_BT, stamp, oriented=self._node.params.use_orientation)

    def _accept_posture(self, message: JointState, stamp: float) -> None:
        joints = self._follower.policy.active_joints
        given = list(message.name) or list(joints)
        if len(given) != len(message.position):
            raise InvalidCommand(f"{len(given)} names for {len(message.position)} positions")
        robot = self._node.robot  # type: ignore[attr-defined]
        for name in given:
            if name not in robot.tree.joints:
                raise UnknownJoint(name, robot.joint_names, "the robot")
        JOINT_POSITION.check(message.position, "position", given)
        named = self._named(given)
        posture = self._follower.posture.copy()
        for name, position in zip(named.names, named.positions(message.position), strict=True):
            if name in joints:
                posture[joints.index(name)] = position
        self._follower.follow_posture(posture, stamp)

    def _accept_twist(self, message: TwistStamped, stamp: float) -> None:
        params = self._node.params
        if params.peer_defaults and not message.header.frame_id:
            raise InvalidCommand("the twist has no frame_id, which peer_defaults refuses")
        scaled = params.servo_command_in_type == "unitless"
        twist = twist_of(
            message.twist,
            params.servo_linear if scaled else None,
            params.servo_rotational if scaled else None,
        )
        R = self._frame(message.header.frame_id)[:3, :3]
        self._follower.follow_twist(np.concatenate((R @ twist[:3], R @ twist[3:])), stamp)

    def _accept_jog(self, message: JointJog, stamp: float) -> None:
        params = self._node.params
        scale = params.servo_joint if params.servo_command_in_type == "unitless" else None
        joints = self._follower.policy.active_joints
        named = self._named(message.joint_names)
        if not named.trivial and len(message.velocities) == len(named.given):
            speeds = named.rates(message.velocities).tolist()
            message = JointJog(joint_names=list(named.names), velocities=speeds)
        self._follower.follow_jog(jog_of(message, joints, scale), stamp)

    def _named(self, names: Sequence[str]) -> NamedJoints:
        """Return the joints of a command; refuses one that names a joint twice."""
        named = NamedJoints(self._node.robot.tree, names)  # type: ignore[attr-defined]
        if named.twice:
            raise InvalidCommand(f"joint {', '.join(named.twice)} is named twice")
        return named

    def _frame(self, name: str) -> Array:
        """Return the pose of a frame in the robot's base frame, shape (4, 4)."""
        if self._frames.is_base(name):
            return np.eye(4)
        if not self._frames.is_own(name):
            if not self._transforms_ready():
                raise _TransformPending
            return self._frames.pose(name, np.zeros(0))
        q = self._robot.positions(update=self._follower.silent)
        if q is None:
            raise InvalidCommand(
                f"frame '{name}' moves with the robot, whose state is not known yet"
            )
        return self._frames.pose(name, q)


class _TransformPending(Exception):
    """The transform of a message is not available yet."""


class PolicyServices:
    """Services whose requests are processed in the loop."""

    def __init__(self, node: MotionNode[Any], follower: Follower, inputs: RmpflowInputs) -> None:
        self._node, self._follower, self._inputs = node, follower, inputs
        self._trigger("~/reset", self._reset)
        self._trigger("~/clear_target", self._clear)
        self._switch("~/pause", self._pause)
        self._switch("~/ignore_state_updates", self._ignore)
        self._trigger("servo_node/start_servo", self._start_servo)
        self._trigger("servo_node/stop_servo", self._stop_servo)
        self._switch("servo_node/pause_servo", self._pause_servo)
        node.serve(ServoCommandType, "servo_node/switch_command_type", self._switch_type)

    def _trigger(self, name: str, job: Callable[[], str]) -> None:
        self._node.serve(Trigger, name, lambda _, response: self._respond(response, job))

    def _switch(self, name: str, job: Callable[[bool], str]) -> None:
        def handle(request: Any, response: Any) -> Any:
            return self._respond(response, lambda: job(bool(request.data)))

        self._node.serve(SetBool, name, handle)

    def _respond(self, response: Any, job: Callable[[], str]) -> Any:
        try:
            require_active(self._node)
        except RequestRejected as error:
            response.success, response.message = False, str(error)
            return response
        return respond_from_loop(self._node, response, job)

    # ---- loop

    def _reset(self) -> str:
        self._inputs.reset()
        self._follower.reset()
        return "targets, posture and servo were reset; obstacles and parameters are kept"

    def _clear(self) -> str:
        had_target = self._follower.command is not None
        self._inputs.discard()
        self._follower.clear()
        self._inputs.accept_all()
        return "coming to rest" if had_target else "there was no target"

    def _pause(self, on: bool) -> str:
        self._follower.pause(on)
        return "paused" if on else "resumed"

    def _ignore(self, on: bool) -> str:
        self._follower.policy.set_ignore_state_updates(on)
        return "integrating the policy's own state" if on else "using the measured joint state"

    def _start_servo(self) -> str:
        self._inputs.servo_on, self._inputs.servo_fault = True, ""
        self._inputs.accept_all()
        return "servo commands are accepted"

    def _stop_servo(self) -> str:
        self._inputs.servo_on = False
        self._inputs.discard()
        self._follower.end_servo()
        return "servo commands are refused until start_servo"

    def _pause_servo(self, on: bool) -> str:
        self._inputs.servo_paused = on
        if on:
            self._follower.end_servo()
        return "servo is paused" if on else "servo commands are accepted"

    def _switch_type(self, request: Any, response: Any) -> Any:
        """Select the type of Servo commands; the response has no text field."""
        kind = int(request.command_type)
        response.success = False
        if kind not in SERVO_NAMES:
            known = ", ".join(f"{n} {name}" for n, name in SERVO_NAMES.items())
            self._node.warn("switch_command_type", f"command type is {kind}; allowed: {known}")
            return response
        try:
            self._node.in_loop(lambda: self._change_type(kind))
            response.success = True
        except TimeoutError as error:
            self._node.warn("switch_command_type", str(error))
        return response

    def _change_type(self, kind: int) -> None:
        if kind != self._inputs.servo_type:
            self._follower.end_servo()
        self._inputs.servo_type, self._inputs.servo_fault = kind, ""
