# SPDX-License-Identifier: Apache-2.0
"""Service compute_cartesian_path: straight lines of a link through waypoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.core.planning.cartesian import (
    CartesianOptions,
    CartesianStop,
    cartesian_motion,
    cartesian_path,
    cruising,
)
from motion_nodes.core.planning.constrained.constrained_plan import within_constraints
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.nodes.planner.plan_jobs import tool_speed
from motion_nodes.nodes.planner.planner_params import payload_of
from motion_nodes.nodes.planner.planning_requests import ERROR_CODES, PlanningRequests
from motion_nodes.ros.messages.goal_constraints import GoalContext, refused
from motion_nodes.ros.messages.moveit_messages import RequestRejected, pose_of
from motion_nodes.ros.messages.path_constraints import path_constraints_of
from motion_nodes.ros.messages.plan_messages import scaling, trajectory_message
from motion_nodes.typing import Array

Codes = MoveItErrorCodes


def straight_path(
    requests: PlanningRequests, request: Any, response: Any, cancelled: Callable[[], bool]
) -> str:
    """Fill in the response of GetCartesianPath.

    Args:
        requests: planning interface of the robot.
        request: of the service.
        response: of the service.
        cancelled: returns whether to stop waiting for the planner's warm-up.

    Returns:
        A note for the client, such as why the path is incomplete; may be empty.

    Raises:
        RequestRejected: an invalid request or start state.
    """
    requests.await_warm(cancelled)
    group = requests.group(request.group_name)
    q = requests.start(request.start_state)
    scene = requests.scenes.scene_with(None, request.start_state)
    context = GoalContext(requests.robot, group, q, requests.frames.in_scene(scene))
    constraints = path_constraints_of(request.path_constraints, context)
    link, X_LF = context.target(request.link_name)
    speed = tool_speed(request, context)
    checker = requests.checker(group, scene, q)
    try:
        found = cartesian_path(
            checker, context.start, link, _poses(request, context, X_LF), _options(request)
        )
        if constraints and found.stop is not CartesianStop.START:
            found = within_constraints(checker, found, constraints)
        if found.stop is CartesianStop.START:
            free = checker.exact.is_free(context.start)
            code = Codes.START_STATE_INVALID if free else Codes.START_STATE_IN_COLLISION
            raise RequestRejected(code, found.reason)
        trajectory = _timed(requests, group, request, checker, found.path, speed)
    except RequestRejected:
        raise
    except MotionError as error:
        code = ERROR_CODES.get(type(error), Codes.INVALID_GOAL_CONSTRAINTS)
        raise RequestRejected(code, str(error)) from None
    response.start_state = requests.start_message(q)
    response.solution = trajectory_message(trajectory, requests.robot.base_frame)
    response.fraction = found.fraction
    return "; ".join(filter(None, [found.reason, *context.notes]))


def _poses(request: Any, context: GoalContext, X_LF: Array | None) -> list[Array]:
    """Return the waypoints of the link in the base frame; those given are of a frame in it."""
    if not request.waypoints:
        raise refused("the request has no waypoints")
    X_BF = context.frames.pose(request.header.frame_id, context.q)
    X_FL = np.eye(4) if X_LF is None else inverse(X_LF)
    poses = []
    for number, message in enumerate(request.waypoints, start=1):
        X_FT, note = pose_of(message, f"waypoint {number}")
        if note:
            context.notes.append(note)
        poses.append(X_BF @ X_FT @ X_FL)
    return poses


def _options(request: Any) -> CartesianOptions:
    try:
        return CartesianOptions(
            max_step=request.max_step,
            jump_factor=request.jump_threshold,
            revolute_jump=request.revolute_jump_threshold,
            prismatic_jump=request.prismatic_jump_threshold,
            avoid_collisions=request.avoid_collisions,
        )
    except InvalidConfig as error:
        raise refused(str(error)) from None


def _timed(
    requests: PlanningRequests,
    group: Group,
    request: Any,
    checker: CollisionChecker,
    path: np.ndarray,
    speed: tuple[str, float] | None,
) -> JointTrajectory:
    """Return the trajectory along a path; a single point if the path has no length."""
    params = requests.params
    velocity = scaling(request.max_velocity_scaling_factor, "max_velocity_scaling_factor")
    acceleration = scaling(
        request.max_acceleration_scaling_factor, "max_acceleration_scaling_factor"
    )
    if np.abs(path - path[0]).max() == 0.0:
        zero = np.zeros_like(path[:1])
        return JointTrajectory(checker.joint_names, np.zeros(1), path[:1], zero, zero)
    motion = cartesian_motion(
        checker,
        path,
        scaling=(velocity, acceleration),
        avoid_collisions=request.avoid_collisions,
        effort_share=params.effort_share,
        payload=payload_of(params, group),
    )
    if speed is not None:
        motion = cruising(
            motion,
            checker,
            dict([speed]),
            scaling=(velocity, acceleration),
            effort_share=params.effort_share,
            payload=payload_of(params, group),
        )
    return motion.points(PlanOptions().time_step)
