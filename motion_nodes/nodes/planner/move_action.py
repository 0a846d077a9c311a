# SPDX-License-Identifier: Apache-2.0
"""The actions of the planner: move_action plans and carries out, execute_trajectory carries out.

Each goal has a thread of its own, for it mostly waits. What it moves it takes from the motions that
moved it before; where something comes in its way it stops, plans anew and goes on.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from moveit_msgs.action import ExecuteTrajectory, MoveGroup
from moveit_msgs.msg import MoveItErrorCodes
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from motion_nodes.nodes.planner.plan_execution import ExecutedMotion, ExecutionResult, Stop
from motion_nodes.nodes.planner.planner_host import PlannerHost
from motion_nodes.nodes.planner.planning_requests import PlannedMotion, PlanWish
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.threaded_action_server import (
    ActionGoal,
    ActionOutcome,
    GoalServer,
)
from motion_nodes.ros.messages.moveit_messages import RequestRejected, set_code
from motion_nodes.ros.messages.trajectory_messages import seconds

Codes = MoveItErrorCodes

PLANNING, MONITOR, IDLE, REPLANNING = "PLANNING", "MONITOR", "IDLE", "REPLANNING"
"""States in feedback; all but the last are MoveIt's own, and that one goes on with why."""

FAREWELL_TIMEOUT = 2.0
"""[s] How long a node that is taken down waits for its goals."""
MOST_DELAY = 60.0
"""[s] No client waits longer than this between two plans."""

Work = Callable[[ActionGoal, ExecutedMotion], ExecutionResult]


