# SPDX-License-Identifier: Apache-2.0
"""MoveGroup and ExecuteTrajectory actions of the planner.

Each goal runs in its own thread. A new goal preempts running goals that use the same joints. If the
remaining path becomes blocked, which is checked in every new planning scene, execution stops; if
the goal permits replanning, the motion is changed without a stop or, where that is not possible,
planned again at rest.

A change is planned from the position that the robot will have a short time ahead and joined to the
active motion there (:mod:`motion_nodes.core.trajectory.splice`). The controller gets a trajectory
with a stamp in the past that begins on the active one, so both agree until it is left.
"""

from __future__ import annotations

import copy
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from moveit_msgs.action import ExecuteTrajectory, MoveGroup, MoveGroupSequence
from moveit_msgs.msg import MoveItErrorCodes
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.core.planning.path_verification import PathWatch, sweep_path
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.robot.robot import Group
from motion_nodes.core.scene.checker import CollisionChecker, scene_for
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.trajectory.joint_trajectory import Infeasible, Trajectory
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory as CoreTrajectory
from motion_nodes.core.trajectory.splice import SplicedMotion, replacement, splice
from motion_nodes.core.trajectory.time_parameterization import scaled_limits
from motion_nodes.core.trajectory.timed_path import effort_limits
from motion_nodes.core.trajectory.trajectory_checks import validate
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.planner.planning_requests import PlanningRequests
from motion_nodes.nodes.planner.tool_motion_requests import (
    NO_ITEMS,
    check_tool_motions,
    fill_sequence,
    items_of,
    plan_motion_sequence,
    sequence_job,
)
from motion_nodes.ros import qos
from motion_nodes.ros.clients.trajectory_execution import (
    ExecutedMotion,
    ExecutionResult,
    SentTrajectory,
    StopCause,
)
from motion_nodes.ros.concurrency.servers import ActionGoal, ActionOutcome, GoalServer
from motion_nodes.ros.joint_topics import set_stamp, stamp_ns
from motion_nodes.ros.messages.message_bounds import fill_failure
from motion_nodes.ros.messages.moveit_messages import RequestRejected, is_constrained, set_code
from motion_nodes.ros.messages.plan_messages import (
    MAX_REPLAN_DELAY,
    PlanJob,
    PlannedMotion,
    options_not_used,
    planning_time,
    requested_motion,
    scaling,
    trajectory_message,
)
from motion_nodes.ros.messages.trajectory_messages import leader_trajectory, trajectory_from

if TYPE_CHECKING:
    from motion_nodes.nodes.rrt_planner import RrtPlannerNode

Codes = MoveItErrorCodes

PLANNING, MONITOR, IDLE, REPLANNING = "PLANNING", "MONITOR", "IDLE", "REPLANNING"
"""Feedback states. The first three are MoveIt's; REPLANNING is followed by ': <reason>'."""

SHUTDOWN_TIMEOUT = 2.0
"""Time that a shutdown waits for the results of goals [s]."""
MAX_GOALS = 32
"""Max number of goals at the same time, of all actions; each has a thread."""
MAX_RESTARTS = 2
"""Max number of replans for one goal because the robot left the start state."""

Work = Callable[[ActionGoal, ExecutedMotion], ExecutionResult]


