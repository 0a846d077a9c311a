# SPDX-License-Identifier: Apache-2.0
"""What the parts of the planner node ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from motion_nodes.nodes.planner.plan_execution import PlanExecution
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams
from motion_nodes.ros.concurrency.executor_queue import ExecutorJobs
from motion_nodes.ros.node import MotionNode

if TYPE_CHECKING:
    from motion_nodes.nodes.planner.planning_requests import PlannedMotion, PlanningRequests


class PlannerHost(Protocol):
    """The planner behind its endpoints."""

    jobs: ExecutorJobs
    """Work for the node's executor."""
    execution: PlanExecution
    """What moves the robot."""
    requests: PlanningRequests
    """What plans."""

    @property
    def node(self) -> MotionNode[Any]:
        """The node itself."""

    @property
    def params(self) -> RrtPlannerParams:
        """The parameters now in force."""

    def show(self, planned: PlannedMotion) -> None:
        """Publish a plan for displays."""
