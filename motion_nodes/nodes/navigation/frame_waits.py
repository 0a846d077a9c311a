# SPDX-License-Identifier: Apache-2.0
"""Goals that wait for the transform of their frame, without blocking the executor."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

from rclpy.clock import Clock, ClockType

from motion_nodes.nodes.navigation.navigation_requests import (
    Codes,
    FrameNotKnown,
    NavigationRejected,
)
from motion_nodes.ros.node import MotionNode

TRANSFORM_WAIT = 0.5
"""Max time that a goal waits for the transform of its frame [s]."""
RETRY_PERIOD = 0.05
"""[s]"""


class NavigationRequest(Protocol):
    """A goal from an action client or a topic."""

    @property
    def ended(self) -> bool:
        """Whether it was canceled while it waited, and is not to be started."""

    def start(self) -> None:
        """Plan and start the motion.

        Raises:
            FrameNotKnown: no transform of the goal's frame has been received yet.
            NavigationRejected, TimeoutError: it cannot be executed.
        """

    def refuse(self, error: Exception) -> None:
        """Report why it is not executed."""


@dataclass(frozen=True)
class _Waiting:
    request: NavigationRequest
    number: int
    deadline: float


class FrameWaits:
    """Retries requests until their frame is known; in the executor."""

    def __init__(self, node: MotionNode[Any]) -> None:
        """Create the timer of the retries."""
        self._node = node
        self._waiting: list[_Waiting] = []
        self._count = self._started = 0
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(RETRY_PERIOD, self._retry, clock=steady)
        self._timer.cancel()

    def begin(self, request: NavigationRequest) -> None:
        """Start a request now or within :data:`TRANSFORM_WAIT`; after that, refuse it."""
        self._count += 1
        waiting = _Waiting(request, self._count, time.monotonic() + TRANSFORM_WAIT)
        if not self._done(waiting):
            self._waiting.append(waiting)
            self._timer.reset()

    def destroy(self) -> None:
        """Discard waiting requests; their owner responds to them."""
        self._waiting.clear()
        self._node.destroy_timer(self._timer)

    def _retry(self) -> None:
        self._waiting = [each for each in self._waiting if not self._done(each)]
        if not self._waiting:
            self._timer.cancel()

    def _done(self, waiting: _Waiting) -> bool:
        request = waiting.request
        if request.ended:
            return True
        try:
            if waiting.number < self._started:
                raise NavigationRejected(Codes.UNKNOWN, "a newer goal was accepted meanwhile")
            request.start()
            self._started = waiting.number
        except FrameNotKnown as error:
            if time.monotonic() < waiting.deadline:
                return False
            request.refuse(error)
        except (NavigationRejected, TimeoutError) as error:
            request.refuse(error)
        return True
