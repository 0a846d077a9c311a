# SPDX-License-Identifier: Apache-2.0
"""What the wheeled-base nodes share: twists in, wheel speeds, odometry and /tf out."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeVar

import numpy as np
from geometry_msgs.msg import TransformStamped, Twist, TwistStamped
from nav_msgs.msg import Odometry as OdometryMessage
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from motion_nodes.bases.base import BaseCommand, Twist2, WheeledBase
from motion_nodes.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.bases.limits import AxisLimits, BaseLimits
from motion_nodes.errors import BadCommand, UnknownJoint
from motion_nodes.model.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter, set_stamp, stamp_ns
from motion_nodes.ros.parameters import param
from motion_nodes.ros.polled import PolledSubscription
from motion_nodes.ros.robot_node import RobotNode, RobotParams
from motion_nodes.ros.stamps import command_time
from motion_nodes.ros.transforms import frame_id

COVARIANCE_PLANAR = (0, 7, 14, 21, 28, 35)
"""Places of the diagonal in a 6 x 6 row-major matrix."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaseParams(RobotParams):
    """Parameters of every wheeled base; names as in ros2_controllers."""

    cmd_vel_timeout: float = param(
        0.5, doc="A command older than this counts as a stop.", unit="s", gt=0.0, le=60.0
    )
    state_timeout: float = param(
        0.5,
        doc="Without joint_states for this long the wheels are stopped and the loss is reported.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    odom_frame_id: str = param("odom", doc="Frame in which the odometry is given.")
    base_frame_id: str = param("base_link", doc="Frame of the base.")
    tf_frame_prefix: str = param(
        "", doc="Put before all frame names; '~' means the node's namespace."
    )
    stamped_cmd_vel: bool = param(
        True, doc="The plain cmd_vel topic carries TwistStamped; false: Twist.", read_only=True
    )
    enable_odom_tf: bool = param(True, doc="Publish odom -> base on /tf.")
    pose_covariance_diagonal: tuple[float, ...] = param(
        (0.001, 0.001, 1e6, 1e6, 1e6, 0.01), doc="Diagonal of the pose's covariance.", ge=0.0
    )
    twist_covariance_diagonal: tuple[float, ...] = param(
        (0.001, 0.001, 1e6, 1e6, 1e6, 0.01), doc="Diagonal of the twist's covariance.", ge=0.0
    )
    linear_x_max_velocity: float = param(
        math.nan, name="linear.x.max_velocity", doc="0 or NaN: no limit.", unit="m/s", nan=True
    )
    linear_x_max_acceleration: float = param(
        math.nan,
        name="linear.x.max_acceleration",
        doc="0 or NaN: no limit.",
        unit="m/s^2",
        nan=True,
    )
    linear_x_max_deceleration: float = param(
        math.nan,
        name="linear.x.max_deceleration",
        doc="0 or NaN: as max_acceleration.",
        unit="m/s^2",
        nan=True,
    )
    angular_z_max_velocity: float = param(
        math.nan, name="angular.z.max_velocity", doc="0 or NaN: no limit.", unit="rad/s", nan=True
    )
    angular_z_max_acceleration: float = param(
        math.nan,
        name="angular.z.max_acceleration",
        doc="0 or NaN: no limit.",
        unit="rad/s^2",
        nan=True,
    )
    angular_z_max_deceleration: float = param(
        math.nan,
        name="angular.z.max_deceleration",
        doc="0 or NaN: as max_acceleration.",
        unit="rad/s^2",
        nan=True,
    )
    max_wheel_velocity: float = param(
        math.nan, doc="Speed limit of any wheel; 0 or NaN: none.", unit="rad/s", nan=True
    )
    clip_wheels: bool = param(
        False,
        doc="Clip each wheel by itself, which changes the curve driven, instead of scaling all.",
    )


B = TypeVar("B", bound=BaseParams)


def base_defaults(robot: Robot) -> dict[str, Any]:
    """Return the parameters that every wheeled robot's description gives."""
    frames = robot.description.frames
    defaults: dict[str, Any] = {"base_frame_id": frames.base, "odom_frame_id": frames.odom}
    assert robot.base is not None
    for prefix, axis in (("linear_x", robot.base.linear.x), ("angular_z", robot.base.angular.z)):
        for name in ("max_velocity", "max_acceleration", "max_deceleration"):
            value = getattr(axis, name)
            defaults[f"{prefix}_{name}"] = math.nan if value is None else value
    return defaults


def limits_from(params: BaseParams) -> BaseLimits:
    """Return the core's limits from the parameters."""
    return BaseLimits(
        x=AxisLimits(
            max_velocity=params.linear_x_max_velocity,
            max_acceleration=params.linear_x_max_acceleration,
            max_deceleration=params.linear_x_max_deceleration,
        ),
        yaw=AxisLimits(
            max_velocity=params.angular_z_max_velocity,
            max_acceleration=params.angular_z_max_acceleration,
            max_deceleration=params.angular_z_max_deceleration,
        ),
        max_wheel_velocity=params.max_wheel_velocity,
        clip_wheels=params.clip_wheels,
    )


class BaseNode(RobotNode[B]):
    """Drives one wheeled base."""

    def make_base(self, params: B) -> WheeledBase:
        """Return the kinematics of these parameters."""
        raise NotImplementedError

    def check(self, params: B) -> str | None:
        """Refuse parameters that the core refuses."""
        for name in ("pose_covariance_diagonal", "twist_covariance_diagonal"):
            if len(getattr(params, name)) != 6:
                return f"{name} has {len(getattr(params, name))} entries; it needs 6"
        try:
            base, _ = self._core_parts(params)
            for joint in base.wheel_names + base.steering_names:
                if joint not in self.robot.joint_names:
                    return str(UnknownJoint(joint, self.robot.joint_names, self.robot.name))
        except ValueError as error:
            return str(error)
        return None

    def configure(self) -> None:
        """Build the controller and its endpoints."""
        params = self.params
        self.controller = BaseController(*self._core_parts(params))
        base = self.controller.base
        joints, self._n_wheels = base.wheel_names + base.steering_names, len(base.wheel_names)
        plain = TwistStamped if params.stamped_cmd_vel else Twist
        self._inputs: tuple[PolledSubscription[Any], ...] = (
            self.poll(TwistStamped, "~/cmd_vel"),
            self.poll(Twist, "~/cmd_vel_unstamped"),
            self.poll(plain, "cmd_vel"),
        )
        self._state = JointStateReader(self.poll(JointState, "joint_states", qos.STATES), joints)
        self._command = JointStateWriter(
            self,
            self.advertise(JointState, "joint_command"),
            joints,
            position=bool(base.steering_names),
        )
        self._odom_out = self.advertise(OdometryMessage, "~/odom")
        self._twist_out = self.advertise(TwistStamped, "~/cmd_vel_out")
        self._tf_out = self.advertise(TFMessage, "/tf", qos.TF)
        self._odom = OdometryMessage()
        self._out = TwistStamped()
        self._name_frames(params)

    def activate(self) -> None:
        """Begin standing."""
        self.controller.halt()
        self.controller.forget_wheels()
        self._last_stamp: int | None = None

    def tick(self, dt: float) -> None:
        """Measure, command, report."""
        now_ns = self.now_ns()
        now = now_ns * 1e-9
        if self._state.update():
            self._measure()
        hindrance = self._hindrance()
        self._take_commands(now, hindrance)
        if hindrance:
            self.controller.halt()
        command = self.controller.step(now, dt)
        self._fill(command)
        self._command.send(now_ns)
        self._publish_twist(command.twist, now_ns)

    def halt(self) -> None:
        """Stop the wheels."""
        self._fill(self.controller.halt())
        self._command.send_last(self.now_ns())

    def parameters_changed(self, params: B) -> None:
        """Take over new geometry, limits and frames without stopping."""
        self.controller.reconfigure(*self._core_parts(params))
        self._name_frames(params)

    def time_jumped(self, before: float, after: float) -> None:
        """Stop, and measure anew."""
        self.controller.halt()
        self.controller.forget_wheels()
        self._last_stamp = None

    def diagnose(self, report: Report) -> None:
        """Say whether commands and states come."""
        trouble = self._state.trouble(self.params.state_timeout)
        if trouble and self._state.received:
            report.note("ERROR", f"{trouble}; wheels stopped")
        elif trouble:
            report.note("WARN", trouble)
        command_age = self.controller.command_age(self.now())
        if command_age < self.params.cmd_vel_timeout:
            report.note("OK", "driving")
        elif math.isfinite(command_age):
            report.note("OK", f"no command for {command_age:.1f} s; standing")
        else:
            report.note("OK", "no command yet")
        report.value("age of joint_states [s]", self._state.age())
        report.value("age of command [s]", command_age)

    def _fill(self, command: BaseCommand) -> None:
        """Put speeds of wheels and angles of steering joints into the message."""
        self._command.velocity[: self._n_wheels] = command.wheels
        if command.steering.size:
            self._command.position[self._n_wheels :] = command.steering

    def _hindrance(self) -> str:
        """Say why the base must not move, or nothing."""
        trouble = self._state.trouble(self.params.state_timeout)
        if trouble and self._state.received:
            # The wheels may be counted from zero when they come back.
            self.controller.forget_wheels()
            self._last_stamp = None
        if not trouble and self.time_stands:
            return "time stands still, so no timeout would end it"
        return trouble

    def _core_parts(self, params: B) -> tuple[WheeledBase, BaseControllerConfig]:
        config = BaseControllerConfig(
            limits=limits_from(params), cmd_vel_timeout=params.cmd_vel_timeout
        )
        return self.make_base(params), config

    def _take_commands(self, now: float, hindrance: str) -> None:
        for subscription in self._inputs:
            message = subscription.newest()
            if message is not None and hindrance:
                # Each kind of hindrance is told by itself: "waiting ...", "no ...", "time ...".
                self.warn(f"refused {hindrance.split()[0]}", f"command refused: {hindrance}")
            elif isinstance(message, Twist):
                self._command_base(message, now)
            elif message is not None:
                given = self._time_of(message, now)
                if given is not None:
                    self._command_base(message.twist, given)

    def _command_base(self, twist: Twist, given: float) -> None:
        try:
            self.controller.command(Twist2(twist.linear.x, twist.linear.y, twist.angular.z), given)
        except BadCommand as error:
            self.warn("command", f"command ignored: {error}")

    def _time_of(self, message: TwistStamped, now: float) -> float | None:
        timeout = self.params.cmd_vel_timeout
        given, warning = command_time(stamp_ns(message) * 1e-9, now, timeout)
        if warning:
            self.warn("stale" if given is None else "ahead", warning)
        return given

    def _measure(self) -> None:
        stamp = self._state.stamp_ns
        last, self._last_stamp = self._last_stamp, stamp
        if last is not None and stamp < last:
            self.controller.forget_wheels()
        dt = 0.0 if last is None else (stamp - last) * 1e-9
        wheels, steering = np.split(self._state.position, [self._n_wheels])
        self.controller.measure(wheels, dt, steering)
        self._publish_odometry(stamp)

    def _name_frames(self, params: B) -> None:
        prefix = params.tf_frame_prefix
        prefix = self.get_namespace() if prefix == "~" else prefix
        self._odom.header.frame_id = frame_id(prefix, params.odom_frame_id)
        self._odom.child_frame_id = frame_id(prefix, params.base_frame_id)
        self._out.header.frame_id = self._odom.child_frame_id
        pose, twist = np.zeros(36), np.zeros(36)
        pose[list(COVARIANCE_PLANAR)] = params.pose_covariance_diagonal
        twist[list(COVARIANCE_PLANAR)] = params.twist_covariance_diagonal
        self._odom.pose.covariance = pose
        self._odom.twist.covariance = twist
        self._tf = TFMessage()
        self._tf.transforms = [_transform(self._odom.header.frame_id, self._odom.child_frame_id)]

    def _publish_odometry(self, stamp: int) -> None:
        odometry, message = self.controller.odometry, self._odom
        position, rotation = message.pose.pose.position, message.pose.pose.orientation
        position.x, position.y = odometry.x, odometry.y
        rotation.z, rotation.w = math.sin(0.5 * odometry.yaw), math.cos(0.5 * odometry.yaw)
        velocity = message.twist.twist
        velocity.linear.x, velocity.linear.y = odometry.twist.vx, odometry.twist.vy
        velocity.angular.z = odometry.twist.wz
        set_stamp(message, stamp)
        self._odom_out.publish(message)
        if self.params.enable_odom_tf:
            transform = self._tf.transforms[0]
            transform.transform.translation.x = odometry.x
            transform.transform.translation.y = odometry.y
            transform.transform.rotation.z, transform.transform.rotation.w = rotation.z, rotation.w
            set_stamp(transform, stamp)
            self._tf_out.publish(self._tf)

    def _publish_twist(self, twist: Twist2, now_ns: int) -> None:
        velocity = self._out.twist
        velocity.linear.x, velocity.linear.y, velocity.angular.z = twist
        set_stamp(self._out, now_ns)
        self._twist_out.publish(self._out)


def _transform(parent: str, child: str) -> Any:
    transform = TransformStamped(child_frame_id=child)
    transform.header.frame_id = parent
    return transform
