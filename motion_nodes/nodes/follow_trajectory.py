# SPDX-License-Identifier: Apache-2.0
"""The FollowJointTrajectory action of the articulation controller.

The core runs in the node's loop; this part runs in the executor. A goal is started between two
ticks; when its trajectory ends the loop wakes the executor through a guard condition, and the
result goes out. A goal that cannot be followed is accepted and aborted at once, for only a result
can say why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future

from motion_nodes.control.trajectory_follower import FollowStatus
from motion_nodes.control.trajectory_runner import Run
from motion_nodes.errors import MotionError, UnknownJoint
from motion_nodes.nodes.controller_host import ControllerHost
from motion_nodes.nodes.trajectory_requests import (
    LOOP_SILENT,
    OldTrajectory,
    goal_of,
    start,
)
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import set_stamp

Result = FollowJointTrajectory.Result

RESULT_TIMEOUT = 10
"""[s] How long a result waits for its client; rclpy's 15 minutes would keep every trajectory."""

CODES = {
    FollowStatus.SUCCEEDED: Result.SUCCESSFUL,
    FollowStatus.PATH_TOLERANCE_VIOLATED: Result.PATH_TOLERANCE_VIOLATED,
    FollowStatus.GOAL_TOLERANCE_VIOLATED: Result.GOAL_TOLERANCE_VIOLATED,
    FollowStatus.PREEMPTED: Result.INVALID_GOAL,
    FollowStatus.CANCELED: Result.SUCCESSFUL,
    FollowStatus.ABORTED: Result.INVALID_GOAL,
}
"""Error code of each way to end."""


@dataclass(eq=False)
class _Goal:
    handle: Any
    future: Future
    run: Run | None = None


class FollowTrajectoryServer:
    """Serves ``~/follow_joint_trajectory``."""

    def __init__(self, host: ControllerHost, monitor_rate: float) -> None:
        """Create the server; feedback goes out at ``monitor_rate`` [Hz]."""
        self._host = host
        self._goals: list[_Goal] = []
        self._futures: dict[bytes, Future] = {}
        node = host.node
        self._ended = node.create_guard_condition(self.finish)
        self._timer = node.create_timer(1.0 / monitor_rate, self._send_feedback)
        self._timer.cancel()
        self._server = ActionServer(
            node,
            FollowJointTrajectory,
            "~/follow_joint_trajectory",
            execute_callback=self._execute,
            goal_callback=self._judge,
            handle_accepted_callback=self._accept,
            cancel_callback=self._cancel,
            result_timeout=RESULT_TIMEOUT,
            goal_service_qos_profile=qos.ACTION_REQUESTS,
            result_service_qos_profile=qos.ACTION_REQUESTS,
            cancel_service_qos_profile=qos.ACTION_REQUESTS,
        )

    def look(self) -> None:
        """Wake the executor when a goal's trajectory has ended; called in the loop."""
        for goal in self._goals:
            if goal.run is not None and goal.run.follower.status.ended:
                self._ended.trigger()
                return

    def destroy(self) -> None:
        """Abort what is left and take the server down."""
        for goal in list(self._goals):
            if goal.run is None or not goal.run.follower.status.ended:
                self._answer(goal, Result.INVALID_GOAL, "the controller is being taken down")
        node = self._host.node
        self._server.destroy()
        node.destroy_timer(self._timer)
        node.destroy_guard_condition(self._ended)

    def _judge(self, _request: Any) -> GoalResponse:
        if not self._host.node.active:
            self._host.node.warn("inactive", "goal rejected: the controller is not active")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accept(self, handle: Any) -> None:
        goal = _Goal(handle, Future())
        self._goals.append(goal)
        self._futures[bytes(handle.goal_id.uuid)] = goal.future
        handle.execute()
        request = handle.request
        label = f"action goal {bytes(handle.goal_id.uuid).hex()[:8]}"
        try:
            # Reading a long message takes a while; only the start itself is for the loop.
            wish = goal_of(self._host, request.trajectory, request)
            stamp = request.trajectory.header.stamp
            goal.run = self._host.node.in_loop(lambda: start(self._host, wish, stamp, label))
            self._timer.reset()
        except OldTrajectory as error:
            self._answer(goal, Result.OLD_HEADER_TIMESTAMP, str(error))
        except UnknownJoint as error:
            self._answer(goal, Result.INVALID_JOINTS, str(error))
        except (MotionError, TimeoutError) as error:
            self._answer(goal, Result.INVALID_GOAL, str(error) or LOOP_SILENT)

    def _cancel(self, handle: Any) -> CancelResponse:
        goal = next((g for g in self._goals if g.handle.goal_id == handle.goal_id), None)
        if goal is None or goal.run is None:
            return CancelResponse.REJECT
        run = goal.run
        try:
            self._host.node.in_loop(lambda: self._host.runner.cancel(run, "canceled by its client"))
        except TimeoutError:
            return CancelResponse.REJECT
        self._ended.trigger()
        return CancelResponse.ACCEPT

    async def _execute(self, handle: Any) -> Any:
        return await self._futures.pop(bytes(handle.goal_id.uuid))

    def finish(self) -> None:
        """Answer the goals whose trajectories have ended; in the executor."""
        for goal in list(self._goals):
            if goal.run is not None and goal.run.follower.status.ended:
                follower = goal.run.follower
                self._answer(goal, CODES[follower.status], follower.text, follower.status)

    def _answer(
        self, goal: _Goal, code: int, text: str, status: FollowStatus | None = None
    ) -> None:
        self._goals.remove(goal)
        if not self._goals:
            self._timer.cancel()
        if status is FollowStatus.SUCCEEDED:
            goal.handle.succeed()
        elif status is FollowStatus.CANCELED and goal.handle.is_cancel_requested:
            goal.handle.canceled()
        else:
            goal.handle.abort()
        if text:
            self._host.node.get_logger().info(f"goal ended: {text}")
        goal.future.set_result(Result(error_code=code, error_string=text))

    def _send_feedback(self) -> None:
        for goal in list(self._goals):
            run = goal.run
            now = run.progress if run is not None else None
            if run is None or now is None or not goal.handle.is_active:
                continue
            message = FollowJointTrajectory.Feedback(joint_names=list(run.follower.joint_names))
            set_stamp(message, self._host.node.now_ns())
            position, velocity = now.wanted.position, now.wanted.velocity
            _fill(message.desired, position, velocity, now.time)
            _fill(message.actual, now.position, now.velocity, now.time)
            _fill(message.error, position - now.position, velocity - now.velocity, now.time)
            goal.handle.publish_feedback(message)


def _fill(point: Any, position: np.ndarray, velocity: np.ndarray, time: float) -> None:
    point.positions, point.velocities = position.tolist(), velocity.tolist()
    whole = int(max(time, 0.0))
    point.time_from_start.sec = whole
    point.time_from_start.nanosec = int((max(time, 0.0) - whole) * 1e9)
