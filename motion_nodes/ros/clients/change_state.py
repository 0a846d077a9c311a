# SPDX-License-Identifier: Apache-2.0
"""The ``change_state`` service of a node, with what rclpy's own leaves out.

A transition that is not possible now is refused in words instead of raising. And before a cleanup
or shutdown takes the endpoints down, the node answers those who still wait for an answer, and
leaves the answers time to go out.
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

FAREWELL = 0.1
"""[s] Between the last answers of a node's endpoints and their end. Readers hear of a writer's end
on another way than of its last message, and drop what comes after."""

ENDS = {
    Transition.TRANSITION_CLEANUP,
    Transition.TRANSITION_INACTIVE_SHUTDOWN,
    Transition.TRANSITION_ACTIVE_SHUTDOWN,
}
"""Transitions that take the endpoints down."""


class ChangeStateService:
    """Takes the place of rclpy's handler of the service."""

    def __init__(self, node: LifecycleNode, say_goodbye: Callable[[], None]) -> None:
        """Put this before the handler that the node has; ``say_goodbye`` answers who waits."""
        self._node = node
        self._say_goodbye = say_goodbye
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._change = node._service_change_state.callback
        node._service_change_state.callback = self._answer

    async def _answer(self, request: Any, response: Any) -> Any:
        """Do the transition, or say why not."""
        wanted = request.transition
        machine = self._node._state_machine
        possible = {label: number for number, label, *_ in machine.available_transitions}
        # As in rclpy, a label counts before a number.
        number = possible.get(wanted.label) if wanted.label else wanted.id
        if number in ENDS and number in possible.values():
            self._say_goodbye()
            await self._pause(FAREWELL)
        try:
            return self._change(request, response)
        except RCLError:
            self._node.get_logger().warning(
                f"transition {wanted.label or wanted.id} is not possible in state "
                f"'{machine.current_state[1]}'; possible: {', '.join(possible) or 'none'}"
            )
            response.success = False
            return response

    async def _pause(self, seconds: float) -> None:
        """Let the executor do other work for a while."""
        over = Future()
        # In a group of its own: that of the service is busy with us.
        timer = self._node.create_timer(
            seconds, lambda: over.set_result(None), ReentrantCallbackGroup(), clock=self._clock
        )
        await over
        self._node.destroy_timer(timer)
