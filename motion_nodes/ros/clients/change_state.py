# SPDX-License-Identifier: Apache-2.0
"""The ``change_state`` service of a node, in place of rclpy's.

An invalid transition fails with a warning instead of an exception. Before a cleanup or shutdown
destroys the endpoints, the node responds to pending requests and goals, and waits until the
responses are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lifecycle_msgs.msg import Transition
from rclpy._rclpy_pybind11 import RCLError
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.task import Future

TEARDOWN_DELAY = 0.1
"""[s] Delay between the last responses and the destruction of endpoints. Readers are notified of a
writer's end on another channel than its messages, and drop messages that arrive later."""

TEARDOWNS = {
    Transition.TRANSITION_CLEANUP,
    Transition.TRANSITION_INACTIVE_SHUTDOWN,
    Transition.TRANSITION_ACTIVE_SHUTDOWN,
}
"""Transitions that destroy the endpoints."""


class ChangeStateService:
    """Replaces rclpy's handler of the service."""

    def __init__(self, node: LifecycleNode, halt_and_answer: Callable[[], None]) -> None:
        """Install the handler.

        Args:
            node: the node.
            halt_and_answer: halts the robot and answers pending requests and goals.
        """
        self._node = node
        self._halt_and_answer = halt_and_answer
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._change = node._service_change_state.callback
        node._service_change_state.callback = self._answer

    async def _answer(self, request: Any, response: Any) -> Any:
        """Make the transition, or log why it is invalid."""
        requested = request.transition
        machine = self._node._state_machine
        possible = {label: number for number, label, *_ in machine.available_transitions}
        # As in rclpy, a label takes precedence over an id.
        number = possible.get(requested.label) if requested.label else requested.id
        if number in TEARDOWNS and number in possible.values():
            self._halt_and_answer()
            await self._pause(TEARDOWN_DELAY)
        try:
            return self._change(request, response)
        except RCLError:
            self._node.get_logger().warning(
                f"transition {requested.label or requested.id} is not possible in state "
                f"'{machine.current_state[1]}'; possible: {', '.join(possible) or 'none'}"
            )
            response.success = False
            return response

    async def _pause(self, seconds: float) -> None:
        """Wait without blocking the executor [s]."""
        elapsed = Future()
        # In its own callback group: that of the service is busy.
        timer = self._node.create_timer(
            seconds, lambda: elapsed.set_result(None), ReentrantCallbackGroup(), clock=self._clock
        )
        await elapsed
        self._node.destroy_timer(timer)
