# SPDX-License-Identifier: Apache-2.0
"""What tells the reactive policy where to go: targets, postures, and MoveIt Servo's commands."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.msg import JointJog
from geometry_msgs.msg import PoseStamped, TwistStamped
from moveit_msgs.srv import ServoCommandType
from sensor_msgs.msg import JointState

from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint
from motion_nodes.model.bounds import JOINT_POSITION, check_numbers
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.moveit_messages import pose_of
from motion_nodes.ros.messages.servo_messages import jog_of, twist_of
from motion_nodes.ros.messages.stamps import command_time
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.robot_frames import RobotFrames

Types = ServoCommandType.Request
SILENT_AFTER, SILENT_PERIOD = 0.5, 0.015
"""[s] A topic without a message for so long is silent; between two looks at those that are."""
INPUT_PAUSE = 0.5
"""[s] Once the joints were taken from the policy, a topic counts again after so long a silence."""
SERVO_NAMES = {Types.JOINT_JOG: "joint jog", Types.TWIST: "twist", Types.POSE: "pose"}


@dataclass
class _Input:
    topic: PolledSubscription[Any]
    take: Callable[[Any, float], None]
    servo_type: int | None
    """Kind of command where it is one of MoveIt Servo's."""
    waiting: Any = None
    """A message whose frame is being looked for."""
    sent: float = -math.inf
    """When the last message was sent [s], by its publisher's clock."""
    held_off: bool = False
    """Whether its stream lost the joints, and does not count until it pauses."""

    @property
    def name(self) -> str:
        """The topic's name, for warnings."""
        return self.topic.topic


