# SPDX-License-Identifier: Apache-2.0
"""What stops the joints: contacts and blocked joints, frozen states, rival publishers.

The external wrench is the difference of measured efforts and those of the inverse dynamics, which
include a payload, whose estimate is a service. States that do not change in a motion, and other
publishers of ``joint_command`` that command joints of the controller, stop the joints, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from motion_nodes.core.control.contact_wrench import (
    ContactWrench,
    EffortResidual,
    Ripple,
    WrenchGuard,
    WrenchLimits,
)
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import JointReference
from motion_nodes.core.control.joint_guard import (
    Blocked,
    GuardSettings,
    JointGuard,
    gripper_joints,
    revolute,
)
from motion_nodes.core.control.state_plausibility import FrozenStates
from motion_nodes.core.robot.bounds import JOINT_STATE
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics, PayloadDynamics, payload_of
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import JointSample, JointSampleReader, JointStateReader
from motion_nodes.ros.messages.cdr import InvalidMessage
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.parameters import settings_from
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

PERIOD = 0.25
"""Interval at which publishers are counted [s]."""
QUIET = 1.0
"""Time without a rival's message after which commands are accepted again [s]."""
STEADY = 1.0
"""Time at rest after which the external wrench is attributed to the payload [s]."""


def tool_of(robot: Robot, group_name: str) -> str | None:
    """Return the tool frame of a group: its tip, or else the robot's tool."""
    group = robot.groups.get(group_name)
    return (None if group is None else group.tip) or robot.tool_frame


class PayloadModel:
    """Dynamics of one robot's joints; the parameters ``payload.*`` are part of it."""

    def __init__(
        self, host: ArticulationControllerNode, robot: Robot, params: ArticulationParams
    ) -> None:
        """Compile the dynamics where the parameters need them.

        Args:
            host: the controller.
            robot: with the joints.
            params: of the controller.
        """
        self._host = host
        joints, tool = params.joints, tool_of(robot, params.impedance_group)
        self.dynamics: InverseDynamics | None = None
        """Inverse dynamics of the controller's joints, in their order; None: not needed."""
        if params.command_interface == "effort" or params.feed_forward or params.contact_detection:
            if tool is None:
                armature = [robot.drive(joint).armature for joint in joints]
                self.dynamics = InverseDynamics(robot.tree, joints, armature=armature)
            else:
                self.dynamics = PayloadDynamics(robot, joints, tool)
        self.set_params(params)
        self._kinematics = Kinematics(robot.tree, joints, base=robot.base_frame)
        self._state: JointStateReader | None = None

    def set_params(self, params: ArticulationParams) -> None:
        """Apply a changed payload."""
        if isinstance(self.dynamics, PayloadDynamics):
            mass, center = params.impedance_payload_mass, params.impedance_payload_center
            self.dynamics.set_payload(mass, center)

    def serve(self, state: JointStateReader) -> None:
        """Provide ``~/estimate_payload``.

        Args:
            state: measured state of the joints.
        """
        self._state = state
        self._host.serve(Trigger, "~/estimate_payload", self._on_estimate)

    def _on_estimate(self, _request: Any, response: Any) -> Any:
        """Set the payload whose weight is the external wrench of the arm at rest."""
        try:
            mass, center = self._host.in_loop(self._estimate)
            values = (("payload.mass", mass), ("payload.center", center.tolist()))
            # Together: a new mass at the old center is a wrong model.
            result = self._host.set_parameters_atomically(
                [Parameter(name, value=value) for name, value in values]
            )
            response.success = result.successful
            response.message = result.reason or f"payload of {mass:.3f} kg"
        except (MotionError, TimeoutError) as error:
            response.success, response.message = False, str(error)
        return response

    def _estimate(self) -> tuple[float, Array]:
        refusal = self._host.refusal()
        if refusal is not None:
            raise InvalidCommand(refusal)
        contact = self._host.contact
        if contact is None:
            raise InvalidCommand("the external wrench is not estimated; it needs contact_detection")
        if not contact.steady_time > STEADY:
            raise InvalidCommand(f"the payload is estimated after {STEADY:g} s at rest")
        assert self._state is not None
        X_BT = self._kinematics.pose(self._state.position, contact.tool)
        params = self._host.params
        return payload_of(
            contact.steady, X_BT[:3, :3],
            params.impedance_payload_mass, params.impedance_payload_center,
        )  # fmt: skip


def contact_problem(params: ArticulationParams) -> str | None:
    """Return why the limits of the external wrench are not possible, or None."""
    if settings_from(params, WrenchLimits, "contact_").any and not params.contact_detection:
        return "contact.max_force and contact.max_torque need contact_detection"
    return None


