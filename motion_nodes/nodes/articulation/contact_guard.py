# SPDX-License-Identifier: Apache-2.0
"""The guard of the articulation controller: from parameters to core, and where a contact is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.effort_residual import EffortResidual, Ripple
from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.control.joint_guard import Blocked, GuardSettings, JointGuard
from motion_nodes.model.inverse_dynamics import InverseDynamics
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.articulation.articulation_params import (
    ArticulationParams,
    gains_of,
    guard_tolerances,
    per_joint,
)
from motion_nodes.nodes.articulation.guard_defaults import gripper_joints, revolute
from motion_nodes.ros.joint_topics import JointStateReader

Array = NDArray[np.float64]


class ContactGuard:
    """Equips a runner with a guard of its joints."""

    def __init__(
        self,
        robot: Robot,
        runner: JointArbiter,
        params: ArticulationParams,
        dynamics: InverseDynamics | None,
    ) -> None:
        """Build the guard.

        Args:
            robot: whose joints they are.
            runner: of the joints.
            params: of the controller.
            dynamics: of the joints, in their order; None: contacts are not told by efforts.
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
            # Messages may come late: a drive then stands for two periods.
            ripple = Ripple.of(own, damping, acceleration, 2.0 / params.update_rate)
            self._residual = EffortResidual(dynamics, ripple)
        self._kinematics = Kinematics(robot.tree, joints, base=robot.base_frame, generic=True)
        self._position: Array = robot.home
        runner.guard = JointGuard(self._settings(params), 1.0 / params.update_rate)
        runner.describe = self._describe
        runner.resync.never = gripper_joints(robot, joints)

    def set_params(self, params: ArticulationParams) -> None:
        """Take over other tolerances."""
        assert self._runner.guard is not None
        self._runner.guard.settings = self._settings(params)

    def reset(self) -> None:
        """Forget what was measured."""
        assert self._runner.guard is not None
        self._runner.guard.reset()
        if self._residual is not None:
            self._residual.reset()

    def measure(self, state: JointStateReader) -> Array | None:
        """Take a fresh state; return the efforts beyond the model where they are measured."""
        self._position = state.position
        if self._residual is None:
            return None
        return self._residual.update(
            state.stamp_ns * 1e-9, state.position, state.velocity, state.effort
        )

    def _settings(self, params: ArticulationParams) -> GuardSettings:
        stiffness = self._stiffness
        if params.command_interface == "effort":
            stiffness = np.asarray(gains_of(params).kp)
        margins = np.array(per_joint(params, "contact_effort_margin", params.contact_effort_margin))
        return GuardSettings(
            tolerance=guard_tolerances(params, self._robot, stiffness),
            effort_margin=np.where(margins > 0.0, margins, np.inf),
            lag=params.tracking_lag,
        )

    def _describe(self, blocked: Blocked) -> str:
        """Say which joint is blocked, at which link, and where the tool is."""
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
        x, y, z = self._kinematics.pose(self._position, frame)[:3, 3]
        return f"({x:.3f}, {y:.3f}, {z:.3f})"
