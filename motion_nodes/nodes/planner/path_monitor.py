# SPDX-License-Identifier: Apache-2.0
"""Monitoring of the remaining path during execution, in every new planning scene."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.model.robot import Group
from motion_nodes.nodes.planner.plan_jobs import PlannedMotion
from motion_nodes.nodes.planner.planning_requests import PlanningRequests
from motion_nodes.planning.path_watch import PathWatch
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.scene.moved_links import scene_for
from motion_nodes.scene.scene import Scene

PathMonitor = Callable[[], str]
"""Returns what blocks the remaining path; empty if nothing does."""


def monitor_plan(requests: PlanningRequests, planned: PlannedMotion) -> PathMonitor:
    """Return a monitor of a plan, in the scene of its request."""
    job = planned.job
    return _monitor(
        requests,
        planned.group,
        planned.trajectory.joint_trajectory,
        lambda: requests.scenes.scene_with(job.scene_diff, job.request.start_state),
        planned.recovery_points,
    )


def monitor_trajectory(requests: PlanningRequests, message: JointTrajectory) -> PathMonitor:
    """Return a monitor of a client's trajectory.

    A trajectory that is in collision from the start is assumed to be intended so and not monitored,
    nor is one whose joints are not those of a group.
    """
    joints = set(message.joint_names)
    group = next((g for g in requests.robot.groups.values() if set(g.joints) == joints), None)
    if group is None or not message.points:
        return str
    monitor = _monitor(requests, group, message, lambda: requests.scenes.scene)
    return str if monitor() else monitor


def _monitor(
    requests: PlanningRequests,
    group: Group,
    message: JointTrajectory,
    scene: Callable[[], Scene],
    recovery_points: int = 0,
) -> PathMonitor:
    columns = [message.joint_names.index(name) for name in group.joints]
    # A recovery starts in collision, so monitoring starts at its last point.
    points = message.points[max(0, recovery_points - 1) :]
    path = np.array([point.positions for point in points])[:, columns]
    times = [seconds(point.time_from_start) for point in points]
    q, _ = requests.state.newest()
    watch = PathWatch(requests.checker(group, requests.scenes.scene, q), times, path)
    checked: Scene | None = None

    def blocked() -> str:
        nonlocal checked
        q, fault = requests.state.newest()
        if not fault:
            watch.advance(q[group.indices])
        newest = requests.scenes.scene
        if newest is checked:
            return ""
        checked = newest
        try:
            return watch.obstacle(scene_for(requests.robot, group.joints, scene()))
        except RequestRejected as error:
            return str(error)

    return blocked