class PolicyInputs:
    """Takes what came, once per tick, and hands it to the follower."""

    def __init__(
        self,
        node: MotionNode[Any],
        follower: Follower,
        frames: RobotFrames,
        positions: Callable[[], Array | None],
        transforms_ready: Callable[[], bool],
    ) -> None:
        """Subscribe ``node``.

        Args:
            node: whose parameters say what counts.
            follower: who is told.
            frames: that targets and twists may be given in.
            positions: where all joints are, None where that is not known.
            transforms_ready: whether /tf can be asked now; a message waits until it can.
        """
        self._node, self._follower = node, follower
        self._frames, self._positions = frames, positions
        self._transforms_ready = transforms_ready
        self._inputs = [
            _Input(node.poll(kind, topic), take, servo_type)
            for kind, topic, take, servo_type in (
                (JointState, "~/posture", self._take_posture, None),
                (PoseStamped, "~/reference", self._take_pose, None),
                (PoseStamped, "servo_node/pose_target_cmds", self._take_pose, Types.POSE),
                (TwistStamped, "servo_node/delta_twist_cmds", self._take_twist, Types.TWIST),
                (JointJog, "servo_node/delta_joint_cmds", self._take_jog, Types.JOINT_JOG),
            )
        ]
        self._look_at = 0.0
        self.servo_on = True
        """Whether MoveIt Servo's commands count: between start_servo and stop_servo."""
        self.servo_paused = False
        """Whether pause_servo holds."""
        self.servo_type: int | None = None
        """The only type of its commands that counts; None: all."""
        self.refused = 0
        """How many messages were refused."""

    @property
    def count(self) -> int:
        """How many messages came."""
        return sum(each.topic.count for each in self._inputs)

    def take(self, now: float) -> None:
        """Take the newest of each; ``now`` is ROS time [s].

        Silent topics are looked at less often: five looks cost as much as a tenth of a step.
        """
        wall = time.monotonic()
        look = wall >= self._look_at
        if look:
            self._look_at = wall + SILENT_PERIOD
        for each in self._inputs:
            heard = each.topic.arrived
            if look or each.waiting is not None or (heard and wall - heard < SILENT_AFTER):
                self._hand(each, now)

    def hold_off(self, *, drop: bool = False) -> None:
        """Ignore what is streamed now until it pauses: somebody else has the joints.

        Args:
            drop: also ignore what waits to be taken, though it may be no stream.
        """
        for each in self._inputs:
            each.waiting, each.held_off = None, True
            if drop and each.topic.newest() is not None:
                each.sent = each.topic.sent

    def count_again(self) -> None:
        """Let everything count at once."""
        for each in self._inputs:
            each.held_off = False

    def _hand(self, each: _Input, now: float) -> None:
        new = each.topic.newest()
        message, each.waiting = new or each.waiting, None
        if message is None:
            return
        if new is not None and self._is_held_off(each):
            return
        node, params = self._node, self._node.params
        try:
            if node.stop_reason:
                raise InvalidCommand(node.stop_reason)
            if each.servo_type is not None:
                self._refuse_servo(each.servo_type)
            servo = each.servo_type in (Types.TWIST, Types.JOINT_JOG)
            timeout = params.servo_timeout if servo else params.command_timeout
            given, warning = command_time(stamp_ns(message) * 1e-9, now, timeout)
            if warning:
                node.warn(f"{each.name} stamp", f"{each.name}: {warning}")
            if given is None:
                self.refused += 1
            else:
                each.take(message, given)
        except _NotYet:
            each.waiting = message
        except MotionError as error:
            self.refused += 1
            node.warn(each.name, f"{each.name} refused, nothing changes: {error}")

    def _is_held_off(self, each: _Input) -> bool:
        sent = each.topic.sent
        paused = not 0.0 <= sent - each.sent < INPUT_PAUSE
        each.sent = sent
        each.held_off = each.held_off and not paused
        if each.held_off:
            self.refused += 1
            self._node.warn(
                f"{each.name} held off",
                f"{each.name} ignored: the joints were taken from it; it counts again after a "
                f"pause of {INPUT_PAUSE:g} s, or after ~/clear_target",
            )
        return each.held_off

    def _refuse_servo(self, kind: int) -> None:
        if not self.servo_on:
            raise InvalidCommand("servo is stopped; call servo_node/start_servo")
        if self.servo_paused:
            raise InvalidCommand("servo is paused; call servo_node/pause_servo with false")
        if self.servo_type not in (None, kind):
            raise InvalidCommand(
                f"servo takes {SERVO_NAMES[self.servo_type]} commands; "
                "servo_node/switch_command_type chooses others"
            )

    def _take_pose(self, message: PoseStamped, at: float) -> None:
        X_FT, notice = pose_of(message.pose, "the target")
        if notice:
            self._node.warn("target quaternion", notice)
        X_BT = self._frame(message.header.frame_id) @ X_FT
        self._follower.follow_pose(X_BT, at, oriented=self._node.params.use_orientation)

    def _take_posture(self, message: JointState, at: float) -> None:
        joints = self._follower.policy.active_joints
        names = list(message.name) or list(joints)
        if len(names) != len(message.position):
            raise InvalidCommand(f"{len(names)} names and {len(message.position)} positions.")
        robot = self._node.robot.joint_names  # type: ignore[attr-defined]
        for name in names:
            if name not in robot:
                raise UnknownJoint(name, robot, "the robot")
        check_numbers(message.position, JOINT_POSITION, "position", names)
        posture = self._follower.posture.copy()
        for name, position in zip(names, message.position, strict=True):
            if name in joints:
                posture[joints.index(name)] = position
        self._follower.follow_posture(posture, at)

    def _take_twist(self, message: TwistStamped, at: float) -> None:
        params = self._node.params
        scaled = params.servo_command_in_type == "unitless"
        twist = twist_of(
            message.twist,
            params.servo_linear if scaled else None,
            params.servo_rotational if scaled else None,
        )
        R = self._frame(message.header.frame_id)[:3, :3]
        self._follower.follow_twist(np.concatenate((R @ twist[:3], R @ twist[3:])), at)

    def _take_jog(self, message: JointJog, at: float) -> None:
        params = self._node.params
        scale = params.servo_joint if params.servo_command_in_type == "unitless" else None
        joints = self._follower.policy.active_joints
        self._follower.follow_jog(jog_of(message, joints, scale), at)

    def _frame(self, name: str) -> Array:
        """Return a frame's pose in the base, shape (4, 4)."""
        if self._frames.is_base(name):
            return np.eye(4)
        if not self._frames.is_own(name):
            if not self._transforms_ready():
                raise _NotYet
            return self._frames.pose(name, np.zeros(0))
        q = self._positions()
        if q is None:
            raise InvalidCommand(
                f"frame '{name}' moves with the robot, whose state is not known yet"
            )
        return self._frames.pose(name, q)


class _NotYet(Exception):
    """What a message needs is being fetched."""
