# SPDX-License-Identifier: Apache-2.0
"""Services that threads of the node answer, or its loop.

Services of type Trigger or SetBool whose work is done in the node's loop.

Services answered by a pool of threads instead of the executor. An executor answers requests one
after another, 0.3 ms after they arrive, and a long request blocks everything else that it serves.
Here a pool of threads follows the leader/followers pattern: the leader waits for a request, takes
it, promotes the next thread and answers. A short request then takes little more than the transport,
and long ones run in parallel where kernels release the GIL.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile

from motion_nodes.errors import MotionError
from motion_nodes.ros.concurrency.rclpy_internals import (
    PolledGroup,
    RCLError,
    RequestWait,
    send_response,
    take_request,
)
from motion_nodes.ros.messages.message_bounds import fault_of, fill_failure
from motion_nodes.ros.node import MotionNode

LONGEST_WAIT = 0.5
"""[s] Time after which a thread without requests looks whether it is still needed."""
Handler = Callable[[Any, Any], Any]
"""Returns the response to a request, given the request and an empty response."""


class ServiceThreads:
    """Services of a node with the threads that answer them."""

    def __init__(self, node: Node, threads: int = 2) -> None:
        """Create the threads; add services by :meth:`serve`, then :meth:`start`.

        Args:
            node: the node.
            threads: max number of requests answered in parallel.
        """
        self._node = node
        self._services: list[tuple[Any, Handler]] = []
        self._requests = RequestWait(node)
        self._leading = threading.Lock()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{node.get_name()}-requests-{i}", daemon=True)
            for i in range(threads)
        ]

    def serve(self, kind: Any, name: str, handler: Handler, profile: QoSProfile) -> None:
        """Create a service.

        A request that exceeds its bounds, or whose handler raises, gets a failure response, as far
        as the service type has fields for it.

        Args:
            kind: service type.
            name: service name.
            handler: see :data:`Handler`; must be thread-safe.
            profile: quality of service.
        """
        service = self._node.create_service(
            kind, name, handler, qos_profile=profile, callback_group=PolledGroup()
        )
        self._services.append((service, handler))

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def destroy(self) -> None:
        """Finish the requests under way, and destroy the services."""
        self._stopping = True
        self._requests.wake()
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
        # Wake the next thread, so that it ends too.
        self._requests.wake()

    def _next(self) -> tuple[Any, Handler, Any, Any] | None:
        """Wait for a request and take it; None if woken for another reason."""
        try:
            # The timeout ends the wait after a shutdown of the context.
            self._requests.wait([service for service, _ in self._services], LONGEST_WAIT)
            for service, handler in self._services:
                request, header = self._take(service)
                if header is not None:
                    return service, handler, request, header
        except (InvalidHandle, RCLError) as error:
            # The context was shut down.
            self._node.get_logger().debug(f"service threads end: {error}")
            self._stopping = True
        return None

    def _take(self, service: Any) -> tuple[Any, Any]:
        """Take a request and its header; None for both if none can be read."""
        try:
            return take_request(service)
        except (InvalidHandle, RCLError, MemoryError):
            raise
        except Exception as error:  # rclpy's converters raise various types
            self._node.get_logger().error(
                f"a request of {service.srv_name} cannot be read or answered: {error!r}"
            )
            return None, None

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
            send_response(service, response, header)
        except (InvalidHandle, RCLError) as error:
            # The client or the node was destroyed.
            self._node.get_logger().debug(f"a response of {service.srv_name} was lost: {error}")


def respond_from_loop(node: MotionNode[Any], response: Any, job: Callable[[], str]) -> Any:
    """Run a job in the loop and fill in the response.

    Args:
        node: with the loop.
        response: with the fields ``success`` and ``message``.
        job: returns the message of success; its MotionErrors are reported as failures.

    Returns:
        The response.
    """
    try:
        response.message = node.in_loop(job)
        response.success = True
    except (MotionError, TimeoutError) as error:
        response.success, response.message = False, str(error)
    return response
