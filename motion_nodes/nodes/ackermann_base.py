# SPDX-License-Identifier: Apache-2.0
"""Ackermann base (``ackermann_steering_controller``): twists to steering and wheels, odometry.

Interface of ros2_controllers' controllers of steered bases (docs/interfaces.md), also of tricycles
and bicycles; driven wheels may also be on the steered axle, and commands may be steering angles
instead of yaw rates.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ackermann_msgs.msg import AckermannDrive, AckermannDriveStamped
from control_msgs.msg import SteeringControllerStatus
from std_srvs.srv import Empty

from motion_nodes.core.bases.ackermann import AckermannBase, AckermannConfig, AckermannGeometry
from motion_nodes.core.bases.ackermann_drive import CarCommand, DriveCommand
from motion_nodes.core.bases.base import BaseCommand, Twist2
from motion_nodes.core.bases.from_robot import ackermann_config, left_first, max_wheel_angle
from motion_nodes.core.bases.odometry import Odometry
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import AckermannSpec
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.endpoint_node import subscribed
from motion_nodes.ros.joint_topics import set_stamp, stamp_ns
from motion_nodes.ros.parameters import core_param, param
from motion_nodes.ros.ros_time import command_time
from motion_nodes.ros.wheeled.wheeled_base_node import (
    CONTROLLER_STATE,
    StateWriter,
    WheeledBaseNode,
)
from motion_nodes.ros.wheeled.wheeled_base_params import (
    TRICYCLE,
    WheeledBaseParams,
    base_defaults,
    steering_overrides,
)
from motion_nodes.typing import Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class AckermannParams(WheeledBaseParams):
    """Parameters of an Ackermann base, named as in ros2_controllers.

    There the fixed axle is the traction axle; here it need not be driven.
    """

    twist_angular_z: str = param(
        "yaw_rate", doc="Interpretation of angular.z in twist commands: yaw_rate [rad/s], or "
        "steering_angle [rad] of a virtual wheel at the centre of the steered axle, "
        "positive for a left turn.", one_of=("yaw_rate", "steering_angle"),
    )  # fmt: skip
    reduce_wheel_speed_until_steering_reached: bool = param(
        False,
        doc="Scale the wheel speeds down while the measured steering angles differ from their "
        "references.",
    )
    use_acceleration: bool = param(
        False,
        doc="Interpretation of ~/ackermann_cmd: false for speed, with acceleration as its limit; "
        "true for acceleration, positive forward, from the velocity of the odometry on (speed is "
        "ignored).",
    )
    peer_defaults: bool = param(
        False,
        doc="Turn the steering straight at a twist of 0, as steering_controllers_library; false: "
        "it is kept at rest.",
    )
    reference_timeout: float = param(
        math.nan,
        doc="Timeout of commands, which overrides cmd_vel_timeout; 0: none, NaN: cmd_vel_timeout.",
        unit="s", nan=True, ge=0.0, le=60.0,
    )  # fmt: skip
    steering_joints_names: tuple[str, ...] = param(
        doc="Names of the steering joints, in any order, or of one in the middle.", read_only=True
    )
    rear_steering_joints_names: tuple[str, ...] = param(
        (),
        doc="Names of two more steering joints, those of the rear axle, if both axles are steered, "
        "against each other: then steering_ in other names is the front axle and traction_ the "
        "rear one. Empty: one steered axle.",
        read_only=True,
    )
    traction_joints_names: tuple[str, ...] = param(
        (),
        doc="Names of the driven wheel joints on the fixed axle, in any order, or of one in the "
        "middle; empty if they are passive.",
        read_only=True,
    )
    steered_traction_joints_names: tuple[str, ...] = param(
        (),
        doc="Names of the driven wheel joints on the steered axle, in any order, or of one in the "
        "middle; empty if they are passive.",
        read_only=True,
    )
    traction_joints_state_names: tuple[str, ...] = param(
        (), doc="Joints whose states are those of traction_joints_names; empty: the same.",
        read_only=True,
    )  # fmt: skip
    steering_joints_state_names: tuple[str, ...] = param(
        (), doc="Joints whose states are those of steering_joints_names; empty: the same.",
        read_only=True,
    )  # fmt: skip
    front_steering: bool = param(
        True, doc="Steered axle: true for the front axle, false for the rear axle.", read_only=True
    )
    rear_steering_angles: str = core_param(
        AckermannGeometry, "rear_steering_angles", read_only=True
    )
    wheelbase: float = core_param(AckermannGeometry, "wheelbase")
    steering_track_width: float = core_param(
        AckermannGeometry,
        "front_track_width",
        doc="Track width of the steered axle, between the tyre centres.",
    )
    traction_track_width: float = core_param(
        AckermannGeometry,
        "rear_track_width",
        doc="Track width of the fixed axle, between the tyre centres.",
    )
    steering_wheels_radius: float = core_param(
        AckermannGeometry,
        "front_wheel_radius",
        doc="Radius of the steered wheels; affects the speed and the odometry distance.",
    )
    traction_wheels_radius: float = core_param(
        AckermannGeometry,
        "rear_wheel_radius",
        doc="Radius of the wheels on the fixed axle; affects the speed and the odometry distance.",
    )
    traction_wheel_radius: float = param(
        math.nan, doc="Radius of the wheel on the fixed axle of a bicycle, which overrides "
        "traction_wheels_radius; NaN: not set.", unit="m", nan=True, gt=0.0, le=10.0,
    )  # fmt: skip
    publish_ackermann_command: bool = param(
        False,
        doc="Publish the angle of the steering and the speed of the first wheel [rad/s] on "
        "~/cmd_ackermann, if the node is named tricycle_controller.",
    )
    fixed_axle_x: float = core_param(AckermannConfig, "fixed_axle_x")
    max_steering_angle: float = core_param(AckermannConfig, "max_steering_angle")
    max_steering_velocity: float = core_param(AckermannConfig, "max_steering_velocity")


class SteeringState:
    """State of a base with steered wheels; joints in the node's order."""

    def __init__(
        self,
        node: WheeledBaseNode[Any],
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
        self._out = node.advertise_all(SteeringControllerStatus, CONTROLLER_STATE)
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
        for publisher in subscribed(self._out):
            publisher.publish(message)


class TricycleTopics:
    """``~/cmd_ackermann`` and ``~/reset_odometry`` of ros2_controllers' tricycle_controller."""

    def __init__(self, node: WheeledBaseNode[Any], odometry: Odometry) -> None:
        """Create the publisher and the service.

        Args:
            node: the node.
            odometry: is reset by the service, in the loop.
        """
        self._node, self._odometry = node, odometry
        self._out = node.advertise_all(AckermannDrive, "cmd_ackermann")
        for name in node.own_names("reset_odometry"):
            node.serve(Empty, name, self._reset)

    def publish(self, base: AckermannBase, command: BaseCommand) -> None:
        """Publish steering angle [rad] and speed of the first wheel [rad/s]."""
        angle, speed = base.steering_angle(command.steering), float(command.wheels[0])
        for publisher in subscribed(self._out):
            publisher.publish(AckermannDrive(speed=speed, steering_angle=angle))

    def _reset(self, _: Any, response: Any) -> Any:
        try:
            self._node.in_loop(lambda: self._odometry.set_pose(0.0, 0.0, 0.0))
        except TimeoutError as error:
            self._node.warn("reset", f"odometry not reset: {error}")
        return response


class AckermannBaseNode(WheeledBaseNode[AckermannParams]):
    """Controls an Ackermann base."""

    params_type = AckermannParams
    has_reference = True

    def __init__(self, ros_args: list[str] | None = None) -> None:
        super().__init__("ackermann_steering_controller", ros_args=ros_args)

    def prepare(self) -> dict[str, Any]:
        """Translate parameters of other names, and load the robot."""
        self._parameter_overrides = steering_overrides(self._parameter_overrides, self.get_name())
        return super().prepare()

    def check(self, params: AckermannParams) -> str | None:
        """Validate the parameters; clip_wheels is not possible for a car."""
        if params.clip_wheels:
            return "clip_wheels is true; wheels of a car that are clipped separately slip"
        if params.rear_steering_joints_names and not params.front_steering:
            return "front_steering is false; with rear_steering_joints_names both axles are steered"
        for kind in ("traction", "steering"):
            states = getattr(params, f"{kind}_joints_state_names")
            joints = getattr(params, f"{kind}_joints_names")
            if states and len(states) != len(joints):
                return (
                    f"{kind}_joints_state_names has {len(states)} entries for {len(joints)} "
                    f"{kind}_joints_names"
                )
        return super().check(params)

    def configure(self) -> None:
        """Build the controller and its endpoints."""
        super().configure()
        tricycle = self.get_name() == TRICYCLE
        self._tricycle = TricycleTopics(self, self.controller.odometry) if tricycle else None
        self._drives = self.poll(AckermannDriveStamped, "~/ackermann_cmd")
        self._given = -math.inf
        self._car = CarCommand(
            self._car_base,
            self.controller.config.limits,
            slow_until_steered=self.params.reduce_wheel_speed_until_steering_reached,
            straight_at_rest=self.params.peer_defaults,
            accelerates=self.params.use_acceleration,
        )

    def activate(self) -> None:
        """Start at rest, without commands."""
        super().activate()
        self._forget()

    def tick(self, dt: float) -> None:
        """Read AckermannDrive commands, then update as any wheeled base."""
        now, fault = self.input_ns() * 1e-9, self._drive_fault()
        self._take_drives(now, self.stop_reason or fault)
        if fault or now - self._given > self.command_timeout:
            self._forget()
        super().tick(dt)

        if self._tricycle is not None and self.params.publish_ackermann_command:
            self._tricycle.publish(self._car_base, self.controller.driven)

    def stopped(self, why: str) -> None:
        """Decelerate the base to rest within its limits."""
        super().stopped(why)
        self._forget()

    def resumed(self) -> None:
        """Ignore streams that continued during the stop, until they pause."""
        self._take_drives(self.now(), self.stop_reason)
        super().resumed()

    def parameters_changed(self, params: AckermannParams) -> None:
        """Apply geometry, limits and frames during motion."""
        super().parameters_changed(params)
        self._car.reconfigure(
            self._car_base,
            self.controller.config.limits,
            slow_until_steered=params.reduce_wheel_speed_until_steering_reached,
            straight_at_rest=params.peer_defaults,
            accelerates=params.use_acceleration,
        )

    def time_jumped(self, before: float, after: float) -> None:
        """Stop and reset the measurement."""
        super().time_jumped(before, after)
        self._forget()

    def diagnose(self, report: Report) -> None:
        """Report the state of the base and its steering angles."""
        super().diagnose(report)
        base, steering = self._car_base, self._steering()
        commanded = base.steering_angle(self.controller.driven.steering)
        report.value("steering angle commanded [rad]", commanded)
        report.value("steering angle measured [rad]", base.steering_angle(steering))

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Return geometry, limits and frames of the robot's description."""
        spec = robot.base
        if not isinstance(spec, AckermannSpec):
            raise InvalidConfig(
                f"robot '{robot.name}' is of kind '{robot.kind}', not ackermann; "
                "it has no base for this node"
            )
        config = ackermann_config(robot, spec)
        steered, fixed = "front", "rear"
        if spec.steered_axle == "rear":
            steered, fixed = fixed, steered
        return base_defaults(robot) | {
            "steering_joints_names": spec.steering_joint_names[:2],
            "rear_steering_joints_names": spec.steering_joint_names[2:],
            "traction_joints_names": getattr(spec, f"{fixed}_wheel_names"),
            "steered_traction_joints_names": getattr(spec, f"{steered}_wheel_names"),
            "front_steering": spec.steered_axle != "rear",
            "rear_steering_angles": spec.rear_steering_angles,
            "wheelbase": spec.wheelbase,
            "steering_track_width": getattr(config.geometry, f"{steered}_track_width"),
            "traction_track_width": getattr(config.geometry, f"{fixed}_track_width"),
            "steering_wheels_radius": getattr(spec, f"{steered}_wheel_radius"),
            "traction_wheels_radius": getattr(spec, f"{fixed}_wheel_radius"),
            "fixed_axle_x": config.fixed_axle_x,
            "max_steering_angle": config.max_steering_angle,
            "max_steering_velocity": config.max_steering_velocity,
        }

    def make_base(self, params: AckermannParams) -> AckermannBase:
        """Return the kinematics."""
        steered = (
            left_first(self.robot, params.steered_traction_joints_names),
            params.steering_track_width,
            params.steering_wheels_radius,
        )
        radius = params.traction_wheel_radius
        fixed = (
            left_first(self.robot, params.traction_joints_names),
            params.traction_track_width,
            params.traction_wheels_radius if math.isnan(radius) else radius,
        )
        joints = left_first(self.robot, params.steering_joints_names)
        joints += left_first(self.robot, params.rear_steering_joints_names)
        front, rear = (steered, fixed) if params.front_steering else (fixed, steered)
        axle: Literal["front", "rear", "both"] = "front" if params.front_steering else "rear"
        if params.rear_steering_joints_names:
            axle = "both"
        return AckermannBase(
            AckermannConfig(
                geometry=AckermannGeometry(
                    wheelbase=params.wheelbase,
                    front_track_width=front[1],
                    rear_track_width=rear[1],
                    front_wheel_radius=front[2],
                    rear_wheel_radius=rear[2],
                    steered_axle=axle,
                    rear_steering_angles=(
                        "isaac" if params.rear_steering_angles == "isaac" else "rolling"
                    ),
                ),
                steering_joint_names=joints,
                front_wheel_names=front[0],
                rear_wheel_names=rear[0],
                fixed_axle_x=params.fixed_axle_x,
                max_steering_angle=params.max_steering_angle,
                max_wheel_angle=max_wheel_angle(self.robot, joints),
                max_steering_velocity=params.max_steering_velocity,
            )
        )

    def make_state_writer(self) -> StateWriter:
        """Return the publisher of the state, in the order of the parameters' joints."""
        params, base = self.params, self.controller.base
        front = (params.steered_traction_joints_names, params.traction_joints_names)
        wheels = sum(front if params.front_steering else front[::-1], ())
        return SteeringState(
            self,
            base.wheel_radii,
            [base.wheel_names.index(name) for name in wheels],
            [
                base.steering_names.index(name)
                for name in params.steering_joints_names + params.rear_steering_joints_names
            ],
        )

    def state_joints(self, joint: str) -> str:
        """Return the joint whose state is that of a joint of the base."""
        for kind in ("traction", "steering"):
            joints = getattr(self.params, f"{kind}_joints_names")
            states = getattr(self.params, f"{kind}_joints_state_names")
            if states and joint in joints:
                return str(states[joints.index(joint)])
        return joint

    def timeout(self, params: AckermannParams) -> float:
        """Return the timeout of commands [s]; 0: none."""
        named = params.reference_timeout
        return params.cmd_vel_timeout if math.isnan(named) else named

    @property
    def _car_base(self) -> AckermannBase:
        base = self.controller.base
        assert isinstance(base, AckermannBase)
        return base

    def _steering(self) -> Array:
        """Return the measured steering angles [rad]; commanded ones in open loop."""
        if self.params.open_loop:
            return self.controller.driven.steering
        return self.measured_steering()

    def _take(self, twist: Twist2, given: float) -> None:
        """Accept a twist, by the convention of twist_angular_z."""
        if self.params.twist_angular_z == "steering_angle":
            self._take_drive(DriveCommand(steering_angle=twist.wz, speed=twist.vx), given)
        else:
            self._accept(lambda: self._car.take_twist(twist), given)

    def _take_drives(self, now: float, fault: str) -> None:
        message = self._drives.newest()
        if message is None:
            return
        self._inputs.senders.received(self._drives.topic, self._drives.number, now)
        pauses, drives = self._inputs.pauses, self._drives
        continues = pauses.continues(drives, drives.sent, self.command_timeout)
        if refused := fault or continues:
            self.warn("refused", f"command refused: {refused}")
            return
        stamp = 0.0 if math.isinf(self.command_timeout) else stamp_ns(message) * 1e-9
        given, warning = command_time(stamp, now, self.command_timeout)
        if warning:
            self.warn("stale" if given is None else "ahead", warning)
        if given is not None:
            drive = message.drive
            command = DriveCommand(
                drive.steering_angle, drive.steering_angle_velocity, drive.speed, drive.acceleration
            )
            self._take_drive(command, given)

    def _take_drive(self, command: DriveCommand, given: float) -> None:
        driven, speed = self.controller.driven, self.controller.odometry.twist.vx
        self._accept(lambda: self._car.take_drive(command, driven, speed), given)

    def _accept(self, take: Callable[[], None], given: float) -> None:
        """Accept a command unless a newer one was accepted or it is invalid."""
        if given < self._given:
            return
        try:
            take()
        except InvalidCommand as error:
            self.warn("command", f"command ignored: {error}")
            return
        self._given = given
        self.continue_motion(0.0)

    def continue_motion(self, dt: float) -> None:
        """Command the current twist [m/s, rad/s] of the newest command and its ramps."""
        twist = self._car.twist(dt, self._steering(), self.controller.odometry.twist.vx)
        if twist is None:
            return
        super()._take(twist, self._given)
        if self._car.note:
            self.controller.not_driven = self._car.note
            self.warn("not driven", f"command not feasible: {self._car.note}")

    def _forget(self) -> None:
        self._car.forget()
        self._given = -math.inf