class MoveActions:
    """Serves move_action, execute_trajectory and trajectory_execution_event."""

    def __init__(self, host: PlannerHost) -> None:
        self._host = host
        self._threads: set[threading.Thread] = set()
        self._motions: dict[ActionGoal, ExecutedMotion] = {}
        node, jobs = host.node, host.jobs
        self._servers = [
            GoalServer(
                node,
                jobs,
                kind,
                name,
                begin=lambda goal, work=work: self._begin(goal, work),  # type: ignore[misc]
                cancel=self._cancel,
            )
            for kind, name, work in (
                (MoveGroup, "move_action", self._move),
                (ExecuteTrajectory, "execute_trajectory", self._execute),
            )
        ]
        node.listen(String, "trajectory_execution_event", qos.REQUESTS, self._on_event)

    def stop(self, who: Stop, words: str = "") -> None:
        """Stop all that is under way; any thread may call this."""
        self._host.execution.stop_all(who, words)

    def finish(self) -> None:
        """Wait until all goals have their results, and send them; in the executor."""
        end = time.monotonic() + FAREWELL_TIMEOUT
        for thread in list(self._threads):
            while thread.is_alive() and time.monotonic() < end:
                # They hand to the executor, which is here, what the controller is to hear.
                self._host.jobs.run()
                thread.join(0.01)
        self._host.jobs.run()

    def destroy(self) -> None:
        """Take the servers down."""
        for server in self._servers:
            server.destroy()

    # ---- in the executor

    def _begin(self, goal: ActionGoal, work: Work) -> None:
        label = f"goal {goal.label}"
        motion = self._motions[goal] = self._host.execution.enter(label)
        thread = threading.Thread(
            target=self._run, args=(goal, motion, work), name=f"motion-{goal.label}", daemon=True
        )
        self._threads.add(thread)
        thread.start()

    def _cancel(self, goal: ActionGoal) -> bool:
        motion = self._motions.get(goal)
        if motion is not None:
            motion.stop(Stop.CLIENT)
        return motion is not None

    def _on_event(self, message: String) -> None:
        if message.data != "stop":
            self._host.node.get_logger().warning(
                f"trajectory_execution_event '{message.data}' is not known; 'stop' is"
            )
            return
        count = self._host.execution.stop_all(Stop.EVENT)
        self._host.node.get_logger().info(f"stop: {count} motions")

    # ---- in a goal's thread

    def _run(self, goal: ActionGoal, motion: ExecutedMotion, work: Work) -> None:
        try:
            ending = work(goal, motion)
        except RequestRejected as refusal:
            # Planning that was cancelled does not know by whom.
            stopped = refusal.code == Codes.PREEMPTED and motion.stopped is not None
            ending = ExecutionResult(refusal.code, motion.why if stopped else str(refusal))
        except Exception:
            self._host.node.get_logger().error(f"{motion.label}:\n{traceback.format_exc()}")
            ending = ExecutionResult(Codes.CRASH, "a fault of the planner; its log says more")
        self._host.execution.leave(motion)
        self._motions.pop(goal, None)
        self._answer(goal, motion, ending)
        self._threads.discard(threading.current_thread())

    def _answer(self, goal: ActionGoal, motion: ExecutedMotion, ending: ExecutionResult) -> None:
        node = self._host.node
        set_code(goal.result.error_code, ending.code, ending.text, node.get_name())
        outcome = ActionOutcome.ABORTED
        if ending.code == Codes.SUCCESS:
            outcome = ActionOutcome.SUCCEEDED
        elif motion.stopped is Stop.CLIENT:
            outcome = ActionOutcome.CANCELED
        if ending.text:
            node.get_logger().info(f"{motion.label} {outcome.value}: {ending.text}")
        goal.feedback(goal.feedback_type(state=IDLE))
        goal.finish(outcome, goal.result)

    def _move(self, goal: ActionGoal, motion: ExecutedMotion) -> ExecutionResult:
        """Plan, and carry out what was planned."""
        request, options = goal.request.request, goal.request.planning_options
        _tell(goal, PLANNING)
        if options.plan_only:
            wish = PlanWish(request, options.planning_scene_diff)
            planned = self._plan(goal, motion, wish)
            return ExecutionResult(Codes.SUCCESS, planned.note)
        joints = self._host.requests.group(request.group_name).joints
        self._host.execution.claim(motion, joints)
        self._host.execution.settle(motion)
        wish = PlanWish(request, options.planning_scene_diff, from_present=True)
        planned = self._plan(goal, motion, wish)
        attempts = 0
        if options.replan:
            attempts = options.replan_attempts or self._host.params.replan_attempts
        while True:
            ending = self._carry_out(goal, motion, planned)
            if not ending.blocked or attempts <= 0:
                return ending
            planned, attempts = self._plan_anew(goal, motion, wish, ending.text, attempts)

    def _carry_out(
        self, goal: ActionGoal, motion: ExecutedMotion, planned: PlannedMotion
    ) -> ExecutionResult:
        _tell(goal, MONITOR)
        watch = self._host.requests.watch(planned)
        message = planned.trajectory.joint_trajectory
        ending = self._host.execution.follow(motion, message, watch)
        goal.result.executed_trajectory.joint_trajectory = motion.executed()
        if ending.code == Codes.SUCCESS:
            return ExecutionResult(ending.code, planned.note)
        return ending

    def _plan(self, goal: ActionGoal, motion: ExecutedMotion, wish: PlanWish) -> PlannedMotion:
        planned = self._host.requests.plan(wish, lambda: motion.stopped is not None)
        motion.go_on()
        goal.result.trajectory_start = planned.start
        goal.result.planned_trajectory = planned.trajectory
        goal.result.planning_time += planned.time
        self._host.show(planned)
        return planned

    def _plan_anew(
        self, goal: ActionGoal, motion: ExecutedMotion, wish: PlanWish, obstacle: str, attempts: int
    ) -> tuple[PlannedMotion, int]:
        """Return another plan from where the robot was stopped, and the attempts that are left.

        Raises:
            RequestRejected: there is none.
        """
        options, params = goal.request.planning_options, self._host.params
        self._host.node.get_logger().info(f"{motion.label}: {obstacle}; planning anew")
        delay = options.replan_delay
        # The robot has left it.
        wish.request.start_state.joint_state = JointState()
        while True:
            attempts -= 1
            _tell(goal, f"{REPLANNING}: {obstacle}")
            motion.pause(min(max(delay, 0.0), MOST_DELAY))
            self._host.execution.settle(motion)
            try:
                return self._plan(goal, motion, wish), attempts
            except RequestRejected as refusal:
                motion.go_on()
                if attempts <= 0:
                    text = f"{obstacle} on the way; planned anew: {refusal}"
                    raise RequestRejected(refusal.code, text) from None
            # What blocks may move on.
            delay = options.replan_delay or params.replan_delay

    def _execute(self, goal: ActionGoal, motion: ExecutedMotion) -> ExecutionResult:
        """Carry out a trajectory that a client brings."""
        request, params = goal.request, self._host.params
        unknown = [name for name in request.controller_names if name != params.controller]
        if unknown:
            return ExecutionResult(
                Codes.CONTROL_FAILED,
                f"controller '{unknown[0]}' is not known here; trajectories are carried out by "
                f"'{params.controller}', which need not be named",
            )
        trajectory = request.trajectory
        if trajectory.multi_dof_joint_trajectory.points:
            text = "the trajectory moves joints of several degrees of freedom; there are none"
            return ExecutionResult(Codes.INVALID_MOTION_PLAN, text)
        message = trajectory.joint_trajectory
        self._host.execution.claim(motion, message.joint_names)
        if message.points and seconds(message.points[0].time_from_start) == 0.0:
            self._host.execution.settle(motion)
        _tell(goal, MONITOR)
        watch = self._host.requests.watch_free(message)
        return self._host.execution.follow(motion, message, watch)


def _tell(goal: ActionGoal, state: str) -> None:
    goal.feedback(goal.feedback_type(state=state))
