# SPDX-License-Identifier: Apache-2.0
"""rclpy's action server, whose clients get every response.

Two of its properties lose responses:

- A client that is discovered late does not get them; they are repeated (:mod:`.late_responses`).
- rclpy's action client sends a request, and only then notes its number. If another thread spins its
  node, that thread may take a fast response in between, and drops it as unexpected ("Ignoring
  unexpected goal response"); the client waits forever. Clients of services hold a lock meanwhile,
  those of actions do not. Responses to goals, cancellations and requests of results are therefore
  not sent earlier than :data:`HOLD_BACK` after their request; the goal itself begins at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalInfo
from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import GoalEvent, ServerGoalHandle
from rclpy.clock import Clock, ClockType
from rclpy.task import Future

from motion_nodes.ros.concurrency.late_responses import deliver

HOLD_BACK = 0.02
"""[s] Time from a request to its response. A client needs microseconds, unless its thread loses
Python's lock meanwhile, for the interpreter's switch interval of 5 ms, or on a busy machine its
processor, for some time slices of the scheduler."""

RELEASE_PERIOD = 0.005
"""[s] Period at which responses that are due are sent."""


class RespondingActionServer(ActionServer):
    """Holds back and repeats responses; requests are handled as by rclpy (Jazzy and Kilted)."""

    def __init__(self, node: Any, *args: Any, **kwargs: Any) -> None:
        """Create the server; see rclpy."""
        self._held: deque[tuple[float, Callable[[], None]]] = deque()
        """Responses with the times at which they are due, on ``time.monotonic()`` [s]."""
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._release_timer = node.create_timer(RELEASE_PERIOD, self._release, clock=steady)
        self._release_timer.cancel()
        super().__init__(node, *args, **kwargs)

    def destroy(self) -> None:
        """Send what is held back, and destroy the server."""
        while self._held:
            self._held.popleft()[1]()
        self._node.destroy_timer(self._release_timer)
        super().destroy()

    async def _execute_goal_request(self, request_header_and_message: Any) -> None:
        """Accept a goal and begin it; its response follows."""
        header, request = request_header_and_message
        due = time.monotonic() + HOLD_BACK
        info = GoalInfo(goal_id=request.goal_id)
        with self._lock:
            known = self._handle.goal_exists(info)
        goal = None
        if not known and self._goal_callback(request.goal) is GoalResponse.ACCEPT:
            info.stamp = self._node.get_clock().now().to_msg()
            goal = self._new_goal(info, request.goal)
        response = self.action_type.Impl.SendGoalService.Response(
            accepted=goal is not None, stamp=info.stamp
        )

        def respond() -> None:
            self._handle.send_goal_response(header, response)

        self._respond(due, respond, announces=goal is not None)
        if goal is not None:
            self._handle.publish_status()
            self._handle_accepted_callback(goal)

    async def _execute_cancel_request(self, request_header_and_message: Any) -> None:
        """Cancel goals; a response names those that are being canceled."""
        header, request = request_header_and_message
        due = time.monotonic() + HOLD_BACK
        with self._lock:
            response = self._handle.process_cancel_request(
                request, self.action_type.Impl.CancelGoalService.Response
            )
        canceling = []
        for info in response.goals_canceling:
            goal = self._goal_handles.get(bytes(info.goal_id.uuid))
            if goal is None or self._cancel_callback(goal) is not CancelResponse.ACCEPT:
                continue
            try:
                goal._update_state(GoalEvent.CANCEL_GOAL)
            except RCLError as error:
                self._logger.debug(f"a canceled goal has ended: {error}")
                continue
            canceling.append(info)
        if response.goals_canceling and not canceling:
            response.return_code = response.ERROR_REJECTED
        response.goals_canceling = canceling
        self._respond(due, lambda: self._handle.send_cancel_response(header, response))

    async def _execute_get_result_request(self, request_header_and_message: Any) -> None:
        """Respond with a result as soon as there is one."""
        header, request = request_header_and_message
        due = time.monotonic() + HOLD_BACK
        future = self._result_futures.get(bytes(request.goal_id.uuid))
        if future is None:
            unknown = Future()
            unknown.set_result(self.action_type.Impl.GetResultService.Response())
            self._send_result(header, due, unknown)
        else:
            future.add_done_callback(lambda done: self._send_result(header, due, done))

    def _new_goal(self, info: GoalInfo, request: Any) -> ServerGoalHandle | None:
        """Return the handle of an accepted goal; None if rcl refuses it."""
        try:
            with self._lock:
                goal = ServerGoalHandle(self, info, request)
        except RuntimeError as error:
            self._logger.error(f"a goal was not accepted: {error}")
            return None
        key = bytes(info.goal_id.uuid)
        self._goal_handles[key], self._result_futures[key] = goal, Future()
        self.add_future(self._result_futures[key])
        return goal

    def _send_result(self, header: Any, due: float, future: Future) -> None:
        response = future.result()
        self._respond(due, lambda: self._handle.send_result_response(header, response))

    def _respond(self, due: float, send: Callable[[], None], *, announces: bool = False) -> None:
        """Send a response when it is due.

        Args:
            due: on ``time.monotonic()`` [s].
            send: sends it by rclpy.
            announces: whether clients learn by it of a goal, whose status they ignored before.
        """

        def now() -> None:
            try:
                deliver(send, self._lost)
                if announces:
                    self._handle.publish_status()
            except (RCLError, InvalidHandle) as error:
                self._logger.debug(f"a response was lost, its client has gone: {error}")

        if time.monotonic() >= due:
            now()
            return
        self._held.append((due, now))
        if self._release_timer.is_canceled():
            self._release_timer.reset()

    def _release(self) -> None:
        """Send the responses that are due."""
        while self._held and self._held[0][0] <= time.monotonic():
            self._held.popleft()[1]()
        if not self._held:
            self._release_timer.cancel()

    def _lost(self) -> None:
        self._logger.warning("a client did not get a response: it was not discovered in time")
