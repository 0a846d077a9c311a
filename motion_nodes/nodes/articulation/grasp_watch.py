# SPDX-License-Identifier: Apache-2.0
"""The current grasp of a gripper: its force, slips and loss, until another command."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from motion_nodes.core.control.active_commands import Claim
from motion_nodes.core.control.gripper import GraspForce, GraspSettings, GraspState
from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY
from motion_nodes.ros import qos
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

STATUS = "gripper_action_controller/status"


class GraspWatch:
    """Applies the force of the current grasp to the fingers, and publishes its status."""

    def __init__(self, host: ArticulationControllerNode, joints: tuple[str, ...]) -> None:
        """Create the publisher.

        Args:
            host: the controller.
            joints: finger joints.
        """
        controller = host.runner.controller
        self._host = host
        self._indices = np.array([controller.joint_names.index(joint) for joint in joints])
        self.settings = GraspSettings()
        self.grasp: GraspForce | None = None
        """The current grasp, until another command preempts it."""
        self._out = host.advertise(DiagnosticStatus, STATUS, qos.STATUS)
        self._bounded = False
        """Whether the efforts of the fingers are limited."""
        self._published: object = self  # unlike anything that is published

    def begin(self, claim: Claim, max_effort: float) -> GraspForce:
        """Begin a grasp of claimed fingers with a max effort of each [N or N m]; in the loop."""
        limits = self._host.runner.controller.limits.effort[self._indices]
        grasp = GraspForce(self.settings, min(max_effort, float(limits.min())), len(limits))
        self.grasp = grasp
        self._bounded = self.settings.grasp_force > 0.0 or math.isfinite(max_effort)
        if self.settings.grasp_force > 0.0:
            self._host.runner.effort_bounds[claim.joints] = grasp.force
        return grasp

    def update(self, position: Array, pushing: float, dt: float) -> None:
        """Process a measurement; in the loop.

        Args:
            position: of all joints [rad or m], shape (n,).
            pushing: smallest effort of the fingers towards their goal [N or N m]; NaN: unknown.
            dt: time since the last one [s].
        """
        runner, grasp = self._host.runner, self.grasp
        if grasp is not None and not runner.gripping(self._indices):
            self.grasp = grasp = None
        if grasp is not None and grasp.holding:
            before = grasp.state
            opening, contact = float(position[self._indices].mean()), self._host.contact
            load = certain = math.nan
            if contact is not None:
                load, certain = self._load(contact.value), self._load(contact.certain)
            grasp.step(opening, pushing, load, dt, certain)
            if self._bounded:
                runner.effort_bounds[self._indices] = grasp.efforts(position[self._indices])
            if grasp.state is not before:
                self._host.grasp_failed(grasp.reason)
        self._publish()

    def _load(self, wrench: Array) -> float:
        """Return the force on the tool beyond its own weight [N]."""
        weight = self._host.params.impedance_payload_mass * np.array(STANDARD_GRAVITY)
        return float(np.linalg.norm(wrench[:3] + weight))

    def _publish(self) -> None:
        grasp = self.grasp
        state = "" if grasp is None else grasp.state.value
        now = None if grasp is None else (grasp.state, grasp.slips, round(grasp.force, 1))
        if now == self._published:
            return
        self._published = now
        failed = grasp is not None and grasp.state in (GraspState.LOST, GraspState.OVERLOADED)
        message = DiagnosticStatus(
            level=DiagnosticStatus.WARN if failed else DiagnosticStatus.OK,
            name="gripper",
            message=state or "no grasp",
            hardware_id="gripper_action_controller",
        )
        if grasp is not None:
            load = "unknown" if math.isnan(grasp.load) else f"{grasp.load:.2f}"
            message.values = [
                KeyValue(key="effort limit", value=f"{grasp.force:.2f}"),
                KeyValue(key="load [N]", value=load),
                KeyValue(key="slips", value=str(grasp.slips)),
                KeyValue(key="reason", value=grasp.reason),
            ]
        self._out.publish(message)
