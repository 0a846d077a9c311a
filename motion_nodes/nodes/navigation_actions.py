# SPDX-License-Identifier: Apache-2.0
"""The actions of the base navigator, under the names that clients of Nav2 know.

The core runs in the node's loop; this part runs in the executor. When a task ends the loop wakes
the executor through a guard condition, and the result goes out. A goal that cannot be carried out
is accepted and aborted at once, for only a result can say why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nav2_msgs.action import FollowPath, NavigateToPose
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future

from motion_nodes.base_motion.navigator import Ending, Task
from motion_nodes.nodes.navigation_requests import (
    NavigationHost,
    Plan,
    Refused,
    plan_along,
    plan_to_pose,
)
from motion_nodes.ros import qos
from motion_nodes.ros.planar_messages import stamped_pose

RESULT_TIMEOUT = 10
"""[s] How long a result waits for its client."""

Codes = FollowPath.Result

CODES = {
    Ending.SUCCEEDED: Codes.NONE,
    Ending.CANCELED: Codes.NONE,
    Ending.PREEMPTED: Codes.UNKNOWN,
    Ending.STUCK: Codes.FAILED_TO_MAKE_PROGRESS,
    Ending.FAILED: Codes.NO_VALID_CONTROL,
    Ending.LOST: Codes.TF_ERROR,
    Ending.ABORTED: Codes.UNKNOWN,
}
"""Error code of each ending, in both actions: Nav2's NavigateToPose passes on FollowPath's."""

LOOP_SILENT = "the navigator's loop did not answer"


@dataclass(eq=False)
class _Goal:
    handle: Any
    future: Future
    action: Any
    task: Task | None = None
    frame: str = ""


class NavigationServer:
    """Serves ``navigate_to_pose`` and ``follow_path``."""

    def __init__(self, host: NavigationHost, feedback_rate: float) -> None:
        """Create the servers; feedback goes out at ``feedback_rate`` [Hz]."""
        self._host = host
        self._goals: list[_Goal] = []
        self._futures: dict[bytes, Future] = {}
        node = host.node
        self._ended = node.create_guard_condition(self.finish)
        self._timer = node.create_timer(1.0 / feedback_rate, self._send_feedback)
        self._timer.cancel()
        self._servers = [
            self._serve(NavigateToPose, "navigate_to_pose"),
            self._serve(FollowPath, "follow_path"),
        ]

    def look(self) -> None:
        """Wake the executor when a goal's task has ended; called in the loop."""
        if any(goal.task is not None and goal.task.ended for goal in self._goals):
            self._ended.trigger()

    def finish(self) -> None:
        """Answer the goals whose tasks have ended; in the executor."""
        for goal in list(self._goals):
            if goal.task is not None and goal.task.ended:
                self._answer(goal, CODES[goal.task.ending], goal.task.text, goal.task.ending)

    def destroy(self) -> None:
        """Abort what is left and take the servers down."""
        for goal in list(self._goals):
            self._answer(goal, Codes.UNKNOWN, "the navigator is being taken down")
        node = self._host.node
        for server in self._servers:
            server.destroy()
        node.destroy_timer(self._timer)
        node.destroy_guard_condition(self._ended)

    def _serve(self, kind: Any, name: str) -> ActionServer:
        return ActionServer(
            self._host.node,
            kind,
            name,
            execute_callback=self._execute,
            goal_callback=self._judge,
            handle_accepted_callback=lambda handle: self._accept(handle, kind),
            cancel_callback=self._cancel,
            result_timeout=RESULT_TIMEOUT,
            goal_service_qos_profile=qos.ACTION_REQUESTS,
            result_service_qos_profile=qos.ACTION_REQUESTS,
            cancel_service_qos_profile=qos.ACTION_REQUESTS,
        )

    def _judge(self, _request: Any) -> GoalResponse:
        if not self._host.node.active:
            self._host.node.warn("inactive", "goal rejected: the navigator is not active")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accept(self, handle: Any, action: Any) -> None:
        goal = _Goal(handle, Future(), action)
        self._goals.append(goal)
        self._futures[bytes(handle.goal_id.uuid)] = goal.future
        handle.execute()
        label = f"{action.__name__} goal {bytes(handle.goal_id.uuid).hex()[:8]}"
        try:
            plan = self._plan(handle.request, action)
            goal.frame = plan.frame
            goal.task = self._host.node.in_loop(lambda: self._host.begin(plan, label))
            self._timer.reset()
        except Refused as error:
            self._answer(goal, error.code, str(error))
        except TimeoutError:
            self._answer(goal, Codes.CONTROLLER_TIMED_OUT, LOOP_SILENT)

    def _plan(self, request: Any, action: Any) -> Plan:
        if action is FollowPath:
            return plan_along(self._host, request.path, request.controller_id)
        if request.behavior_tree:
            raise Refused(
                Codes.INVALID_CONTROLLER,
                f"behavior_tree '{request.behavior_tree}': this navigator has no behavior trees; "
                "leave it empty",
            )
        return plan_to_pose(self._host, request.pose)

    def _cancel(self, handle: Any) -> CancelResponse:
        goal = next((g for g in self._goals if g.handle.goal_id == handle.goal_id), None)
        if goal is None or goal.task is None:
            return CancelResponse.REJECT
        task = goal.task
        try:
            self._host.node.in_loop(lambda: self._host.cancel(task))
        except TimeoutError:
            return CancelResponse.REJECT
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        return await self._futures.pop(bytes(handle.goal_id.uuid))

    def _answer(self, goal: _Goal, code: int, text: str, ending: Ending | None = None) -> None:
        self._goals.remove(goal)
        if not self._goals:
            self._timer.cancel()
        if ending is Ending.SUCCEEDED:
            goal.handle.succeed()
        elif ending is Ending.CANCELED and goal.handle.is_cancel_requested:
            goal.handle.canceled()
        else:
            goal.handle.abort()
        if text:
            self._host.node.get_logger().info(f"goal ended: {text}")
        goal.future.set_result(goal.action.Result(error_code=code, error_msg=text))

    def _send_feedback(self) -> None:
        for goal in list(self._goals):
            task = goal.task
            if task is None or task.ended or not goal.handle.is_active:
                continue
            goal.handle.publish_feedback(self._feedback(goal, task))

    def _feedback(self, goal: _Goal, task: Task) -> Any:
        view = self._host.progress()
        if goal.action is FollowPath:
            return FollowPath.Feedback(distance_to_goal=view.remaining, speed=view.speed)
        message = NavigateToPose.Feedback(distance_remaining=view.remaining)
        now = self._host.node.now_ns()
        message.current_pose = stamped_pose(view.pose, goal.frame, now)
        _fill(message.navigation_time, task.time)
        _fill(message.estimated_time_remaining, view.time_remaining)
        return message


def _fill(duration: Any, seconds: float) -> None:
    duration.sec = int(seconds)
    duration.nanosec = int((seconds - duration.sec) * 1e9)
