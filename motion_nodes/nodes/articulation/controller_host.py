# SPDX-License-Identifier: Apache-2.0
"""What the inputs and actions of the articulation controller ask of the node they belong to."""

from __future__ import annotations

from typing import Any, Protocol

from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.ros.node import MotionNode


class ControllerHost(Protocol):
    """The controller behind its endpoints."""

    @property
    def node(self) -> MotionNode[Any]:
        """The node itself; its parameters are ArticulationParams."""

    runner: JointArbiter
    """Who moves which joints; for use in the loop alone."""

    def refusal(self) -> str | None:
        """Return why nothing can be commanded now, or None; for use in the loop alone."""
