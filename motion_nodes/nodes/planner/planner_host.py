# SPDX-License-Identifier: Apache-2.0
"""Interface of the planner node for its parts."""

from __future__ import annotations

from typing import Any, Protocol

from motion_nodes.nodes.planner.plan_jobs import PlannedMotion
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams
from motion_nodes.nodes.planner.planning_requests import PlanningRequests
from motion_nodes.ros.clients.trajectory_execution import TrajectoryExecution
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.node import MotionNode


class PlannerHost(Protocol):
    """The planner node."""

    jobs: ExecutorQueue
    """Jobs for the node's executor."""
    execution: TrajectoryExecution
    """Execution of trajectories."""
    requests: PlanningRequests
    """Planning."""

    @property
    def node(self) -> MotionNode[Any]:
        """The node."""

    @property
    def params(self) -> RrtPlannerParams:
        """Current parameters."""

    def show(self, planned: PlannedMotion) -> None:
        """Publish a plan for display."""
