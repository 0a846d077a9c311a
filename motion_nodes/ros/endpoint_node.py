# SPDX-License-Identifier: Apache-2.0
"""Endpoints of a node, polled or spun, that exist from its configuration to its cleanup.

The ``change_state`` service replaces rclpy's. An invalid transition fails with a warning instead of
an exception. Before a cleanup or shutdown destroys the endpoints, the node responds to pending
requests and goals, and waits until the responses are sent.
"""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from lifecycle_msgs.msg import Transition
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.callback_groups import CallbackGroup, ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from rclpy.task import Future

from motion_nodes.core.robot.bounds import Bound
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.rclpy_internals import (
    NodeLogger,
    RCLError,
    clock_setter,
    deliver_late_responses,
    given_parameters,
    replace_change_state,
    transitions,
)
from motion_nodes.ros.diagnostics import Warnings
from motion_nodes.ros.messages.cdr import InvalidMessage, message_in
from motion_nodes.ros.messages.message_bounds import fault_of, fill_failure
from motion_nodes.ros.ros_time import CLOCKS, ClockReader, RosTime

TEARDOWN_DELAY = 0.1
"""[s] Delay between the last responses and the destruction of endpoints. Readers are notified of a
writer's end on another channel than its messages, and drop messages that arrive later."""
TEARDOWNS = {
    Transition.TRANSITION_CLEANUP,
    Transition.TRANSITION_INACTIVE_SHUTDOWN,
    Transition.TRANSITION_ACTIVE_SHUTDOWN,
}
"""Transitions that destroy the endpoints."""
M = TypeVar("M")
_POLLED_WITHIN = 1.0
"""Max time since the last take of a subscription that counts as polled [s]."""


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
        self._change = replace_change_state(node, self._answer)

    async def _answer(self, request: Any, response: Any) -> Any:
        """Make the transition, or log why it is invalid."""
        requested = request.transition
        state, possible = transitions(self._node)
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
                f"'{state}'; possible: {', '.join(possible) or 'none'}"
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


def subscribed(publishers: Iterable[Any]) -> list[Any]:
    """Return the publishers that somebody subscribes to; for others no message need be made."""
    return [publisher for publisher in publishers if publisher.get_subscription_count()]


