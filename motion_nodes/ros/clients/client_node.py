# SPDX-License-Identifier: Apache-2.0
"""Clients of other nodes: a short-lived node for commands, and calls from a node's own handlers.

The executor that runs the handler may also spin those nodes (several nodes in one process), so a
handler must not block: it is a coroutine and awaits the response.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rclpy
from rclpy.action import ActionClient
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from motion_nodes.errors import MotionError
from motion_nodes.ros import qos, signals
from motion_nodes.ros.environment import init_arguments

CLEANED_UP = "the node was cleaned up"


@contextmanager
def client_node(name: str) -> Iterator[Node]:
    """Context manager of a node; Ctrl-C sets :data:`signals.STOP` meanwhile.

    Args:
        name: prefix of the node name, followed by the process id.
    """
    signals.stop_quietly()
    signals.nodes_exist()
    # The block handles Ctrl-C; it may still use the middleware, for example to cancel a goal.
    rclpy.init(args=init_arguments([]), signal_handler_options=SignalHandlerOptions.NO)
    node = Node(f"{name}_{os.getpid()}", use_global_arguments=False)
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def action_client(node: Node, action_type: Any, name: str) -> Any:
    """Create an action client whose request queues hold many simultaneous goals.

    Args:
        node: the node.
        action_type: action type.
        name: action name.
    """
    return ActionClient(
        node,
        action_type,
        name,
        goal_service_qos_profile=qos.SERVICES,
        result_service_qos_profile=qos.SERVICES,
        cancel_service_qos_profile=qos.SERVICES,
    )


class NoAnswer(MotionError):
    """A service is not available, or did not respond in time."""


class RemoteCalls:
    """Clients of other nodes' services."""

    def __init__(self, node: Node, timeout: Callable[[], float]) -> None:
        """Create the clients' callback group.

        Args:
            node: the node.
            timeout: returns the default timeout of responses [s].
        """
        self._node, self._timeout = node, timeout
        # The handler blocks its own group until it returns, so responses need another.
        self._group = ReentrantCallbackGroup()
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._clients: dict[str, Any] = {}
        self._pending: set[Any] = set()

    def connect(self, kind: Any, name: str) -> None:
        """Create the client of a service in advance, since discovery takes time; once.

        Args:
            kind: service type.
            name: service name.
        """
        if name not in self._clients:
            self._clients[name] = self._node.create_client(
                kind, name, qos_profile=qos.SERVICES, callback_group=self._group
            )

    def there(self, name: str) -> bool:
        """Return whether a connected service is available now."""
        return bool(self._clients[name].service_is_ready())

    async def call(self, name: str, request: Any, timeout: float | None = None) -> Any:
        """Call a connected service and return its response.

        Args:
            name: service name, as in :meth:`connect`.
            request: the request.
            timeout: timeout of the response, in wall time [s]; None for the default.

        Raises:
            NoAnswer: the service is not available, or did not respond in time.
        """
        client = self._clients.get(name)
        if client is None:
            raise NoAnswer(f"service {name} is not available: {CLEANED_UP}")
        if not client.service_is_ready():
            raise NoAnswer(f"service {client.srv_name} is not available; is its node running?")
        timeout = self._timeout() if timeout is None else timeout
        future = client.call_async(request)
        expiry = self._node.create_timer(
            timeout, lambda: future.set_result(None), callback_group=self._group, clock=self._clock
        )
        future.add_done_callback(lambda _: expiry.cancel())
        self._pending.add(future)
        try:
            response = await future
        finally:
            self._pending.discard(future)
            self._node.destroy_timer(expiry)
        if response is None:
            raise NoAnswer(f"{client.srv_name} did not respond within {timeout:g} s")
        return response

    def destroy(self) -> None:
        """Destroy the clients; pending calls get no response."""
        for future in list(self._pending):
            future.set_exception(NoAnswer(CLEANED_UP))
        for client in self._clients.values():
            self._node.destroy_client(client)
        self._clients.clear()
