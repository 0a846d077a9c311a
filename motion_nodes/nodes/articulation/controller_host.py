# SPDX-License-Identifier: Apache-2.0
"""Interface of the articulation controller for its inputs and actions."""

from __future__ import annotations

from typing import Any, Protocol

from motion_nodes.control.contact_wrench import ContactWrench
from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.ros.node import MotionNode


class ControllerHost(Protocol):
    """The controller node."""

    @property
    def node(self) -> MotionNode[Any]:
        """The node; its parameters are ArticulationParams."""

    runner: JointArbiter
    """Arbiter of the joints; only for use in the loop."""

    def refusal(self) -> str | None:
        """Return why commands are refused, None if they are accepted; only in the loop."""

    def state_fault(self) -> str | None:
        """Return why the robot's state is unknown, None if it is known."""

    @property
    def contact(self) -> ContactWrench | None:
        """External wrench at the tool; None if it is not estimated."""

    def grasp_failed(self, reason: str) -> None:
        """Report that a held object slips or was lost; only in the loop."""
