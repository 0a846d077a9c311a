# SPDX-License-Identifier: Apache-2.0
"""Detection of contacts and blocked joints, and the external wrench, by the parameters."""

from __future__ import annotations

import numpy as np

from motion_nodes.control.contact_wrench import ContactWrench, WrenchGuard, WrenchLimits
from motion_nodes.control.effort_residual import EffortResidual, Ripple
from motion_nodes.control.guard_defaults import gripper_joints, revolute
from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.control.joint_guard import Blocked, GuardSettings, JointGuard
from motion_nodes.model.inverse_dynamics import InverseDynamics
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.articulation.articulation_config import (
    effort_margins_of,
    gains_of,
    guard_tolerances,
)
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.nodes.articulation.payload_model import tool_of
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.joint_topics import JointStateReader
from motion_nodes.typing import Array


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
    ) -> None:
        """Create the guard.

        Args:
            robot: with the joints.
            runner: arbiter of the joints.
            params: of the controller.
            dynamics: inverse dynamics of the joints, in their order; None: efforts are not
                monitored.
        """
        self._robot, self._runner = robot, runner
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
        runner.resync.never = gripper_joints(robot, joints)

    def set_params(self, params: ArticulationParams) -> None:
        """Apply changed tolerances."""
        assert self._runner.guard is not None
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
        return blocked.text(
            name, revolute=bool(self._revolute[i]), place=f"{place} in {robot.base_frame} [m]"
        )

    def _where(self, frame: str) -> str:
        frames = self._kinematics.frames(self._position)
        x, y, z = frames[self._kinematics.frame_names.index(frame), :3, 3]
        return f"({x:.3f}, {y:.3f}, {z:.3f})"