class MoveActions:
    """Serves ``move_action``, ``execute_trajectory`` and ``trajectory_execution_event``."""

    def __init__(self, host: RrtPlannerNode) -> None:
        self._host = host
        self._threads: set[threading.Thread] = set()
        self._motions: dict[ActionGoal, ExecutedMotion] = {}
        jobs = host.jobs
        self._servers = [
            GoalServer(
                host,
                jobs,
                kind,
                name,
                begin=lambda goal, work=work: self._begin(goal, work),  # type: ignore[misc]
                cancel=self._cancel,
            )
            for kind, name, work in (
                (MoveGroup, "move_action", self._move),
                (ExecuteTrajectory, "execute_trajectory", self._execute),
                (MoveGroupSequence, "sequence_move_group", self._sequence),
            )
        ]
        host.listen(String, "trajectory_execution_event", qos.REQUESTS, self._on_event)

    def stop(self, cause: StopCause, reason: str = "") -> None:
        """Stop all goals, see :meth:`.ExecutedMotion.stop`; may be called from any thread."""
        self._host.execution.stop_all(cause, reason)

    def finish(self) -> None:
        """Wait for the results of stopped goals and send them; in the executor."""
        end = time.monotonic() + SHUTDOWN_TIMEOUT
        for thread in list(self._threads):
            while thread.is_alive() and time.monotonic() < end:
                # The threads cancel controller goals through this executor.
                self._host.jobs.run()
                thread.join(0.01)
        self._host.jobs.run()

    def destroy(self) -> None:
        """Destroy the action servers."""
        for server in self._servers:
            server.destroy()

    # ---- in the executor

    def _begin(self, goal: ActionGoal, work: Work) -> None:
        if len(self._threads) >= MAX_GOALS:
            text = f"{MAX_GOALS} goals are planned or executed already; send it again later"
            goal.finish(ActionOutcome.ABORTED, fill_failure(goal.result, text))
            return
        label = f"goal {goal.label}"
        motion = self._motions[goal] = self._host.execution.add(label)
        thread = threading.Thread(
            target=self._run, args=(goal, motion, work), name=f"motion-{goal.label}", daemon=True
        )
        self._threads.add(thread)
        thread.start()

    def _cancel(self, goal: ActionGoal) -> bool:
        motion = self._motions.get(goal)
        if motion is not None:
            motion.stop(StopCause.CLIENT)
        return motion is not None

    def _on_event(self, message: String) -> None:
        if message.data != "stop":
            self._host.get_logger().warning(
                f"unknown trajectory_execution_event '{message.data}'; allowed: stop"
            )
            return
        count = self._host.execution.stop_all(StopCause.EVENT)
        self._host.get_logger().info(f"trajectory_execution_event: stopped {count} motions")

    # ---- in a goal's thread

    def _run(self, goal: ActionGoal, motion: ExecutedMotion, work: Work) -> None:
        try:
            result = work(goal, motion)
        except RequestRejected as error:
            # The error of cancelled planning does not contain the cause.
            stopped = error.code == Codes.PREEMPTED and motion.stopped is not None
            result = ExecutionResult(error.code, motion.reason if stopped else str(error))
        except Exception:
            self._host.get_logger().error(f"{motion.label}:\n{traceback.format_exc()}")
            result = ExecutionResult(Codes.CRASH, "internal error of the planner; see its log")
        self._host.execution.remove(motion)
        self._motions.pop(goal, None)
        self._send_result(goal, motion, result)
        self._threads.discard(threading.current_thread())

    def _send_result(
        self, goal: ActionGoal, motion: ExecutedMotion, result: ExecutionResult
    ) -> None:
        message = goal.result.response if goal.kind is MoveGroupSequence else goal.result
        set_code(message.error_code, result.code, result.text, self._host.get_name())
        outcome = ActionOutcome.ABORTED
        if result.code == Codes.SUCCESS:
            outcome = ActionOutcome.SUCCEEDED
        elif motion.stopped is StopCause.CLIENT:
            outcome = ActionOutcome.CANCELED
        if result.text:
            self._host.get_logger().info(f"{motion.label} {outcome.value}: {result.text}")
        goal.feedback(goal.feedback_type(state=IDLE))
        goal.finish(outcome, goal.result)

    def _move(self, goal: ActionGoal, motion: ExecutedMotion) -> ExecutionResult:
        """Execute a MoveGroup goal."""
        request, options = goal.request.request, goal.request.planning_options
        notes = tuple(options_not_used(options))
        _send_feedback(goal, PLANNING)
        if options.plan_only:
            job = PlanJob(request, options.planning_scene_diff, notes=notes)
            planned = self._plan(goal, motion, job)
            return ExecutionResult(Codes.SUCCESS, planned.note)
        job = PlanJob(request, options.planning_scene_diff, from_current=True, notes=notes)
        # Before the claim: a wrong request preempts no motion.
        self._host.requests.check(job)
        joints = self._host.requests.group(request.group_name).joints
        self._host.execution.claim(motion, joints)
        self._host.execution.settle(motion)
        planned = self._plan(goal, motion, job)
        attempts, restarts = 0, MAX_RESTARTS
        if options.replan:
            attempts = options.replan_attempts or self._host.params.replan_attempts
        while True:
            result = self._execute_plan(goal, motion, planned)
            if result.displaced and restarts > 0:
                # A motion that began before this goal ended after its plan had been made.
                restarts -= 1
                self._host.get_logger().info(f"{motion.label}: {result.text}; replanning")
                self._host.execution.settle(motion)
                planned = self._plan(goal, motion, job)
                continue
            if not result.blocked or attempts <= 0:
                return result
            planned, attempts = self._replan(goal, motion, job, result.text, attempts)

    def _execute_plan(
        self, goal: ActionGoal, motion: ExecutedMotion, planned: PlannedMotion
    ) -> ExecutionResult:
        _send_feedback(goal, MONITOR)
        message = planned.trajectory.joint_trajectory
        if goal.request.planning_options.replan:
            changes = MotionChange(
                self._host,
                planned,
                self._host.params.replan_lead,
                lambda: motion.stopped is not None,
                lambda new, obstacle: self._show_change(goal, new, obstacle),
            )
            result = self._host.execution.execute(motion, message, changes.blocked, changes.change)
        else:
            monitor = monitor_plan(self._host.requests, planned)
            result = self._host.execution.execute(motion, message, monitor)
        goal.result.executed_trajectory.joint_trajectory = motion.executed()
        if result.code == Codes.SUCCESS:
            return ExecutionResult(result.code, planned.note)
        return result

    def _show_change(self, goal: ActionGoal, planned: PlannedMotion, obstacle: str) -> None:
        """Report a plan that continues the active motion."""
        _send_feedback(goal, f"{REPLANNING}: {obstacle}; without a stop")
        _send_feedback(goal, MONITOR)
        goal.result.planned_trajectory = planned.trajectory
        goal.result.planning_time += planned.time
        self._host.display.show(planned)

    def _plan(self, goal: ActionGoal, motion: ExecutedMotion, job: PlanJob) -> PlannedMotion:
        planned = self._host.requests.plan(job, lambda: motion.stopped is not None)
        motion.raise_if_stopped()
        goal.result.trajectory_start = planned.start
        goal.result.planned_trajectory = planned.trajectory
        goal.result.planning_time += planned.time
        self._host.display.show(planned)
        return planned

    def _replan(
        self, goal: ActionGoal, motion: ExecutedMotion, job: PlanJob, obstacle: str, attempts: int
    ) -> tuple[PlannedMotion, int]:
        """Plan from the state where the robot stopped.

        Returns:
            The plan, and the number of remaining attempts.

        Raises:
            RequestRejected: the last attempt failed, or the motion was stopped.
        """
        options, params = goal.request.planning_options, self._host.params
        self._host.get_logger().info(f"{motion.label}: {obstacle}; replanning")
        delay = options.replan_delay
        # The robot is no longer at the requested start state.
        job.request.start_state.joint_state = JointState()
        while True:
            attempts -= 1
            _send_feedback(goal, f"{REPLANNING}: {obstacle}")
            motion.pause(min(max(0.0, delay), MAX_REPLAN_DELAY))
            self._host.execution.settle(motion)
            try:
                return self._plan(goal, motion, job), attempts
            except RequestRejected as error:
                motion.raise_if_stopped()
                if attempts <= 0:
                    text = f"remaining path blocked: {obstacle}; replanning failed: {error}"
                    raise RequestRejected(error.code, text) from None
            # The obstacle may clear; wait before the next attempt.
            delay = options.replan_delay or params.replan_delay

    def _sequence(self, goal: ActionGoal, motion: ExecutedMotion) -> ExecutionResult:
        """Execute a MoveGroupSequence goal."""
        sequence, options = goal.request.request, goal.request.planning_options
        _send_feedback(goal, PLANNING)
        if not sequence.items:
            return ExecutionResult(Codes.SUCCESS, NO_ITEMS)
        executed = not options.plan_only
        job = sequence_job(sequence, options, from_current=executed)
        if executed:
            check_tool_motions(self._host.requests, job, items_of(sequence))
            groups = [self._host.requests.group(item.req.group_name) for item in sequence.items]
            joints = dict.fromkeys(joint for group in groups for joint in group.joints)
            self._host.execution.claim(motion, tuple(joints))
            self._host.execution.settle(motion)
        planned = plan_motion_sequence(
            self._host.requests, sequence, job, lambda: motion.stopped is not None
        )
        motion.raise_if_stopped()
        note = fill_sequence(goal.result.response, planned)
        for part in planned:
            self._host.display.show(part)
        result = ExecutionResult(Codes.SUCCESS, note)
        if not executed:
            return result
        _send_feedback(goal, MONITOR)
        for part in planned:
            monitor = monitor_plan(self._host.requests, part)
            message = part.trajectory.joint_trajectory
            result = self._host.execution.execute(motion, message, monitor)
            if result.code != Codes.SUCCESS:
                break
        return replace(result, text=result.text or note)

    def _execute(self, goal: ActionGoal, motion: ExecutedMotion) -> ExecutionResult:
        """Execute an ExecuteTrajectory goal."""
        request, params = goal.request, self._host.params
        unknown = [name for name in request.controller_names if name != params.controller]
        if unknown:
            return ExecutionResult(
                Codes.CONTROL_FAILED,
                f"unknown controller '{unknown[0]}'; allowed: '{params.controller}', or none",
            )
        trajectory = request.trajectory
        if trajectory.multi_dof_joint_trajectory.points:
            text = "multi_dof_joint_trajectory has points; the robot has no multi-DOF joints"
            return ExecutionResult(Codes.INVALID_MOTION_PLAN, text)
        robot = self._host.requests.robot
        try:
            # Before the claim: an invalid trajectory preempts no motion.
            message = leader_trajectory(trajectory.joint_trajectory, robot.tree)
            checked = self._host.execution.checked(message, robot.joint_names)
            limits = robot.limits.select(checked.joint_names)
            problem = validate(checked.settled(limits), limits)
            if problem is not None:
                raise InvalidCommand(problem.text)
        except MotionError as error:
            return ExecutionResult(Codes.INVALID_MOTION_PLAN, str(error))
        self._host.requests.state.wait()
        self._host.execution.validate(message, robot.limits.acceleration)
        self._host.execution.claim(motion, checked.joint_names)
        if checked.times[0] == 0.0:
            self._host.execution.settle(motion)
        _send_feedback(goal, MONITOR)
        monitor = monitor_trajectory(self._host.requests, checked)
        return self._host.execution.execute(motion, message, monitor)


