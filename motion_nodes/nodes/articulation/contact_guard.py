# SPDX-License-Identifier: Apache-2.0
"""Detection of contacts and blocked joints, and the external wrench, by the parameters.

Inverse dynamics of a controller with its payload, and the estimate of the payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from motion_nodes.core.control.contact_wrench import (
    ContactWrench,
    EffortResidual,
    Ripple,
    WrenchGuard,
    WrenchLimits,
)
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_guard import (
    Blocked,
    GuardSettings,
    JointGuard,
    gripper_joints,
    revolute,
)
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics, PayloadDynamics, payload_of
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.articulation.articulation_config import (
    effort_margins_of,
    gains_of,
    guard_tolerances,
)
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.ros.parameters import settings_from
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

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
        # Loads the code now: a later load would delay a tick of the controller.
        self._kinematics.frames(robot.home[robot.indices(joints)])
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
        self._late = lambda: state.late(self._now_ns(), self._lag)
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
            stiffness = np.asarray(gains_of(params).kp)
        limits = self._runner.controller.limits
        return GuardSettings(
            tolerance=guard_tolerances(params, self._robot, stiffness),
            effort_margin=effort_margins_of(params),
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
