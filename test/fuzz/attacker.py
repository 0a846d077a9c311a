# SPDX-License-Identifier: Apache-2.0
"""Sends random, mutated and damaged messages to endpoints, and waits for responses."""

import collections
import contextlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import GetState
from rcl_interfaces.msg import Parameter, ParameterType
from rcl_interfaces.srv import ListParameters
from rclpy._rclpy_pybind11 import RCLError
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message

from fuzz.endpoints import Endpoint
from fuzz.templates import Templates
from fuzz.values import Values
from motion_nodes.core.robot.robot import Robot
from motion_nodes.ros import qos

MARK = "fuzz"
"""Frame of messages on joint_command, by which the watcher tells them from the suite's."""
OPEN = 3
"""Requests of one service that may wait for their answers at a time."""
IMPOSSIBLE = (float("nan"), float("inf"), -float("inf"), 1e155, -1e155, 1e300, -1e10, 1e38)
SPIN_PERIOD = 0.02
"""Longest time between two looks for answers [s]."""
WEIGHTS = {"topic": 0.6, "service": 0.25, "action": 0.15}
"""Shares of messages."""
SAFE_TRANSITIONS = (0, 1, 2, 3, 4, 77, 255)
"""Transitions that are tried; those that finalize a node are left out, for it is meant to end."""


@dataclass
class Pending:
    """A request without a response."""

    name: str
    sent: float
    future: Any
    number: int


