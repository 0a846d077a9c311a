# SPDX-License-Identifier: Apache-2.0
"""Service plan_batch: several motions, planned in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes, RobotTrajectory

from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.nodes.planner.plan_jobs import PlanJob, PlannedMotion
from motion_nodes.nodes.planner.planning_requests import PlanningRequests
from motion_nodes.ros.messages.moveit_messages import RequestRejected

MAX_MOTIONS = 1000
"""Max number of motions in a request."""


def plan_batch(
    requests: PlanningRequests, items: Any, response: Any, cancelled: Callable[[], bool]
) -> str:
    """Fill in a MotionSequenceResponse with the plans of independent motions.

    Args:
        requests: planning interface of the robot.
        items: moveit_msgs/MotionSequenceItem of each motion.
        response: of the service; a motion without a plan has an empty trajectory.
        cancelled: returns whether to stop planning.

    Returns:
        A note for the client; may be empty.

    Raises:
        RequestRejected: an invalid request, or motions without a plan. The response has the plans
            of the others.
    """
    if not 0 < len(items) <= MAX_MOTIONS:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_MOTION_PLAN, f"{len(items)} items; give 1 to {MAX_MOTIONS}"
        )
    blended = [number for number, item in enumerate(items) if item.blend_radius]
    if blended:
        raise RequestRejected(
            MoveItErrorCodes.INVALID_MOTION_PLAN,
            f"item {blended[0]} has a blend_radius; motions of a batch are independent, use "
            "plan_sequence_path",
        )

    def planned(item: Any) -> PlannedMotion | RequestRejected:
        try:
            return requests.plan(PlanJob(item.req), cancelled)
        except RequestRejected as error:
            return error

    began = compute_time()
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="plan-batch") as pool:
        found = list(pool.map(planned, items))
    response.planning_time = compute_time() - began
    plans = [each for each in found if isinstance(each, PlannedMotion)]
    if plans:
        response.sequence_start = plans[0].start
    response.planned_trajectories = [
        each.trajectory if isinstance(each, PlannedMotion) else RobotTrajectory() for each in found
    ]
    for number, each in enumerate(found):
        if isinstance(each, RequestRejected):
            text = f"{len(plans)} of {len(found)} motions planned; item {number}: {each}"
            raise RequestRejected(each.code, text)
    return "; ".join(dict.fromkeys(plan.note for plan in plans if plan.note))
