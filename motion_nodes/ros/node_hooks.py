# SPDX-License-Identifier: Apache-2.0
"""Hooks of a node: the methods that :class:`~motion_nodes.ros.node.MotionNode` calls."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar

from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.parameters import param


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeParams:
    """Parameters that every node has."""

    update_rate: float = param(
        50.0, doc="Update rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )


P = TypeVar("P", bound=NodeParams)


class NodeHooks(Generic[P]):
    """Callbacks of a node; each does nothing unless overridden, except configure and tick."""

    params_type: type[P]

    @classmethod
    def handles_images(cls) -> bool:
        """Return whether the node publishes or receives images or point clouds of megabytes."""
        return False

    def prepare(self) -> dict[str, Any]:
        """Return defaults by field name for parameters without a fixed default."""
        return {}

    def check(self, params: P) -> str | None:
        """Validate a candidate parameter set as a whole.

        Returns:
            Why the set is rejected, or None.
        """
        return None

    def configure(self) -> None:
        """Create the core objects and the endpoints.

        Raises:
            MotionError: the node cannot be configured.
        """
        raise NotImplementedError

    def activate(self) -> None:
        """Initialize the state of the loop; it starts afterwards."""

    def tick(self, dt: float) -> None:
        """Run one cycle of the loop.

        A node that commands a robot publishes one reference for each of
        :attr:`~motion_nodes.ros.node.MotionNode.deadlines`.

        Args:
            dt: ROS time by which the deadlines advanced since the last cycle [s]: whole periods, 0
                if none is due. Limited to a few periods, so that a delay causes no jump in motion.
        """
        raise NotImplementedError

    def halt(self) -> None:
        """Bring the robot to a safe state; the loop has stopped."""

    def answer_waiting(self) -> None:
        """Answer all pending requests and goals; the loop has stopped."""

    def release(self) -> None:
        """Release the resources of ``configure`` other than endpoints."""

    def parameters_changed(self, params: P) -> None:
        """Apply new parameters; called in the loop."""

    def time_jumped(self, before: float, after: float) -> None:
        """Handle a jump of ROS time (simulation reset, bag replay); called in the loop.

        Args:
            before: ROS time before the jump [s].
            after: ROS time after it [s].
        """

    def stopped(self, why: str) -> None:
        """Bring the robot to rest and end its goals; called in the loop, once per stop.

        Args:
            why: reason of the stop, as text.
        """

    def resumed(self) -> None:
        """Discard commands from before a resume; called in the loop."""

    def diagnose(self, report: Report) -> None:
        """Add the node's own status and values to a diagnostics report."""

    def waiting_for(self) -> str:
        """Return the condition that an active node still waits for; empty if it is ready."""
        return ""

    def notice(self) -> str:
        """Return a status text for users once the node is ready; may be empty."""
        return ""
