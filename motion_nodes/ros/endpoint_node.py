# SPDX-License-Identifier: Apache-2.0
"""A node's endpoints: polled or spun, they come with its configuration and end with it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile

from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Warnings
from motion_nodes.ros.polled import PolledGroup, PolledSubscription
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
        self, kind: type[M], topic: str, profile: QoSProfile = qos.NEWEST
    ) -> PolledSubscription[M]:
        """Subscribe to a topic whose messages the loop takes; ends with the configuration."""
        subscription = PolledSubscription(self, kind, topic, profile)
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
        self, kind: type[Any], topic: str, profile: QoSProfile, handler: Callable[[Any], None]
    ) -> None:
        """Subscribe to one-shot messages that the slow part hands to ``handler``.

        Ends with the configuration. While the node is not active they are dropped. A handler that
        raises is logged.
        """

        def hear(message: Any) -> None:
            if not self.active:
                self.warn(topic, f"message on {topic} dropped: the node is not active")
                return
            try:
                handler(message)
            except Exception:
                self.get_logger().error(f"topic {topic} failed:\n{traceback.format_exc()}")

        subscription = self.create_subscription(kind, topic, hear, profile)
        self._entities.append((self.destroy_subscription, subscription))

    def serve(self, kind: type[Any], name: str, handler: Callable[[Any, Any], Any]) -> None:
        """Create a service, run by the slow part, that ends with the configuration.

        A handler that raises is logged and answers with what the response holds until then. It may
        be a coroutine function; the node's other services wait until it has ended.
        """

        async def answer(request: Any, response: Any) -> Any:
            try:
                answered = handler(request, response)
                return await answered if inspect.isawaitable(answered) else answered
            except Exception:
                self.get_logger().error(f"service {name} failed:\n{traceback.format_exc()}")
                return response

        service = self.create_service(kind, name, answer)
        self._entities.append((self.destroy_service, service))

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
