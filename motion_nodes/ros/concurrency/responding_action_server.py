# SPDX-License-Identifier: Apache-2.0
"""rclpy's action server, whose clients get their responses even if they are discovered late."""

from __future__ import annotations

from typing import Any

from rclpy._rclpy_pybind11 import RCLError
from rclpy.action import ActionServer

from motion_nodes.ros.concurrency.late_responses import (
    Undelivered,
    deliver,
    repeat,
    undelivered_raises,
)


class RespondingActionServer(ActionServer):
    """Repeats responses to goals and results whose client is not discovered yet.

    A response to a cancel request is not repeated: its client has had a response before.
    """

    async def _execute_goal_request(self, request_header_and_message: Any) -> None:
        """Respond to a goal and begin it; extends rclpy's (same in Jazzy and Kilted)."""
        header, request = request_header_and_message
        key = bytes(request.goal_id.uuid)
        known = key in self._goal_handles
        try:
            with undelivered_raises():
                await super()._execute_goal_request(request_header_and_message)
        except Undelivered:
            goal = None if known else self._goal_handles.get(key)
            response = self.action_type.Impl.SendGoalService.Response(accepted=goal is not None)
            if goal is not None:
                response.stamp = goal._goal_info.stamp
            repeat(lambda: self._handle.send_goal_response(header, response), self._lost)
            if goal is not None:
                self._handle.publish_status()
                self._handle_accepted_callback(goal)

    def _send_result_response(self, request_header: Any, future: Any) -> None:
        """Respond with a result; replaces rclpy's (same in Jazzy and Kilted)."""
        response = future.result()
        try:
            deliver(lambda: self._handle.send_result_response(request_header, response), self._lost)
        except RCLError as error:
            self._logger.debug(f"a result was lost: {error}")

    def _lost(self) -> None:
        self._logger.warning("a client did not get a response: it was not discovered in time")
