# SPDX-License-Identifier: Apache-2.0
"""Services that threads of their own answer, past the executor.

An executor answers one request after another, each 0.3 ms later than it came, and a request that
takes long holds up everything else that the executor serves. Here a few threads take turns: one
waits for requests, takes the first, hands the waiting over to the next thread and answers. So a
short request goes round in little more than the transport takes, and long ones run side by side
where their kernels release the GIL.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

from rclpy._rclpy_pybind11 import GuardCondition, InvalidHandle, RCLError, WaitSet
from rclpy.node import Node
from rclpy.qos import QoSProfile

from motion_nodes.ros.concurrency.polled_subscription import PolledGroup
from motion_nodes.ros.messages.failure_responses import fill_failure
from motion_nodes.ros.messages.message_bounds import fault_of

Handler = Callable[[Any, Any], Any]
"""Takes a request and a fresh response, returns the response."""


class ServiceThreads:
    """Some services of a node and the threads that answer them."""

    def __init__(self, node: Node, threads: int = 2) -> None:
        """Prepare for ``threads`` requests at a time; :meth:`serve`, then :meth:`start`."""
        self._node = node
        self._services: list[tuple[Any, Handler]] = []
        self._wake = GuardCondition(node.context.handle)
        self._leading = threading.Lock()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{node.get_name()}-requests-{i}", daemon=True)
            for i in range(threads)
        ]

    def serve(self, kind: Any, name: str, handler: Handler, profile: QoSProfile) -> None:
        """Offer a service.

        A request beyond its bounds, and a handler that raises, are answered with a failure as far
        as the type has words for it. Handlers run in several threads at once.
        """
        service = self._node.create_service(
            kind, name, handler, qos_profile=profile, callback_group=PolledGroup()
        )
        self._services.append((service, handler))

    def start(self) -> None:
        """Begin to answer."""
        for thread in self._threads:
            thread.start()

    def destroy(self) -> None:
        """Finish the requests under way, and take the services down."""
        self._stopping = True
        self._wake.trigger_guard_condition()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for service, _ in self._services:
            self._node.destroy_service(service)
        self._services.clear()

    def _work(self) -> None:
        while not self._stopping:
            try:
                with self._leading:
                    taken = None if self._stopping else self._next()
                if taken is not None:
                    self._answer(*taken)
            except Exception:
                self._node.get_logger().error(f"a request failed:\n{traceback.format_exc()}")
        # The next in line shall see it too.
        self._wake.trigger_guard_condition()

    def _next(self) -> tuple[Any, Handler, Any, Any] | None:
        """Wait for a request and take it; None when woken for something else."""
        try:
            self._wait()
            for service, handler in self._services:
                request, header = self._take(service)
                if header is not None:
                    return service, handler, request, header
        except (InvalidHandle, RCLError) as error:
            # The context is being shut down under us.
            self._node.get_logger().debug(f"requests end: {error}")
            self._stopping = True
        return None

    def _take(self, service: Any) -> tuple[Any, Any]:
        """Return a request and its header; None for both where none can be read."""
        with service.handle:
            try:
                request, header = service.handle.service_take_request(service.srv_type.Request)
                return request, header
            except (InvalidHandle, RCLError, MemoryError):
                raise
            except Exception as error:  # rclpy raises what its converters make of it
                self._node.get_logger().error(
                    f"a request of {service.srv_name} cannot be read and has no answer: {error!r}"
                )
                return None, None

    def _wait(self) -> None:
        waiting = WaitSet(0, 1, 0, 0, len(self._services), 0, self._node.context.handle)
        waiting.clear_entities()
        for service, _ in self._services:
            waiting.add_service(service.handle)
        waiting.add_guard_condition(self._wake)
        # Looking up now and then costs nothing, and ends with a context that just vanished.
        waiting.wait(500_000_000)

    def _answer(self, service: Any, handler: Handler, request: Any, header: Any) -> None:
        response = service.srv_type.Response()
        fault = fault_of(request)
        try:
            if fault:
                text = f"request of {service.srv_name} refused: {fault}"
                warn = getattr(self._node, "warn", None)
                if warn is not None:
                    warn(f"refused {service.srv_name}", text)
                fill_failure(response, f"refused: {fault}", rejected=True)
            else:
                response = handler(request, response)
        except Exception as error:
            self._node.get_logger().error(
                f"service {service.srv_name} failed:\n{traceback.format_exc()}"
            )
            response = fill_failure(service.srv_type.Response(), f"fault of the node: {error!r}")
        try:
            with service.handle:
                service.send_response(response, header)
        except (InvalidHandle, RCLError) as error:
            # The client has gone, or the node goes: nobody waits any more.
            self._node.get_logger().debug(f"an answer of {service.srv_name} was lost: {error}")