class ContactGuard:
    """Adds a guard of the joints to their arbiter."""

    def __init__(
        self,
        robot: Robot,
        runner: JointArbiter,
        params: ArticulationParams,
        dynamics: InverseDynamics | None,
        now_ns: Callable[[], int],
    ) -> None:
        """Create the guard.

        Args:
            robot: with the joints.
            runner: arbiter of the joints.
            params: of the controller.
            dynamics: inverse dynamics of the joints, in their order; None: efforts are not
                monitored.
            now_ns: returns ROS time [ns], of which the stamps of the states are.
        """
        self._robot, self._runner = robot, runner
        self._late: Callable[[], str] = lambda: ""
        self._now_ns, self._lag = now_ns, params.tracking_lag
        joints = params.joints
        own = np.array([robot.drive(joint).stiffness for joint in joints])
        self._stiffness = own
        self._revolute = revolute(robot, joints)
        self._residual = None
        if dynamics is not None:
            damping = np.array([robot.drive(joint).damping for joint in joints])
            acceleration = robot.limits.select(joints).acceleration
            # References may be late by a period, in which the drive holds the last one.
            ripple = Ripple.of(own, damping, acceleration, 2.0 / params.update_rate)
            self._residual = EffortResidual(dynamics, ripple)
        self._kinematics = Kinematics(robot.tree, joints, base=robot.base_frame)
        # A later load would delay a tick of the controller.
        self._kinematics.warm_up(())
        self._position: Array = robot.home
        self.wrench = self._make_wrench(params)
        """External wrench at the tool; None if it is not estimated."""
        self._limit = WrenchGuard(settings_from(params, WrenchLimits, "contact_"))
        self._arm = ~gripper_joints(robot, joints)
        runner.guard = JointGuard(self._settings(params), 1.0 / params.update_rate)
        runner.describe = self._describe
        runner.resync.never[:] = gripper_joints(robot, joints)

    def set_params(self, params: ArticulationParams) -> None:
        """Apply changed tolerances."""
        assert self._runner.guard is not None
        self._lag = params.tracking_lag
        self._runner.guard.settings = self._settings(params)
        self._limit.limits = settings_from(params, WrenchLimits, "contact_")

    def reset(self) -> None:
        """Reset the measurement."""
        assert self._runner.guard is not None
        self._runner.guard.reset()
        if self._residual is not None:
            self._residual.reset()

    def measure(self, state: JointStateReader) -> Array | None:
        """Process a new state.

        Returns:
            Differences from the modelled efforts [N m or N], shape (n,); None if efforts are not
            monitored.
        """
        self._position = state.position
        self._late = lambda: state.problem or state.late(self._now_ns(), self._lag)
        if self._residual is None:
            return None
        residual = self._residual.update(
            state.stamp_ns * 1e-9, state.position, state.velocity, state.effort
        )
        if self.wrench is not None:
            time, known = state.stamp_ns * 1e-9, residual is not None
            self.wrench.update(time, state.position, state.velocity, self._residual, known=known)
            found = self._limit.check(self.wrench.certain)
            if found:
                self._runner.stop_in_contact(found, self._arm, state.position)
        return residual

    def repeat(self, state: JointStateReader) -> None:
        """Process a state of the same values as the last one."""
        if self._residual is not None:
            self._residual.repeat(state.stamp_ns * 1e-9)

    def _make_wrench(self, params: ArticulationParams) -> ContactWrench | None:
        group = self._robot.groups.get(params.impedance_group)
        tool = tool_of(self._robot, params.impedance_group)
        if self._residual is None or group is None or tool is None:
            return None
        if not set(group.joints) <= set(params.joints):
            return None
        return ContactWrench(self._robot, params.joints, group.joints, tool)

    def _settings(self, params: ArticulationParams) -> GuardSettings:
        stiffness = self._stiffness
        if params.command_interface == "effort":
            stiffness = np.asarray(params.gains().kp)
        limits = self._runner.controller.limits
        return GuardSettings(
            tolerance=params.guard_tolerances(self._robot, stiffness),
            effort_margin=params.effort_margins(),
            lag=params.tracking_lag,
            lower=limits.lower,
            upper=limits.upper,
        )

    def _describe(self, blocked: Blocked) -> str:
        """Describe which joint is blocked, and where its link and the tool are."""
        robot, i = self._robot, blocked.joint
        name = self._runner.controller.joint_names[i]
        link = robot.tree.joint(name).child
        place = f"{link} at {self._where(link)}"
        if robot.tool_frame:
            place += f", tool at {self._where(robot.tool_frame)}"
        text = blocked.text(
            name, revolute=bool(self._revolute[i]), place=f"{place} in {robot.base_frame} [m]"
        )
        late = "" if blocked.by_effort else self._late()
        return f"{text}; {late}" if late else text

    def _where(self, frame: str) -> str:
        frames = self._kinematics.frames(self._position)
        x, y, z = frames[self._kinematics.frame_names.index(frame), :3, 3]
        return f"({x:.3f}, {y:.3f}, {z:.3f})"