@dataclass
class Tally:
    """Counts of messages and results."""

    sent: collections.Counter[str] = field(default_factory=collections.Counter)
    answered: int = 0
    damaged: int = 0
    worst: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Longest wait for an answer of a service [s], and the number of the message."""

    @property
    def count(self) -> int:
        """Total number of messages."""
        return sum(self.sent.values())


class Attacker:
    """A node that attacks."""

    def __init__(self, robots: Mapping[str, Robot], seed: int) -> None:
        """Prepare; ``robots`` by namespace."""
        self.node = Node("fuzz_attacker", use_global_arguments=False)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.rng = random.Random(seed)
        names = sorted(
            {name for robot in robots.values()
             for name in (*robot.joint_names, *robot.tree.links, *robot.groups)}
        )  # fmt: skip
        self.values = Values(self.rng, names, lambda: self.node.get_clock().now().nanoseconds)
        self._templates = {ns: Templates(self.rng, robot) for ns, robot in robots.items()}
        self._first = next(iter(self._templates.values()))
        self.tally = Tally()
        self.journal: collections.deque[str] = collections.deque(maxlen=3000)
        """The newest messages, for whoever looks into a failure."""
        self._publishers: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}
        self._actions: dict[str, ActionClient] = {}
        self._pending: list[Pending] = []
        self._spun = 0.0
        self._parameters: dict[str, list[str]] = {}

    def close(self) -> None:
        """Leave the graph."""
        self.executor.shutdown()
        self.node.destroy_node()

    def attack(self, endpoints: Sequence[Endpoint], count: int, rate: float) -> None:
        """Send ``count`` messages to random endpoints, at ``rate`` [Hz] at most."""
        due = time.monotonic()
        # There are many more services than topics, most of them the same in each node.
        kinds = [kind for kind in WEIGHTS if any(each.kind == kind for each in endpoints)]
        by_kind = {kind: [e for e in endpoints if e.kind == kind] for kind in kinds}
        for _ in range(count):
            kind = self.rng.choices(kinds, [WEIGHTS[each] for each in kinds])[0]
            endpoint = self.rng.choice(by_kind[kind])
            getattr(self, f"_to_{endpoint.kind}")(endpoint)
            now = time.monotonic()
            due = max(due + 1.0 / rate, now - 0.1)
            # A wait for hundreds of entities takes milliseconds: not after each message.
            if due - now > SPIN_PERIOD or now - self._spun > SPIN_PERIOD:
                self.spin(max(0.0, due - now))

    def spin(self, seconds: float) -> None:
        """Receive responses for ``seconds``, and all that have arrived."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            # One response at a time: at least as many as may have arrived.
            for _ in range(max(1, len(self._pending) // 4)):
                self.executor.spin_once(timeout_sec=max(left, 0.0))
                left = end - time.monotonic()
            self._look()
            if left <= 0.0:
                self._spun = time.monotonic()
                return

    def settle(self, patience: float) -> list[Pending]:
        """Wait for all responses; return the requests without one after ``patience`` [s]."""
        end = time.monotonic() + patience
        while self._pending and time.monotonic() < end:
            self.spin(0.05)
        lost, self._pending = self._pending, []
        return lost

    def drop_publishers(self, name: str) -> None:
        """Destroy the publishers of a topic that may have only one publisher."""
        publisher = self._publishers.pop(name, None)
        if publisher is not None:
            self.node.destroy_publisher(publisher)

    def call(self, kind: Any, name: str, request: Any, patience: float = 30.0) -> Any:
        """Call a service; return the response, or None after ``patience`` [s]."""
        client = self._client(kind, name)
        future = client.call_async(request)
        end = time.monotonic() + patience
        while not future.done() and time.monotonic() < end:
            self.spin(0.01)
        return future.result() if future.done() else None

    # ---- inside

    def _template(self, name: str) -> Templates:
        return self._templates.get(name.split("/")[1], self._first)

    def _message(self, kind: type[Any], name: str) -> Any:
        chance = self.rng.random()
        if chance < 0.15:
            return self.values.message(kind)
        message = self._template(name).make(kind)
        return self.values.mutate(message, self.rng.choice((0, 1, 1, 1, 2, 3, 8)))

    def _impossible(self, kind: type[Any], name: str) -> Any:
        message = self._template(name).make(kind)
        bad = [self.rng.choice(IMPOSSIBLE) for _ in range(60)]
        if hasattr(message, "position"):
            count = len(message.name)
            message.position, message.velocity = bad[:count], bad[20 : 20 + count]
            message.effort = bad[: self.rng.choice((0, count, count + 1))]
            if self.rng.random() < 0.2:
                message.name = ["x"] * self.rng.choice((0, 3, 20_000))
        elif hasattr(message, "pose"):
            point = message.pose.pose.position
            point.x, point.y, point.z = bad[:3]
            rotation = message.pose.pose.orientation
            rotation.x, rotation.y, rotation.z, rotation.w = bad[3:7]
        if hasattr(message, "header"):
            message.header.frame_id = MARK
            self.values.fill_time(message.header.stamp)
        return message

    def _note(self, endpoint: Endpoint, message: Any) -> None:
        self.tally.sent[endpoint.kind] += 1
        text = message.hex() if isinstance(message, bytes) else repr(message)
        self.journal.append(f"{self.tally.count} {endpoint.name} {text[:4000]}")

    def _to_topic(self, endpoint: Endpoint) -> None:
        if endpoint.name not in self._publishers:
            kept = endpoint.name.endswith("_static")
            reliable = QoSProfile(
                depth=10,
                reliability=ReliabilityPolicy.RELIABLE,
                durability=(
                    DurabilityPolicy.TRANSIENT_LOCAL if kept else DurabilityPolicy.VOLATILE
                ),
            )
            self._publishers[endpoint.name] = self.node.create_publisher(
                endpoint.type, endpoint.name, reliable
            )
        make = self._impossible if endpoint.feedback else self._message
        message = make(endpoint.type, endpoint.name)
        if not endpoint.feedback and self.rng.random() < 0.1:
            message = self.values.damage(serialize_message(message))
            self.tally.damaged += 1
        self._note(endpoint, message)
        # The middleware refuses some damaged messages, and those to slow readers with full queues.
        with contextlib.suppress(RCLError):
            self._publishers[endpoint.name].publish(message)

    def _to_service(self, endpoint: Endpoint) -> None:
        open_ones = sum(pending.name == endpoint.name for pending in self._pending)
        client = self._client(endpoint.type, endpoint.name)
        if open_ones >= OPEN or not client.service_is_ready():
            return
        request = self._request(endpoint)
        self._note(endpoint, request)
        future = client.call_async(request)
        self._pending.append(Pending(endpoint.name, time.monotonic(), future, self.tally.count))

    def _request(self, endpoint: Endpoint) -> Any:
        last = endpoint.name.rpartition("/")[2]
        kind = endpoint.type.Request
        if last == "change_state":
            return kind(transition=Transition(id=self.rng.choice(SAFE_TRANSITIONS)))
        if last.startswith("set_parameters"):
            node = endpoint.name.rpartition("/")[0]
            return kind(parameters=[self._parameter(node) for _ in range(self.rng.choice((1, 2)))])
        return self._message(kind, endpoint.name)

    def _parameter(self, node: str) -> Parameter:
        if node not in self._parameters:
            answer = self.call(ListParameters, f"{node}/list_parameters", ListParameters.Request())
            listed = [] if answer is None else list(answer.result.names)
            self._parameters[node] = [name for name in listed if name != "use_sim_time"]
        names = self._parameters[node] or ["none"]
        name = self.values.text() if self.rng.random() < 0.1 else self.rng.choice(names)
        parameter = self.values.message(Parameter)
        parameter.name = name
        parameter.value.type = self.rng.choice(
            (ParameterType.PARAMETER_DOUBLE, ParameterType.PARAMETER_INTEGER,
             ParameterType.PARAMETER_DOUBLE_ARRAY, ParameterType.PARAMETER_STRING,
             ParameterType.PARAMETER_BOOL, self.rng.randrange(12)))  # fmt: skip
        return parameter

    def _to_action(self, endpoint: Endpoint) -> None:
        if endpoint.name not in self._actions:
            self._actions[endpoint.name] = ActionClient(
                self.node,
                endpoint.type,
                endpoint.name,
                goal_service_qos_profile=qos.SERVICES,
                cancel_service_qos_profile=qos.SERVICES,
            )
        client = self._actions[endpoint.name]
        if not client.server_is_ready():
            return
        goal = self._message(endpoint.type.Goal, endpoint.name)
        self._note(endpoint, goal)
        future = client.send_goal_async(goal)
        self._pending.append(Pending(endpoint.name, time.monotonic(), future, self.tally.count))
        if self.rng.random() < 0.5:
            future.add_done_callback(_cancel)

    def _client(self, kind: Any, name: str) -> Any:
        if name not in self._clients:
            # Clients receive the responses to other clients too; those to the suite displace
            # the attacker's in a queue of 10.
            self._clients[name] = self.node.create_client(kind, name, qos_profile=qos.SERVICES)
            end = time.monotonic() + 5.0
            while not self._clients[name].service_is_ready() and time.monotonic() < end:
                self.spin(0.01)
        return self._clients[name]

    def _look(self) -> None:
        now = time.monotonic()
        for pending in list(self._pending):
            if pending.future.done():
                self._pending.remove(pending)
                self.tally.answered += 1
                worst = self.tally.worst
                waited = (now - pending.sent, pending.number)
                worst[pending.name] = max(worst.get(pending.name, waited), waited)


def _cancel(future: Any) -> None:
    handle = future.result()
    if handle is not None and handle.accepted:
        handle.cancel_goal_async()


def states_of(attacker: Attacker, nodes: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Return the lifecycle state of each node, and its response time [s]."""
    states = {}
    for name in nodes:
        begin = time.monotonic()
        answer = attacker.call(GetState, f"{name}/get_state", GetState.Request())
        label = "no answer" if answer is None else answer.current_state.label
        states[name] = (label, time.monotonic() - begin)
    return states