def _send_feedback(goal: ActionGoal, state: str) -> None:
    goal.feedback(goal.feedback_type(state=state))


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
        self, running: Trajectory, leave: float, following: Trajectory, checker: CollisionChecker
    ) -> SplicedMotion:
        """Return the transition to a new motion, with the preferred clearance if there is one.

        The fastest transition passes obstacles as closely as permitted, closer than the new motion.

        Args:
            running: the active motion.
            leave: its time at which the transition begins [s].
            following: the new motion.
            checker: of the scene.
        """
        request, group = self._planned.job.request, self._planned.group
        limits = scaled_limits(checker.limits, *scaling(request, []))
        share = self._host.params.effort_share
        payload = self._host.requests.payload(group.tip)
        efforts = effort_limits(checker.robot, group.joints, checker.positions, share, payload)
        spheres = checker.snapshot()

        def is_free(path: NDArray[np.float64]) -> bool:
            # Also checked with spheres, as plans are: a later plan may start there.
            return bool(spheres.are_free(path).all()) and sweep_path(checker, path).free

        spheres.set_sphere_margin(self._host.params.preferred_clearance)
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
        time = planning_time(request.allowed_planning_time, params.allowed_planning_time, [])
        request.allowed_planning_time = min(time, max(self._lead - 2.0 * SENDING, SENDING))
        return PlanJob(request, job.scene_diff, notes=job.notes)

    def _time_since(self, began: int) -> float:
        return (self._host.now_ns() - began) * 1e-9