class CommandRivals:
    """Reads ``joint_command`` while another node publishes on it.

    Own messages are identified by their stamps. A message without a finite value within the bounds
    of joint states moves no joint and is ignored.
    """

    def __init__(self, node: MotionNode[Any], joints: Sequence[str]) -> None:
        self._node = node
        self._joints = frozenset(joints)
        self._commands = node.poll_bytes(JointState, "joint_command", qos.STATES)
        self._reader = JointSampleReader()
        self._due = 0.0
        self.alone = True
        """Whether no other node publishes commands; its messages are not read then."""
        self._at = -np.inf
        self._text = ""

    def check(self, sent: Container[int]) -> str:
        """Return which joint another publisher commands, or nothing; called in the loop.

        Args:
            sent: stamps of the node's newest messages [ns].
        """
        now = time.monotonic()
        if now >= self._due:
            self._due = now + PERIOD
            self.alone = self._commands.publishers < 2
        if not self.alone:
            for message in self._commands.all():
                joint = self._commanded(message, sent)
                if joint:
                    self._text = self._text or self._describe(joint)
                    self._at = now
        if now - self._at > QUIET:
            self._text = ""
        return self._text

    def _commanded(self, message: bytes, sent: Container[int]) -> str:
        """Return a joint that a message of another publisher commands, or nothing."""
        try:
            sample = self._reader.read(message)
            names = () if sample.stamp_ns in sent else sample.joint_names()
        except InvalidMessage:
            return ""
        moves = _moves(sample, len(names)) if not self._joints.isdisjoint(names) else ()
        return next((n for n, m in zip(names, moves, strict=False) if m and n in self._joints), "")

    def _describe(self, joint: str) -> str:
        topic, own = self._commands.topic, self._node.get_fully_qualified_name()
        infos = self._node.get_publishers_info_by_topic(topic)
        names = {f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in infos} - {own}
        others = ", ".join(sorted(names)) or "a second node of the same name"
        return f"another publisher on {topic} commands {joint}: {others}"


def _moves(sample: JointSample, count: int) -> list[bool]:
    """Return for each name of a message whether a drive can act on its values."""
    moves = np.zeros(count, np.bool_)
    for values in (sample.position, sample.velocity, sample.effort):
        if len(values) == count:
            moves |= np.abs(values) <= JOINT_STATE.max
    return moves.tolist()


class StateMonitor:
    """Stops the joints while states are frozen or another publisher commands them."""

    def __init__(
        self, node: MotionNode[Any], robot: Robot, state: JointStateReader, runner: JointArbiter
    ) -> None:
        """Create the monitor.

        Args:
            node: the controller; its parameters are ArticulationParams.
            robot: whose joints they are.
            state: measured state of the joints.
            runner: of the joints.
        """
        joints: Sequence[str] = node.params.joints
        self._node, self._state, self._runner = node, state, runner
        self._frozen = FrozenStates(node.params.tracking_lag, gripper_joints(robot, joints))
        self._rivals = CommandRivals(node, joints)
        self._everything: NDArray[np.intp] = np.arange(len(joints))
        self.fault = ""
        """Why the joints are stopped and commands refused; empty for no fault."""

    @property
    def frozen(self) -> bool:
        """Whether the measured state may not be used."""
        return len(self._frozen.joints) > 0

    @property
    def alone(self) -> bool:
        """Whether no other node publishes commands."""
        return self._rivals.alone

    def update(self, sent: Container[int], *, fresh: bool, started: bool) -> bool:
        """Check states and publishers; return whether the joints were stopped.

        Args:
            sent: stamps of the newest own commands [ns].
            fresh: whether a state was received.
            started: whether the controller commands the joints.
        """
        state, before = self._state, self.fault
        if fresh:
            self._frozen.measure(state.position, state.velocity, state.effort, state.updated)
        self.fault = self._rivals.check(sent)
        if self.frozen:
            names = ", ".join(state.joint_names[i] for i in self._frozen.joints)
            late = state.late(self._node.now_ns(), self._node.params.tracking_lag)
            self.fault = f"joint_states are frozen: {names} did not change in a motion"
            self.fault += f"; {late}" if late else ""
        if not started or bool(before) == bool(self.fault):
            return False
        if not self.fault:
            self._runner.resync.request(self._everything)
            return False
        self._node.get_logger().error(f"{self.fault}; joints stopped, commands are refused")
        self._runner.stop_all(self.fault)
        # References must not follow a state that is not known.
        self._runner.resync.drop(self._everything)
        return True

    def command(self, reference: JointReference, period: float) -> None:
        """Account for a reference that was sent, one period [s] after the last one."""
        self._frozen.command(reference.positions, reference.velocities, period)

    def reset(self) -> None:
        """Reset."""
        self._frozen.reset()