class EndpointNode(LifecycleNode):
    """A lifecycle node with ROS time and managed endpoints."""

    def __init__(self, name: str, *, ros_args: list[str] | None = None) -> None:
        """Create the node.

        Args:
            name: node name, unless the ROS arguments remap it.
            ros_args: ROS arguments for this node alone; None for those of the process.
        """
        self._time = RosTime(self)
        self._polled: list[PolledSubscription[Any]] = []
        self._entities: list[tuple[Callable[[Any], Any], Any]] = []
        self._node_logger: NodeLogger | None = None
        self.goal_servers: list[Any] = []
        """Servers of the node's actions."""
        self.loop_servers: list[Any] = []
        """Those whose goals the loop executes; polled after each of its cycles."""
        super().__init__(name, cli_args=ros_args, use_global_arguments=ros_args is None)
        self.warn = Warnings(self)
        """Throttled warnings."""
        for service in self.services:
            if "send_response" not in vars(service):
                # rclpy creates those of the lifecycle without create_service.
                self._deliver_late_responses(service)

    def get_logger(self) -> NodeLogger:
        """Return the logger of the node."""
        if self._node_logger is None:
            self._node_logger = NodeLogger(super().get_logger().name)
        return self._node_logger

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
    def simulated(self) -> bool:
        """Whether ROS time is that of /clock."""
        return self._time.simulated

    @property
    def time_stands(self) -> bool:
        """True if simulated time does not advance (paused, not started, or lost).

        Timeouts in ROS time do not expire then, so a node that commands a robot must stop it.
        """
        return self._time.stalled

    def received(self) -> list[tuple[str, float]]:
        """Return topics that several processes receive, with the times of their newest messages.

        These are joint states and /clock, the times those of ``time.monotonic()`` [s]. Topics that
        the node does not poll at present are left out; thread-safe.
        """
        if not self.active:
            return []
        now = time.monotonic()
        found = [
            (each.topic, each.arrived or 0.0)
            for each in tuple(self._polled)
            if each.topic.endswith("/joint_states") and now - each.polled < _POLLED_WITHIN
        ]
        clock = self._time.arrived
        return found if clock is None else [*found, ("/clock", max(clock, 0.0))]

    def poll(
        self, kind: type[M], topic: str, profile: QoSProfile = qos.NEWEST, *, relaxed: bool = False
    ) -> PolledSubscription[M]:
        """Create a subscription that the loop polls.

        Args:
            kind: message type.
            topic: topic name.
            profile: quality of service.
            relaxed: whether a fast loop polls the topic less often while it is idle.
        """
        subscription = PolledSubscription(self, kind, topic, profile, relaxed=relaxed)
        self._polled.append(subscription)
        return subscription

    def poll_bytes(
        self, kind: type[Any], topic: str, profile: QoSProfile = qos.NEWEST
    ) -> PolledSubscription[bytes]:
        """Create a polled subscription to serialized messages; see :meth:`poll`."""
        subscription = PolledSubscription[bytes](self, kind, topic, profile, raw=True)
        self._polled.append(subscription)
        return subscription

    def advertise(self, kind: type[Any], topic: str, profile: QoSProfile = qos.STREAM) -> Any:
        """Create a publisher."""
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
        """Create a subscription that the executor spins, for one-shot messages.

        Messages are dropped with a warning while the node is inactive, or if they exceed their
        bounds. Exceptions of the handler are logged.

        Args:
            kind: message type.
            topic: topic name.
            profile: quality of service.
            handler: called with each message.
            lengths: bound of coordinates [m]; None for that of the message type.
            size_fault: returns why a serialized message is too large to be deserialized, or an
                empty text; for types that can be very large.
        """

        def checked(message: Any) -> tuple[Any, str]:
            if size_fault is not None:
                fault = size_fault(message)
                if fault:
                    return None, fault
                message = message_in(message, kind)
            return message, fault_of(message, lengths)

        def receive(message: Any) -> None:
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
        subscription = self.create_subscription(kind, topic, receive, profile, raw=raw)
        self._entities.append((self.destroy_subscription, subscription))

    def serve(
        self,
        kind: type[Any],
        name: str,
        handler: Callable[[Any, Any], Any],
        group: CallbackGroup | None = None,
    ) -> None:
        """Create a service that the executor spins.

        A request that exceeds its bounds, or whose handler raises, gets a failure response, as far
        as the service type has fields for it.

        Args:
            kind: service type.
            name: service name.
            handler: returns the response to a request, given both; may be a coroutine function.
            group: its callback group; other services of the default group wait until a coroutine
                has finished.
        """
        service = self.create_service(kind, name, handler, callback_group=group)
        self._entities.append((self.destroy_service, service))

    def create_service(self, srv_type: Any, srv_name: str, callback: Any, **kwargs: Any) -> Any:
        """Create a service that always responds, with a failure if its handler raises."""

        async def respond(request: Any, response: Any) -> Any:
            fault = fault_of(request)
            if fault:
                self.warn(f"refused {srv_name}", f"request of {srv_name} refused: {fault}")
                if srv_type is SetParameters:
                    failed = SetParametersResult(successful=False, reason=fault)
                    response.results = [failed] * len(request.parameters)
                return fill_failure(response, f"refused: {fault}", rejected=True)
            try:
                result = callback(request, response)
                return await result if inspect.isawaitable(result) else result
            except MemoryError:
                raise
            except Exception as error:
                self.fault_in(f"service {srv_name}", error)
                return fill_failure(srv_type.Response(), f"fault of the node: {error!r}")

        kwargs.setdefault("qos_profile", qos.SERVICES)
        service = super().create_service(srv_type, srv_name, respond, **kwargs)
        self._deliver_late_responses(service)
        return service

    def create_client(self, srv_type: Any, srv_name: str, **kwargs: Any) -> Any:
        """Create a client whose queue holds the responses to many other clients, too."""
        kwargs.setdefault("qos_profile", qos.SERVICES)
        return super().create_client(srv_type, srv_name, **kwargs)

    def _deliver_late_responses(self, service: Any) -> None:
        name = service.srv_name
        text = f"a client of {name} did not get its response: it was not discovered in time"
        deliver_late_responses(service, lambda: self.warn(f"lost {name}", text))

    def fault_in(self, where: str, error: BaseException) -> None:
        """Log an unexpected exception of a callback; the node continues.

        Args:
            where: the callback, such as ``service ~/set_odometry``.
            error: the exception.
        """
        text = "".join(traceback.format_exception(error))
        self.get_logger().error(f"{where} failed:\n{text}")

    def _overridden(self, side: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the arguments of an endpoint with the overrides of its quality of service."""
        at = 2 if side == "publisher" else 3
        if len(args) > at and isinstance(args[at], QoSProfile):
            topic = self.resolve_topic_name(args[1])
            profile, policies = qos.overridden(given_parameters(self), side, topic, args[at])
            args = (*args[:at], profile, *args[at + 1 :])
            kwargs.setdefault("qos_overriding_options", policies)
        return args

    def create_publisher(self, *args: Any, **kwargs: Any) -> Any:
        """Create a publisher, with the overrides of its quality of service."""
        return super().create_publisher(*self._overridden("publisher", args, kwargs), **kwargs)

    def create_subscription(self, *args: Any, **kwargs: Any) -> Any:
        """Create a subscription; that of the time source to /clock is the process's own."""
        args = self._overridden("subscription", args, kwargs)
        if len(args) == 4 and args[1] == "/clock" and "callback_group" not in kwargs:
            _, topic, feed, profile = args
            clock = CLOCKS.of(self, topic, profile)
            self._time.follow(clock, clock_setter(feed))
            return clock
        return super().create_subscription(*args, **kwargs)

    def destroy_subscription(self, subscription: Any) -> bool:
        """Destroy a subscription."""
        if isinstance(subscription, ClockReader):
            self._time.unfollow(subscription)
            CLOCKS.release(self)
            return True
        return bool(super().destroy_subscription(subscription))

    def destroy_node(self) -> None:
        """Leave the graph."""
        CLOCKS.release(self)
        super().destroy_node()

    # ---- for the lifecycle

    def poll_goals(self) -> None:
        """Wake the executor if the loop has ended goals."""
        for server in list(self.loop_servers):
            server.poll()

    def answer_goals(self) -> None:
        """Send the results of goals that the loop has ended; in the executor."""
        for server in list(self.loop_servers):
            server.finish()

    def abort_goals(self, text: str) -> None:
        """Abort the goals of all actions that have no result yet; in the executor."""
        for server in self.goal_servers:
            server.abort_all(text)

    def forget_messages(self) -> None:
        """Drop the pending messages of polled subscriptions."""
        for subscription in self._polled:
            subscription.drop()

    def destroy_endpoints(self) -> None:
        """Destroy all endpoints created since the configuration."""
        for subscription in self._polled:
            subscription.destroy()
        for destroy, entity in self._entities:
            destroy(entity)
        self._polled.clear()
        self._entities.clear()
