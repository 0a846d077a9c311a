# SPDX-License-Identifier: Apache-2.0
"""Monitoring of the remaining path during execution, in every new planning scene."""

from __future__ import annotations

from collections.abc import Callable

from motion_nodes.model.robot import Group
from motion_nodes.nodes.planner.plan_jobs import PlannedMotion
from motion_nodes.nodes.planner.planning_requests import PlanningRequests
from motion_nodes.planning.path_watch import PathWatch
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.trajectory_messages import trajectory_from
from motion_nodes.scene.moved_links import scene_for
from motion_nodes.scene.scene import Scene
from motion_nodes.trajectory.joint_trajectory import JointTrajectory


class PathMonitor:
    """Monitors the remaining path of one trajectory."""

    def __init__(
        self,
        requests: PlanningRequests,
        group: Group,
        trajectory: JointTrajectory,
        scene: Callable[[], Scene],
        recovery_points: int = 0,
    ) -> None:
        """Begin at the current state.

        Args:
            requests: the planner's.
            group: joints of the path.
            trajectory: of these and perhaps other joints.
            scene: returns the scene to check against.
            recovery_points: number of leading points that recover from a collision.
        """
        columns = [trajectory.joint_names.index(name) for name in group.joints]
        # A recovery starts in collision, so monitoring starts at its last point.
        first = max(0, recovery_points - 1)
        times, path = trajectory.times[first:], trajectory.positions[first:, columns]
        self._requests, self._group, self._scene = requests, group, scene
        q, _ = requests.state.newest()
        self._watch = PathWatch(requests.checker(group, requests.scenes.scene, q), times, path)
        self._checked: Scene | None = None

    @property
    def blocked_at(self) -> float:
        """Time of the trajectory at which it is blocked [s]; infinite if it is not."""
        return self._watch.blocked_at

    def __call__(self) -> str:
        """Return the obstacle that blocks the path; empty if none does, or without a change."""
        q, fault = self._requests.state.newest()
        if not fault:
            self._watch.advance(q[self._group.indices])
        newest = self._requests.scenes.scene
        if newest is self._checked:
            return ""
        self._checked = newest
        try:
            scene = scene_for(self._requests.robot, self._group.joints, self._scene())
            return self._watch.obstacle(scene)
        except RequestRejected as error:
            return str(error)


def monitor_plan(requests: PlanningRequests, planned: PlannedMotion) -> PathMonitor:
    """Return a monitor of a plan, in the scene of its request."""
    job = planned.job
    return PathMonitor(
        requests,
        planned.group,
        trajectory_from(planned.trajectory.joint_trajectory, planned.group.joints),
        lambda: requests.scenes.scene_with(job.scene_diff, job.request.start_state),
        planned.recovery_points,
    )


def monitor_trajectory(
    requests: PlanningRequests, trajectory: JointTrajectory
) -> Callable[[], str]:
    """Return a monitor of a client's trajectory.

    A trajectory that is in collision from the start is assumed to be intended and is not monitored;
    nor is one whose joints are not those of a group.
    """
    joints = set(trajectory.joint_names)
    group = next((g for g in requests.robot.groups.values() if set(g.joints) == joints), None)
    if group is None:
        return str
    monitor = PathMonitor(requests, group, trajectory, lambda: requests.scenes.scene)
    return str if monitor() else monitor
