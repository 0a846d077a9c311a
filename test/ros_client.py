# SPDX-License-Identifier: Apache-2.0
"""A client of topics and services of the suite under test."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from patience import LIMIT, Patience, wait_until
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.rclpy_internals import PolledGroup

RELIABLE = QoSProfile(depth=50, reliability=ReliabilityPolicy.RELIABLE)
BEST_EFFORT = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
LATCHED = QoSProfile(
    depth=10, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)


def spun(node: Any, executor: SingleThreadedExecutor) -> Iterator[Any]:
    """Yield a node of the suite that is active in an executor of a thread."""
    executor.add_node(node)

    def spin() -> None:
        node.trigger_configure()
        node.trigger_activate()
        try:
            executor.spin()
        except ExternalShutdownException:
            return

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    wait_until(lambda: node.active, "the node is active")
    yield node
    executor.shutdown()
    thread.join(10.0)
    node.destroy_node()


class Heard:
    """The messages of one topic since the last :meth:`clear`."""

    def __init__(self) -> None:
        self.take: Callable[[], Any] = lambda: None
        """Takes a pending message; returns None if there is none."""
        self.messages: list[Any] = []
        self.times: list[float] = []

    def __call__(self, message: Any) -> None:
        self.messages.append(message)
        self.times.append(time.monotonic())

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def newest(self) -> Any:
        """The last message; None before the first."""
        return self.messages[-1] if self.messages else None

    def clear(self) -> None:
        """Discard all messages, pending ones included."""
        while self.take() is not None:
            pass
        self.messages.clear()
        self.times.clear()


class RosClient:
    """The node of a test; it receives messages only while it waits.

    Topics are polled: an executor takes ten times as long for a message, and robots send hundreds
    per second. Garbage is not collected meanwhile: with all the messages that a test keeps this
    takes up to 0.7 s, in which its own streams pause.
    """

    PERIOD = 0.02
    """Period at which topics are polled [s]."""
    _open = 0
    """Number of clients of this process."""

    def __init__(self, name: str = "test_client", context: Any = None) -> None:
        self.node = Node(name, context=context, use_global_arguments=False)
        self._polled = PolledGroup()
        self._topics: list[Heard] = []
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._diagnostics: dict[str, DiagnosticStatus] | None = None
        RosClient._open += 1
        gc.disable()

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self.node.destroy_node()
        RosClient._open -= 1
        if not RosClient._open:
            gc.enable()

    def listen(self, kind: Any, topic: str, profile: QoSProfile = RELIABLE) -> Heard:
        """Subscribe to a topic; return its messages."""
        heard = Heard()
        subscription = self.node.create_subscription(
            kind, topic, heard, profile, callback_group=self._polled
        )
        heard.take = lambda: subscription.handle.take_message(kind, False)
        self._topics.append(heard)
        return heard

    def _round(self, timeout: float = PERIOD) -> Iterator[None]:
        """Spin the executor for a time [s], then take messages; yield after each."""
        self._executor.spin_once(timeout_sec=timeout)
        yield
        for heard in self._topics:
            while (taken := heard.take()) is not None:
                heard(taken[0])
                yield

    def _take_pending(self) -> None:
        """Take what has arrived, also if this process paused meanwhile."""
        for _ in self._round(0.0):
            pass

    def publisher(self, kind: Any, topic: str, profile: QoSProfile = RELIABLE) -> Any:
        """Return a publisher with at least one subscriber."""
        publisher = self.node.create_publisher(kind, topic, profile)
        self.wait(lambda: publisher.get_subscription_count() > 0, f"a subscriber of {topic}")
        return publisher

    def spin(self, seconds: float) -> None:
        """Receive messages for a time [s]: for tests that something does NOT happen."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            for _ in self._round(min(left, self.PERIOD)):
                pass
        self._take_pending()

    def wait(self, condition: Callable[[], Any], what: str, within: float = LIMIT) -> Any:
        """Receive messages until the condition is true; return its value."""
        patience = Patience(within)
        if value := condition():
            return value
        while True:
            patience.require(what)
            for _ in self._round():
                if value := condition():
                    return value

    def repeat(
        self,
        send: Callable[[], None],
        until: Callable[[], Any],
        what: str,
        *,
        rate: float = 20.0,
        within: float = LIMIT,
    ) -> Any:
        """Call ``send`` at a rate [Hz] until the condition is true."""
        patience = Patience(within)
        due = time.monotonic()
        if value := until():
            return value
        while True:
            patience.require(what)
            now = time.monotonic()
            if now >= due:
                send()
                due = max(due + 1.0 / rate, now)
            for _ in self._round(max(0.0, min(due - now, self.PERIOD))):
                if value := until():
                    return value

    def repeat_for(self, send: Callable[[], None], seconds: float, rate: float = 20.0) -> None:
        """Call ``send`` at a rate [Hz] for a time [s]."""
        end = time.monotonic() + seconds
        self.repeat(send, lambda: time.monotonic() >= end, "the time", rate=rate,
                    within=seconds + LIMIT)  # fmt: skip
        self._take_pending()

    def call(self, kind: Any, name: str, request: Any = None, within: float = LIMIT) -> Any:
        """Call a service; return its response."""
        if name not in self._clients:
            # Responses to other clients arrive too; with rcl's depth of 10 they displace ours.
            self._clients[name] = self.node.create_client(kind, name, qos_profile=qos.SERVICES)
        client = self._clients[name]
        self.wait(client.service_is_ready, f"service {name}", within)
        future = client.call_async(request if request is not None else kind.Request())
        self.wait(future.done, f"answer of {name}", within)
        return future.result()

    def servers(self, name: str) -> set[bytes]:
        """Return ids of a service's servers in the graph; killed ones stay in it for a while."""
        topic = f"rq{name}Request"
        found = self.node.get_subscriptions_info_by_topic(topic, no_mangle=True)
        return {bytes(info.endpoint_gid) for info in found}

    def state(self, node: str) -> str:
        """Return a node's lifecycle state."""
        return self.call(GetState, f"{node}/get_state").current_state.label

    def change_state(self, node: str, verb: str) -> bool:
        """Trigger a transition such as ``configure``."""
        number = getattr(Transition, f"TRANSITION_{verb.upper()}")
        request = ChangeState.Request(transition=Transition(id=number))
        return self.call(ChangeState, f"{node}/change_state", request).success

    def set_parameters(self, node: str, **values: Any) -> Any:
        """Set parameters as one batch; dots in names are written as two underscores."""
        batch = [Parameter(k.replace("__", "."), value=v) for k, v in values.items()]
        request = SetParametersAtomically.Request(
            parameters=[parameter.to_parameter_msg() for parameter in batch]
        )
        return self.call(
            SetParametersAtomically, f"{node}/set_parameters_atomically", request
        ).result

    def get_parameter(self, node: str, name: str) -> Any:
        """Read one parameter."""
        request = GetParameters.Request(names=[name])
        value = self.call(GetParameters, f"{node}/get_parameters", request).values[0]
        return rclpy.parameter.parameter_value_to_python(value)

    def diagnostics(self, node: str) -> DiagnosticStatus | None:
        """Return the newest report of a node, such as ``/a/robot_state``."""
        if self._diagnostics is None:
            self._diagnostics = kept = {}

            def keep(message: DiagnosticArray) -> None:
                kept.update({status.name: status for status in message.status})

            self._reports = self.node.create_subscription(
                DiagnosticArray, "/diagnostics", keep, BEST_EFFORT
            )
        return self._diagnostics.get(node.strip("/"))

    def forget_diagnoses(self) -> None:
        """Discard reports, so that only later ones count."""
        if self._diagnostics is not None:
            # A new subscription receives none of the pending ones.
            self.node.destroy_subscription(self._reports)
            self._diagnostics = None

    def wait_for_diagnosis(
        self, node: str, text: str, level: bytes | None = None, within: float = LIMIT
    ) -> DiagnosticStatus:
        """Wait until a node's report, possibly an old one, contains a text; return it."""

        def found() -> DiagnosticStatus | None:
            status = self.diagnostics(node)
            if status is None or text not in status.message:
                return None
            return status if level is None or status.level == level else None

        try:
            return self.wait(found, f"{node} diagnoses '{text}'", within)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says: {self.diagnostics(node)}") from None


def values_of(status: DiagnosticStatus) -> dict[str, str]:
    """Return the values of a report, by key."""
    return {pair.key: pair.value for pair in status.values}
