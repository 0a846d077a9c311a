# SPDX-License-Identifier: Apache-2.0
"""A node's endpoints: polled or spun, they come with its configuration and end with it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile

from motion_nodes.model.bounds import Bound
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledGroup, PolledSubscription
from motion_nodes.ros.diagnostics import Warnings
from motion_nodes.ros.messages.cdr import InvalidMessage, message_in
from motion_nodes.ros.messages.failure_responses import fill_failure
from motion_nodes.ros.messages.message_bounds import fault_of
from motion_nodes.ros.ros_time import RosTime

M = TypeVar("M")


class EndpointNode(LifecycleNode):
    """A lifecycle node that knows its time and its endpoints."""

    def __init__(self, name: str, *, ros_args: list[str] | None = None) -> None:
        """Create the node; None for ``ros_args`` takes those of the process."""
        self._time = RosTime(self)
        self._polled: list[PolledSubscription[Any]] = []
        self._entities: list[tuple[Callable[[Any], Any], Any]] = []
        super().__init__(name, cli_args=ros_args, use_global_arguments=ros_args is None)
        self.warn = Warnings(self)
        """Logs a kind of warning at most now and then."""

    @property
    def active(self) -> bool:
        """True between activate and deactivate."""
        raise NotImplementedError

    def now(self) -> float:
        """ROS time [s]; simulation time where ``use_sim_time`` is set."""
        return self.now_ns() * 1e-9

    def now_ns(self) -> int:
        """ROS time [ns]."""
        return self._time.now_ns()

    @property
    def time_stands(self) -> bool:
        """True when simulated time does not advance (paused, not there yet, or lost).

        No timeout in ROS time ends while this is so; whoever drives a robot must stop it.
        """
        return self._time.stands

    def poll(
        self,
        kind: type[M],
        topic: str,
        profile: QoSProfile = qos.NEWEST,
        lengths: Bound | None = None,
    ) -> PolledSubscription[M]:
        """Subscribe to a topic whose messages the loop takes; ends with the configuration.

        ``lengths`` is the bound of coordinates where it is not that of the type.
        """
        subscription = PolledSubscription(self, kind, topic, profile, lengths=lengths)
        self._polled.append(subscription)
        return subscription

    def poll_bytes(
        self, kind: type[Any], topic: str, profile: QoSProfile = qos.NEWEST
    ) -> PolledSubscription[bytes]:
        """Subscribe like :meth:`poll`, to messages as the bytes in which they come."""
        subscription = PolledSubscription[bytes](self, kind, topic, profile, raw=True)
        self._polled.append(subscription)
        return subscription

    def advertise(self, kind: type[Any], topic: str, profile: QoSProfile = qos.STREAM) -> Any:
        """Create a publisher that ends with the configuration."""
        publisher = self.create_publisher(kind, topic, profile)
        self._entities.append((self.destroy_publisher, publisher))
        return publisher

    def listen(
        self,
        kind: type[Any],
        topic: str,
        profile: QoSProfile,
        handler: Callable[[Any], None],
        lengths: Bound | None = None,
        size_fault: Callable[[bytes], str] | None = None,
    ) -> None:
        """Subscribe to one-shot messages that the slow part hands to ``handler``.

        Ends with the configuration. While the node is not active they are dropped, and those
        beyond their bounds always, with a warning. A handler that raises is logged.

        Args:
            kind: type of the messages.
            topic: its name.
            profile: quality of service.
            handler: takes a message.
            lengths: bound of coordinates where it is not that of the type.
            size_fault: says what is wrong with the bytes of a message before it is made an object
                of, or nothing; for types that can be so large that this takes long.
        """

        def checked(message: Any) -> tuple[Any, str]:
            if size_fault is not None:
                fault = size_fault(message)
                if fault:
                    return None, fault
                message = message_in(message, kind)
            return message, fault_of(message, lengths)

        def hear(message: Any) -> None:
            if not self.active:
                self.warn(topic, f"message on {topic} dropped: the node is not active")
                return
            try:
                message, fault = checked(message)
            except InvalidMessage as error:
                fault = str(error)
            if fault:
                self.warn(f"refused {topic}", f"message on {topic} refused: {fault}")
                return
            try:
                handler(message)
            except MemoryError:
                raise
            except Exception as error:
                self.fault_in(f"topic {topic}", error)

        raw = size_fault is not None
        subscription = self.create_subscription(kind, topic, hear, profile, raw=raw)
        self._entities.append((self.destroy_subscription, subscription))

    def serve(self, kind: type[Any], name: str, handler: Callable[[Any, Any], Any]) -> None:
        """Create a service, run by the slow part, that ends with the configuration.

        A request beyond its bounds, and a handler that raises, are answered with a failure as far
        as the type has words for it. The handler may be a coroutine function; the node's other
        services wait until it has ended.
        """
        service = self.create_service(kind, name, handler)
        self._entities.append((self.destroy_service, service))

    def create_service(
        self, srv_type: Any, srv_name: str, callback: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Create a service that always answers: a failure where its handler raises."""

        async def answer(request: Any, response: Any) -> Any:
            fault = fault_of(request)
            if fault:
                self.warn(f"refused {srv_name}", f"request of {srv_name} refused: {fault}")
                if srv_type is SetParameters:
                    failed = SetParametersResult(successful=False, reason=fault)
                    response.results = [failed] * len(request.parameters)
                return fill_failure(response, f"refused: {fault}", rejected=True)
            try:
                answered = callback(request, response)
                return await answered if inspect.isawaitable(answered) else answered
            except MemoryError:
                raise
            except Exception as error:
                self.fault_in(f"service {srv_name}", error)
                return fill_failure(srv_type.Response(), f"fault of the node: {error!r}")

        return super().create_service(srv_type, srv_name, answer, *args, **kwargs)

    def fault_in(self, where: str, error: BaseException) -> None:
        """Log an unforeseen exception of a callback; the node goes on."""
        text = "".join(traceback.format_exception(error))
        self.get_logger().error(f"{where} failed:\n{text}")

    def create_subscription(self, *args: Any, **kwargs: Any) -> Any:
        """Create a subscription; that of the time source to /clock is polled instead of spun."""
        if len(args) >= 3 and args[1] == "/clock" and "callback_group" not in kwargs:
            subscription = super().create_subscription(
                *args, **kwargs, callback_group=PolledGroup()
            )
            self._time.follow(subscription, args[2])
            return subscription
        return super().create_subscription(*args, **kwargs)

    def destroy_subscription(self, subscription: Any) -> bool:
        """Destroy a subscription."""
        self._time.unfollow(subscription)
        return bool(super().destroy_subscription(subscription))

    # ---- for the lifecycle

    def forget_messages(self) -> None:
        """Drop what waits in polled subscriptions."""
        for subscription in self._polled:
            subscription.drop()

    def destroy_endpoints(self) -> None:
        """Take down what came with the configuration."""
        for subscription in self._polled:
            subscription.destroy()
        for destroy, entity in self._entities:
            destroy(entity)
        self._polled.clear()
        self._entities.clear()
