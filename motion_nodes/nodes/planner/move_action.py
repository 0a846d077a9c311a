# SPDX-License-Identifier: Apache-2.0
"""MoveGroup and ExecuteTrajectory actions of the planner.

Each goal runs in its own thread. A new goal preempts running goals that use the same joints. If the
remaining path becomes blocked, execution stops; if the goal permits replanning, the motion is
changed without a stop (``motion_change.py``) or, where that is not possible, planned again at rest.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from moveit_msgs.action import ExecuteTrajectory, MoveGroup, MoveGroupSequence
from moveit_msgs.msg import MoveItErrorCodes
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from motion_nodes.errors import MotionError
from motion_nodes.nodes.planner.industrial_requests import (
    NO_ITEMS,
    fill_sequence,
    plan_motion_sequence,
    sequence_job,
)
from motion_nodes.nodes.planner.motion_change import MotionChange, monitor_plan, monitor_trajectory
from motion_nodes.nodes.planner.plan_jobs import PlanJob, PlannedMotion
from motion_nodes.ros import qos
from motion_nodes.ros.clients.trajectory_execution import (
    ExecutedMotion,
    ExecutionResult,
    StopCause,
)
from motion_nodes.ros.concurrency.action_servers import (
    ActionGoal,
    ActionOutcome,
    GoalServer,
)
from motion_nodes.ros.messages.message_bounds import fill_failure
from motion_nodes.ros.messages.mimic_messages import leader_trajectory
from motion_nodes.ros.messages.moveit_messages import RequestRejected, set_code
from motion_nodes.ros.messages.request_fields import options_not_used
from motion_nodes.ros.messages.trajectory_messages import trajectory_from

if TYPE_CHECKING:
    from motion_nodes.nodes.rrt_planner import RrtPlannerNode

Codes = MoveItErrorCodes

PLANNING, MONITOR, IDLE, REPLANNING = "PLANNING", "MONITOR", "IDLE", "REPLANNING"
"""Feedback states. The first three are MoveIt's; REPLANNING is followed by ': <reason>'."""

SHUTDOWN_TIMEOUT = 2.0
"""Time that a shutdown waits for the results of goals [s]."""
MAX_REPLAN_DELAY = 60.0
"""Max delay between two replanning attempts [s]."""
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
        joints = self._host.requests.group(request.group_name).joints
        self._host.execution.claim(motion, joints)
        self._host.execution.settle(motion)
        job = PlanJob(request, options.planning_scene_diff, from_current=True, notes=notes)
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
            motion.pause(min(max(delay, 0.0), MAX_REPLAN_DELAY))
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
            joints = self._host.requests.group(job.request.group_name).joints
            self._host.execution.claim(motion, joints)
            self._host.execution.settle(motion)
        planned = plan_motion_sequence(
            self._host.requests, sequence, job, lambda: motion.stopped is not None
        )
        motion.raise_if_stopped()
        fill_sequence(goal.result.response, planned)
        self._host.display.show(planned)
        if not executed:
            return ExecutionResult(Codes.SUCCESS, planned.note)
        _send_feedback(goal, MONITOR)
        monitor = monitor_plan(self._host.requests, planned)
        message = planned.trajectory.joint_trajectory
        result = self._host.execution.execute(motion, message, monitor)
        return replace(result, text=result.text or planned.note)

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
            checked = trajectory_from(message, robot.joint_names)
        except MotionError as error:
            return ExecutionResult(Codes.INVALID_MOTION_PLAN, str(error))
        self._host.execution.claim(motion, checked.joint_names)
        if checked.times[0] == 0.0:
            self._host.execution.settle(motion)
        _send_feedback(goal, MONITOR)
        monitor = monitor_trajectory(self._host.requests, checked)
        return self._host.execution.execute(motion, message, monitor)


def _send_feedback(goal: ActionGoal, state: str) -> None:
    goal.feedback(goal.feedback_type(state=state))
