# SPDX-License-Identifier: Apache-2.0
"""Replanning while a motion is executed: its remaining path changes, and the robot does not stop.

The new motion is planned from the position that the robot will have a short time ahead and joined
to the active one there (:mod:`motion_nodes.core.trajectory.splice`). The controller gets a
trajectory with a stamp in the past that begins on the active one, so both agree until it is left.

Monitoring of the remaining path during execution, in every new planning scene.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.core.planning.path_verification import PathWatch, sweep_path
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.link_margins import scene_for
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.trajectory.joint_trajectory import Infeasible, Trajectory
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory as CoreTrajectory
from motion_nodes.core.trajectory.path_efforts import effort_limits
from motion_nodes.core.trajectory.splice import SplicedMotion, replacement, splice
from motion_nodes.core.trajectory.time_parameterization import scaled_limits
from motion_nodes.errors import MotionError
from motion_nodes.nodes.planner.plan_jobs import PlanJob, PlannedMotion
from motion_nodes.nodes.planner.planner_params import payload_of
from motion_nodes.nodes.planner.planning_requests import PlanningRequests
from motion_nodes.ros.clients.motion_clients import SentTrajectory
from motion_nodes.ros.joint_topics import set_stamp, stamp_ns
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.path_constraints import is_constrained
from motion_nodes.ros.messages.plan_messages import planning_time, scaling, trajectory_message
from motion_nodes.ros.messages.request_fields import requested_motion
from motion_nodes.ros.messages.trajectory_messages import trajectory_from

if TYPE_CHECKING:
    from motion_nodes.nodes.rrt_planner import RrtPlannerNode

START_DELAY = 0.05
"""Time from sending a trajectory to its stamp [s], so that it arrives before it begins."""
BRAKING = 0.25
"""Min time from the change to the obstacle [s]; a nearer one stops the motion."""
SENDING = 0.06
"""Time for which a change is sent before it takes effect [s]."""
OVERLAP = 0.02
"""Time for which a change repeats the active trajectory [s]."""
MAX_DELAY = 0.03
"""Max delay of the execution behind its stamp [s]; beyond it, its speed is scaled."""


class PathMonitor:
    """Monitors the remaining path of one trajectory."""

    def __init__(
        self,
        requests: PlanningRequests,
        group: Group,
        trajectory: CoreTrajectory,
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


def monitor_trajectory(requests: PlanningRequests, trajectory: CoreTrajectory) -> Callable[[], str]:
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


class MotionChange:
    """The remaining path of one goal's motion: monitored, and changed when it becomes blocked."""

    def __init__(
        self,
        host: RrtPlannerNode,
        planned: PlannedMotion,
        lead: float,
        stopped: Callable[[], bool],
        on_change: Callable[[PlannedMotion, str], None],
    ) -> None:
        """Begin for a plan that is about to be executed; sets the stamp of its trajectory.

        Args:
            host: the planner.
            planned: the plan.
            lead: time ahead at which the motion changes [s]; 0: it is never changed.
            stopped: returns whether its goal was stopped.
            on_change: called with the new plan and the obstacle of the old one, before it is sent.
        """
        self._host, self._planned, self._lead = host, planned, lead
        self._stopped, self._on_change = stopped, on_change
        self._monitor: PathMonitor = monitor_plan(host.requests, planned)
        begin = host.now_ns() + int(START_DELAY * 1e9)
        set_stamp(planned.trajectory.joint_trajectory, begin)

    def blocked(self) -> str:
        """Return the obstacle that blocks the remaining path, as text; empty if none does."""
        return self._monitor()

    def change(self, sent: SentTrajectory, obstacle: str) -> JointTrajectory | None:
        """Return the trajectory that continues the active one; None: it must stop.

        Args:
            sent: the active trajectory.
            obstacle: obstacle on its remaining path.
        """
        began = stamp_ns(sent.message)
        leave = self._time_since(began) + self._lead
        in_time = self._monitor.blocked_at >= leave + BRAKING
        if (
            self._lead <= 0.0
            or not in_time
            or abs(sent.delay) > MAX_DELAY
            or not self._changeable()
        ):
            return None

        def late() -> bool:
            return self._time_since(began) > leave - 0.5 * SENDING

        changed, reason = None, ""
        try:
            # Planning ends when it is late: until the motion stops, it continues on its path.
            changed = self._changed(sent.message, began, leave, late)
        except MotionError as error:
            reason = str(error)
        if late():
            reason = f"replanning took longer than replan_lead ({self._lead:g} s)"
        if reason:
            self._host.get_logger().info(f"the motion stops: {reason}")
        if reason or changed is None:
            return None
        self._on_change(changed, obstacle)
        self._planned = changed
        self._monitor = monitor_plan(self._host.requests, changed)
        return changed.trajectory.joint_trajectory

    def _changeable(self) -> bool:
        """Return whether the request permits a change: no path constraints, speed limit or type."""
        request = self._planned.job.request
        return not (
            is_constrained(request.path_constraints)
            or request.max_cartesian_speed
            or requested_motion(request, [])
        )

    def _changed(
        self, message: JointTrajectory, began: int, leave: float, late: Callable[[], bool]
    ) -> PlannedMotion | None:
        requests, planned = self._host.requests, self._planned
        group = planned.group
        running = trajectory_from(message, group.joints)
        if leave >= running.end_time:
            return None
        job = self._job_from(running.sample(leave).position)
        new = requests.plan(job, lambda: self._stopped() or late())
        if new.recovery_points:
            return None
        following = trajectory_from(new.trajectory.joint_trajectory, group.joints)
        scene = requests.scenes.scene_with(planned.job.scene_diff, new.job.request.start_state)
        checker = requests.checker(group, scene, new.q)
        motion = self._transition(running, leave, following, checker)
        now = self._time_since(began) - OVERLAP
        points = replacement(running, now, leave, motion, PlanOptions().time_step)
        trajectory = trajectory_message(points, requests.robot.base_frame)
        set_stamp(trajectory.joint_trajectory, began + int(now * 1e9))
        return PlannedMotion(planned.job, group, new.q, new.start, trajectory, new.time, new.note)

    def _transition(
        self,
        running: Trajectory,
        leave: float,
        following: Trajectory,
        checker: CollisionChecker,
    ) -> SplicedMotion:
        """Return the transition to a new motion, with the preferred clearance if there is one.

        The fastest transition passes obstacles as closely as permitted, closer than the new motion.

        Args:
            running: the active motion.
            leave: its time at which the transition begins [s].
            following: the new motion.
            checker: of the scene.
        """
        request, params, group = self._planned.job.request, self._host.params, self._planned.group
        limits = scaled_limits(
            checker.limits,
            scaling(request.max_velocity_scaling_factor, "max_velocity_scaling_factor"),
            scaling(request.max_acceleration_scaling_factor, "max_acceleration_scaling_factor"),
        )
        share, payload = params.effort_share, payload_of(params, group)
        efforts = effort_limits(checker.robot, group.joints, checker.positions, share, payload)
        spheres = checker.snapshot()

        def is_free(path: NDArray[np.float64]) -> bool:
            # Also checked with spheres, as plans are: a later plan may start there.
            return bool(spheres.are_free(path).all()) and sweep_path(checker, path).free

        spheres.set_sphere_margin(params.preferred_clearance)
        try:
            return splice(running, leave, following, limits, is_free=is_free, efforts=efforts)
        except Infeasible:
            spheres.set_sphere_margin(0.0)
            return splice(running, leave, following, limits, is_free=is_free, efforts=efforts)

    def _job_from(self, positions: NDArray[np.float64]) -> PlanJob:
        """Return the request with another start state and the remaining time as planning time."""
        job, params = self._planned.job, self._host.params
        request = copy.deepcopy(job.request)
        joints = list(self._planned.group.joints)
        request.start_state.joint_state = JointState(name=joints, position=positions.tolist())
        time = planning_time(request.allowed_planning_time, params.allowed_planning_time)
        request.allowed_planning_time = min(time, max(self._lead - 2.0 * SENDING, SENDING))
        return PlanJob(request, job.scene_diff, notes=job.notes)

    def _time_since(self, began: int) -> float:
        return (self._host.now_ns() - began) * 1e-9
