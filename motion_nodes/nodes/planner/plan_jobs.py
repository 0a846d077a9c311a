# SPDX-License-Identifier: Apache-2.0
"""Requests to the planner and their results, as messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes, PlanningScene, RobotState, RobotTrajectory

from motion_nodes.core.planning.tree_search import SearchTree
from motion_nodes.core.robot.robot import Group
from motion_nodes.ros.messages.goal_constraints import GoalContext
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.typing import Array


@dataclass(frozen=True)
class PlanJob:
    """A request with its scene."""

    request: Any
    """moveit_msgs/MotionPlanRequest."""
    scene_diff: PlanningScene | None = None
    """Changes of the planning scene for this request only."""
    from_current: bool = False
    """Whether the plan must start at the current state, because it is to be executed."""
    notes: tuple[str, ...] = ()
    """Notes for the client."""


@dataclass(frozen=True)
class PlannedMotion:
    """A plan as messages."""

    job: PlanJob
    group: Group
    q: Array
    """Positions of all joints at the start [rad or m], shape (n,)."""
    start: RobotState
    trajectory: RobotTrajectory
    time: float
    """Planning time [s]."""
    note: str
    """Note for the client; may be empty."""
    recovery_points: int = 0
    """Number of leading points that recover from an invalid start state."""
    tree: SearchTree | None = None
    """Search tree, for display."""


def tool_speed(request: Any, context: GoalContext) -> tuple[str, float] | None:
    """Return the Cartesian speed limit of a request.

    Returns:
        Link and max speed [m/s]; None without a limit.

    Raises:
        RequestRejected: unknown link, or a speed that is not finite and positive.
    """
    speed = request.max_cartesian_speed
    if speed == 0.0:
        return None
    if not (math.isfinite(speed) and speed > 0.0):
        raise RequestRejected(
            MoveItErrorCodes.INVALID_MOTION_PLAN,
            f"max_cartesian_speed is {speed} m/s; give one above 0, or 0 for no limit",
        )
    return context.link(request.cartesian_speed_limited_link), speed
