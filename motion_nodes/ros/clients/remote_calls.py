# SPDX-License-Identifier: Apache-2.0
"""Calls to services of other nodes from within a service handler.

The executor that runs the handler may be the one that serves those nodes too (several nodes in one
process), so a handler must never wait: it is a coroutine, and awaits the answer.
"""

from __future__ import annotations

from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from motion_nodes.errors import MotionError


class NoAnswer(MotionError):
    """A service that is not there, or did not answer in time."""


class RemoteCalls:
    """Clients of other nodes' services."""

    def __init__(self, node: Node) -> None:
        """Call on behalf of ``node``."""
        self._node = node
        # The handler holds its own group until it ends, so answers need another.
        self._group = ReentrantCallbackGroup()
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._clients: dict[str, Any] = {}

    def connect(self, kind: Any, name: str) -> None:
        """Create the client of a service, for it takes a moment to find the service."""
        self._clients[name] = self._node.create_client(kind, name, callback_group=self._group)

    def there(self, name: str) -> bool:
        """Return whether a connected service is there now."""
        return bool(self._clients[name].service_is_ready())

    async def ask(self, name: str, request: Any, timeout: float) -> Any:
        """Call a connected service and return its response.

        Args:
            name: as connected.
            request: of the service's type.
            timeout: wall time after which it is given up [s].

        Raises:
            NoAnswer: the service is not there, or did not answer in time.
        """
        client = self._clients[name]
        if not client.service_is_ready():
            raise NoAnswer(f"there is no service {client.srv_name}; is its node running?")
        future = client.call_async(request)
        expiry = self._node.create_timer(
            timeout, lambda: future.set_result(None), callback_group=self._group, clock=self._clock
        )
        future.add_done_callback(lambda _: expiry.cancel())
        try:
            response = await future
        finally:
            self._node.destroy_timer(expiry)
        if response is None:
            raise NoAnswer(f"{client.srv_name} did not answer within {timeout:g} s")
        return response

    def destroy(self) -> None:
        """Give the clients up."""
        for client in self._clients.values():
            self._node.destroy_client(client)
        self._clients.clear()
