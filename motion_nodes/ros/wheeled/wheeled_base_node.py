# SPDX-License-Identifier: Apache-2.0
"""Base class of wheeled-base nodes: converts twists to wheel commands, publishes odometry."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from control_msgs.srv import SetOdometry
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState

from motion_nodes.core.bases.base import BaseCommand, Twist2, WheeledBase
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter
from motion_nodes.ros.messages.cdr import MessageTemplate
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.wheeled.base_topics import OdometryPublisher, StateWriter, TwistInputs
from motion_nodes.ros.wheeled.wheeled_base_params import WheeledBaseParams, core_config
from motion_nodes.typing import Array

BASE_REST_SPEED = 0.01
"""[m/s and rad/s] Velocity of base and wheel commands below which the base is at rest."""

_TWIST = {"twist.linear.x": 0, "twist.linear.y": 0, "twist.angular.z": 0}
"""Numbers of a twist message that change."""

B = TypeVar("B", bound=WheeledBaseParams)


class WheeledBaseNode(RobotNode[B]):
    """Controller node of one wheeled base."""

    obeys_stop = drives_robot = True
    has_reference = False
    """Whether it has the topics of steering and mecanum controllers of ros2_controllers, too:
    ``~/reference_unstamped``, ``~/odometry`` and ``~/tf_odometry``."""

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
        self._twist_out = self.advertise(TwistStamped, "~/cmd_vel_out")
        self._limited = self._twist_message()
        self.serve(SetOdometry, "~/set_odometry", self._set_odometry)

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
        if self.params.publish_limited_velocity and self._twist_out.get_subscription_count():
            for array, value in zip(self._limited.arrays.values(), command.twist, strict=True):
                array[:] = value
            self._twist_out.publish(self._limited.bytes(stamp))

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
