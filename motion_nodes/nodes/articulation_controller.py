# SPDX-License-Identifier: Apache-2.0
"""Articulation controller: joint commands in, limited joint references out.

Takes JointState commands on ``~/reference`` (docs/interfaces.md); default name and
``~/controller_state`` are those of ros2_controllers' joint_trajectory_controller.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from sensor_msgs.msg import JointState

from motion_nodes.control.articulation import ArticulationController, ControlMode
from motion_nodes.control.joint_command import JointCommand
from motion_nodes.errors import BadConfig, MotionError
from motion_nodes.model.robot import Robot
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter, set_stamp, stamp_ns
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import RobotNode, RobotParams
from motion_nodes.ros.run import run_node
from motion_nodes.ros.stamps import command_time

STAMP_SLACK_NS = 100_000_000
"""[ns] A state this much ahead of the node's time is taken as of now."""

JUMP_SETTLES = 0.5
"""[s] For so long after a jump of time, states from before it may still arrive."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArticulationParams(RobotParams):
    """Parameters of the articulation controller."""

    update_rate: float = param(
        250.0, doc="Rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )
    joints: tuple[str, ...] = param(
        doc="Joints under control; default: all of the robot but its wheels.", read_only=True
    )
    command_timeout: float = param(
        1.0, doc="A stamped command older than this is ignored.", unit="s", gt=0.0, le=60.0
    )
    state_timeout: float = param(
        0.5,
        doc="Without joint_states for this long the joints are stopped and commands refused.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    resync_tolerance: float = param(
        0.05,
        doc="When a lost robot comes back further than this from where it was led, it is held "
        "where it is.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
    )
    state_publish_rate: float = param(
        50.0, doc="Rate of ~/controller_state.", unit="Hz", gt=0.0, le=1000.0
    )


class ArticulationControllerNode(RobotNode[ArticulationParams]):
    """Controls the joints of one robot."""

    params_type = ArticulationParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("joint_trajectory_controller", ros_args=ros_args)

    def robot_defaults(self, robot: Robot) -> dict[str, Any]:
        """Control every joint that is not a wheel."""
        wheels = robot.base.wheel_names if robot.base is not None else ()
        return {"joints": tuple(name for name in robot.joint_names if name not in wheels)}

    def configure(self) -> None:
        """Build the controller and its endpoints."""
        joints = self.params.joints
        if not joints:
            raise BadConfig(f"robot '{self.robot.name}' has no joints for this controller")
        drives = {drive.joint: drive for drive in self.robot.drives}
        limits = self.robot.limits.select(joints)
        self.controller = ArticulationController(
            limits, {name: ControlMode.named(drives[name].mode) for name in joints}
        )
        self._reference = self.poll(JointState, "~/reference", qos.COMMANDS)
        self._state = JointStateReader(self.poll(JointState, "joint_states", qos.STATES), joints)
        self._command = JointStateWriter(
            self, self.advertise(JointState, "joint_command"), joints, effort=True
        )
        self._state_out = self.advertise(JointTrajectoryControllerState, "~/controller_state")
        self._report = JointTrajectoryControllerState(joint_names=list(joints))
        self._since_report = 0.0
        self._silent = True

    def activate(self) -> None:
        """Hold where the robot is, once that is known."""
        self._silent = True
        self._jumped_at = -float("inf")

    def tick(self, dt: float) -> None:
        """Measure, take commands, lead the joints."""
        now_ns = self.now_ns()
        if self._state.update() and self._silent and not self._before_jump(now_ns):
            self._begin()
        self._take_commands(now_ns * 1e-9)
        if self._silent:
            return
        if self._lost:
            if self._stop_for_loss():
                # Time may have gone with the robot, so the wall clock paces the braking.
                self._send(self.wall_dt, now_ns)
        elif self.time_stands:
            # The way goes on when time does; until then nothing may run on.
            self._stand()
            self._command.send(now_ns)
        else:
            self._send(dt, now_ns)

    def halt(self) -> None:
        """Leave the joints holding the last reference; speeds and efforts go to zero."""
        if self._silent:
            return
        self._silent = True
        self.controller.stop()
        self._stand()
        self._command.send_last(self.now_ns())

    def time_jumped(self, before: float, after: float) -> None:
        """Hold where the robot is."""
        self._silent = True
        self._command.position[:] = np.nan
        self._jumped_at = time.monotonic()

    def diagnose(self, report: Report) -> None:
        """Say whether the robot is there and what the controller does."""
        trouble = self._state.trouble(self.params.state_timeout)
        if trouble and self._state.received:
            report.note("ERROR", f"{trouble}; commands are refused")
        elif trouble:
            report.note("WARN", trouble)
        else:
            report.note("OK", "moving" if self.controller.moving else "holding")
        report.value("age of joint_states [s]", self._state.age())
        report.value("commands taken", self._reference.count)

    @property
    def _lost(self) -> bool:
        return self._state.age() > self.params.state_timeout

    def _before_jump(self, now_ns: int) -> bool:
        """True for a state from before a jump of time, which may arrive just after it."""
        late = self._state.stamp_ns - now_ns > STAMP_SLACK_NS
        return late and time.monotonic() - self._jumped_at < JUMP_SETTLES

    def _begin(self) -> None:
        """Take up the robot's state, at the start and after the robot was lost.

        Where it stands near to where it was last led it is held at that, so that what drives sag
        under gravity does not add up; else where it is.
        """
        measured, led = self._state.position, self._command.position
        known = np.isfinite(led)
        away = np.where(known, np.abs(led - measured), 0.0)
        i = int(away.argmax())
        if known.any() and away[i] > self.params.resync_tolerance:
            self.get_logger().warning(
                f"the robot is back, {self.controller.joint_names[i]} {away[i]:.3f} from where it "
                "was led; holding where it is"
            )
            known[:] = False
        self.controller.reset(np.where(known, led, measured))
        self._silent = False

    def _stop_for_loss(self) -> bool:
        """Brake; False once the joints rest and nothing more is to be sent."""
        if not self.controller.moving:
            self._silent = True
            self.get_logger().error(
                f"{self._state.trouble(self.params.state_timeout)}: joints stopped, commands are "
                "refused until the robot is back"
            )
            return False
        self.controller.stop()
        return True

    def _take_commands(self, now: float) -> None:
        for message in self._reference.all():
            if self._silent or self._lost:
                trouble = self._state.trouble(self.params.state_timeout)
                self.warn("lost", f"command refused: the robot's state is not known; {trouble}")
                continue
            given, warning = command_time(
                stamp_ns(message) * 1e-9, now, self.params.command_timeout
            )
            if warning:
                self.warn("stamp", warning)
            if given is None:
                continue
            try:
                self.controller.apply(
                    JointCommand(
                        names=message.name or None,
                        positions=message.position or None,
                        velocities=message.velocity or None,
                        efforts=message.effort or None,
                    )
                )
            except MotionError as error:
                self.warn("command", f"command refused, nothing moves: {error}")

    def _stand(self) -> None:
        """Command where the reference is, with no speed and no effort."""
        reference = self.controller.step(0.0)
        self._command.position[:] = reference.positions
        self._command.velocity[:] = np.where(np.isnan(reference.velocities), np.nan, 0.0)
        self._command.effort[:] = np.where(np.isnan(reference.efforts), np.nan, 0.0)

    def _send(self, dt: float, now_ns: int) -> None:
        reference = self.controller.step(dt, self._state.position)
        self._command.position[:] = reference.positions
        self._command.velocity[:] = reference.velocities
        self._command.effort[:] = reference.efforts
        self._command.send(now_ns)
        self._since_report += dt
        if self._since_report * self.params.state_publish_rate >= 1.0:
            self._since_report = 0.0
            self._publish_state(now_ns)

    def _publish_state(self, now_ns: int) -> None:
        report = self._report
        position, velocity = self._command.position, self._command.velocity
        report.reference.positions = position.tolist()
        report.reference.velocities = velocity.tolist()
        report.feedback.positions = self._state.position.tolist()
        report.feedback.velocities = self._state.velocity.tolist()
        report.error.positions = (position - self._state.position).tolist()
        report.output.positions = report.reference.positions
        report.output.effort = self._command.effort.tolist()
        set_stamp(report, now_ns)
        self._state_out.publish(report)


def main() -> None:
    """Run the node as a process of its own."""
    run_node(ArticulationControllerNode)
