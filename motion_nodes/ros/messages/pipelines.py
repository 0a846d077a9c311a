# SPDX-License-Identifier: Apache-2.0
"""Planning pipelines and planners as requests name them."""

from __future__ import annotations

from typing import Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.errors import did_you_mean
from motion_nodes.planning.industrial.tool_motion import ArcPoint, ToolMotion
from motion_nodes.ros.messages.goal_context import GoalContext
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of

PIPELINE = "motion_nodes"
"""Name of the default pipeline."""
INDUSTRIAL = "pilz_industrial_motion_planner"
"""Name of the pipeline with PTP, LIN and CIRC, as in MoveIt."""
_EQUIVALENT = ("ompl", "move_group", "chomp", "stomp")
"""Names of MoveIt's pipelines that clients send by default; a note names the one that is used."""
_NAMES = tuple(kind.value for kind in ToolMotion)
_ARC_NAMES = ("interim", "center")


def requested_motion(request: Any, notes: list[str]) -> ToolMotion | None:
    """Return PTP, LIN or CIRC; None for the sampling-based planners.

    Args:
        request: MotionPlanRequest.
        notes: for the client, extended.

    Raises:
        RequestRejected: there is no such pipeline, or no such planner of the industrial one.
    """
    pipeline, planner = request.pipeline_id.strip(), request.planner_id.strip()
    if pipeline == INDUSTRIAL:
        return _industrial(planner)
    if pipeline in _EQUIVALENT:
        notes.append(f"there is no pipeline '{pipeline}' here; '{PIPELINE}' is used")
    elif pipeline not in ("", PIPELINE):
        known = (PIPELINE, INDUSTRIAL)
        raise RequestRejected(
            MoveItErrorCodes.FAILURE,
            f"there is no planning pipeline '{pipeline}'; available: {', '.join(known)}."
            f"{did_you_mean(pipeline, known)}",
        )
    return ToolMotion(planner) if planner in _NAMES else None


def _industrial(planner: str) -> ToolMotion:
    if planner not in _NAMES:
        raise RequestRejected(
            MoveItErrorCodes.FAILURE,
            f"pipeline '{INDUSTRIAL}' has no planner '{planner}'; planner_id must be one of "
            f"{', '.join(_NAMES)}.{did_you_mean(planner, _NAMES)}",
        )
    return ToolMotion(planner)


def arc_point(request: Any, context: GoalContext) -> ArcPoint:
    """Return the point that defines an arc: that of a path constraint named center or interim.

    Args:
        request: MotionPlanRequest of a CIRC motion.
        context: robot, group and state of the request.

    Raises:
        RequestRejected: another name, an unknown link, or not one position constraint with one
            pose.
    """
    along = request.path_constraints
    if along.name not in _ARC_NAMES:
        raise _no_arc(
            f"CIRC needs path_constraints named 'interim' or 'center' with a position constraint; "
            f"the name is '{along.name}'.{did_you_mean(along.name, _ARC_NAMES)}"
        )
    if len(along.position_constraints) != 1:
        raise _no_arc(
            f"CIRC needs one position constraint in path_constraints, the {along.name} point; "
            f"there are {len(along.position_constraints)}"
        )
    constraint = along.position_constraints[0]
    if constraint.link_name:
        context.target(constraint.link_name)
    poses = constraint.constraint_region.primitive_poses
    if len(poses) != 1:
        raise _no_arc(
            f"the {along.name} point of CIRC is the primitive pose of its constraint region; there "
            f"are {len(poses)}"
        )
    X_FP, note = pose_of(poses[0], f"the {along.name} point")
    if note and not np.allclose(X_FP[:3, :3], np.eye(3)):
        context.notes.append(note)
    X_BP = context.frames.pose(constraint.header.frame_id, context.q) @ X_FP
    return ArcPoint(X_BP[:3, 3], is_center=along.name == "center")


def _no_arc(text: str) -> RequestRejected:
    return RequestRejected(MoveItErrorCodes.INVALID_MOTION_PLAN, text)
