# SPDX-License-Identifier: Apache-2.0
"""``ros2 topic``: list, info, type, find, echo, pub, hz, bw, delay."""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import rclpy
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.time import Time

from motion_nodes.errors import InvalidCommand
from motion_nodes.nodes.clients.ros2.graph import (
    Verbs,
    discover,
    discovered,
    full_name,
    is_hidden,
    named,
    participant,
    print_names,
    report_waiting,
    wait_for,
)
from motion_nodes.nodes.clients.ros2.messages import interface_type, message_from, message_text
from motion_nodes.ros import signals

_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
SETTLE_TIME = 0.3
"""Time in which a subscription discovers a publisher that has discovered it [s]."""


class _Measure(NamedTuple):
    """What is measured of the messages of a topic."""

    report: Callable[[np.ndarray, np.ndarray], str]
    """Text for times of arrival [s] and samples."""
    sample: Callable[[Any], float] = lambda _: 0.0
    """Value of a message."""
    raw: bool = True
    """Whether messages stay serialized."""


def _watch(node: Node, kind: Any, topic: str, window: int, measure: _Measure) -> int:
    """Print a report of the newest samples each second; exit code 1 without samples."""
    times: deque[float] = deque(maxlen=window)
    values: deque[float] = deque(maxlen=window)

    def receive(message: Any) -> None:
        times.append(time.monotonic())
        values.append(measure.sample(message))

    node.create_subscription(kind, topic, receive, _QOS, raw=measure.raw)
    due = time.monotonic() + 1.0
    while not signals.STOP.is_set():
        rclpy.spin_once(node, timeout_sec=0.1)
        if time.monotonic() < due:
            continue
        due += 1.0
        if len(times) < 2:
            print(f"no message of {topic} yet", flush=True)
        else:
            print(measure.report(np.array(times), np.array(values)), flush=True)
    return 0 if times else 1


def hz(node: Node, kind: Any, topic: str, window: int) -> int:
    """Print the rate of a topic and its periods."""

    def report(times: np.ndarray, _values: np.ndarray) -> str:
        periods = np.diff(times)
        return (
            f"average rate: {1.0 / max(periods.mean(), 1e-9):.3f}\n\tmin: {periods.min():.3f}s "
            f"max: {periods.max():.3f}s std dev: {periods.std():.5f}s window: {len(times)}"
        )

    return _watch(node, kind, topic, window, _Measure(report))


def measure_bandwidth(node: Node, kind: Any, topic: str, window: int) -> int:
    """Print bytes per second of a topic, as serialized."""

    def report(times: np.ndarray, sizes: np.ndarray) -> str:
        rate = sizes[1:].sum() / max(times[-1] - times[0], 1e-9)
        return (
            f"{rate / 1e3:.2f} KB/s from {len(times)} messages\n\tmessage size mean: "
            f"{sizes.mean():.0f} B min: {sizes.min():.0f} B max: {sizes.max():.0f} B"
        )

    return _watch(node, kind, topic, window, _Measure(report, lambda data: float(len(data))))


def _measure_delay(node: Node, kind: Any, topic: str, window: int) -> int:
    """Print the age of the stamps in a topic's headers by this machine's clock."""
    if not hasattr(kind(), "header"):
        raise InvalidCommand(f"messages of {topic} have no header with a stamp")

    def age(message: Any) -> float:
        stamp = Time.from_msg(message.header.stamp)
        return float(node.get_clock().now().nanoseconds - stamp.nanoseconds) * 1e-9

    def report(_times: np.ndarray, ages: np.ndarray) -> str:
        return (
            f"average delay: {ages.mean():.3f}\n\tmin: {ages.min():.3f}s max: {ages.max():.3f}s "
            f"std dev: {ages.std():.5f}s window: {len(ages)}"
        )

    return _watch(node, kind, topic, window, _Measure(report, age, raw=False))


def add_topic(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = Verbs(parser)
    verbs.add_list(_list, "topics")
    text = "print type, publishers and subscriptions"
    info = verbs.add("info", _info, text, "topic", discovers=True)
    info.add_argument("-v", "--verbose", action="store_true", help="each endpoint with its QoS")
    verbs.add_type(_types, "topic")
    verbs.add_find(_types, "topic")
    _add_echo(verbs)
    _add_pub(verbs)
    for name, run, text in (
        ("hz", hz, "measure the rate of a topic"),
        ("bw", measure_bandwidth, "measure the bandwidth of a topic"),
        ("delay", _measure_delay, "measure the age of a topic's stamps"),
    ):
        rate = verbs.add(name, partial(_measure, run), text, "topic")
        rate.add_argument("-w", "--window", type=int, default=1000, help="number of messages")


def _add_echo(verbs: Verbs) -> None:
    echo = verbs.add("echo", _echo, "print messages", "topic")
    echo.add_argument("type", nargs="?", help="default: the type of its publishers")
    echo.add_argument("--once", action="store_true", help="end after one message")
    echo.add_argument("--timeout", type=float, metavar="S", help="end after this time [s]")
    echo.add_argument("--field", metavar="A.B[0]", help="print a part of each message only")
    echo.add_argument("-f", "--full-length", action="store_true", help="do not cut long arrays")
    echo.add_argument("--no-arr", action="store_true", help="do not print arrays")
    echo.add_argument("--csv", action="store_true", help="values of a message in one line")
    add_qos(echo)


def _add_pub(verbs: Verbs) -> None:
    pub = verbs.add("pub", _pub, "publish messages", "topic", "type")
    pub.add_argument("values", nargs="?", default="", help="fields as YAML; default: all default")
    pub.add_argument("-r", "--rate", type=float, default=1.0, help="[Hz], default 1")
    count = pub.add_mutually_exclusive_group()
    count.add_argument("-1", "--once", action="store_true", help="publish one message")
    count.add_argument("-t", "--times", type=int, default=0, help="publish this many messages")
    pub.add_argument("-w", "--wait-matching-subscriptions", type=int, metavar="N",
                     help="default: 1 with --once or --times, else 0")  # fmt: skip
    pub.add_argument("--max-wait-time-secs", type=float, metavar="S", help="default: no limit")
    pub.add_argument("--keep-alive", type=float, default=0.1, metavar="S",
                     help="time between the last message and the end [s]")  # fmt: skip
    pub.add_argument("-p", "--print", type=int, default=1, help="print every N-th message only")
    add_qos(pub)


def add_qos(parser: argparse.ArgumentParser) -> None:
    """Add the options of quality of service."""
    parser.add_argument("--qos-reliability", choices=("reliable", "best_effort"))
    parser.add_argument("--qos-durability", choices=("volatile", "transient_local"))
    parser.add_argument("--qos-depth", type=int, default=10)


def _types(node: Node) -> dict[str, list[str]]:
    return dict(node.get_topic_names_and_types(no_demangle=False))


def _list(options: argparse.Namespace) -> None:
    found = discovered(_types, options.spin_time)
    own = {"/rosout", "/parameter_events"} if len(found) <= 2 else set()
    print_names(
        ((n, t) for n, t in found.items() if (options.hidden or not is_hidden(n)) and n not in own),
        options,
    )


def _info(options: argparse.Namespace) -> None:
    with participant() as node:
        types = named("topic", options.topic, lambda: _types(node))
        name = full_name(options.topic)
        ends = discover(
            lambda: (node.count_publishers(name), node.count_subscribers(name)),
            options.spin_time,
            known=True,
        )
        print(f"Type: {', '.join(types)}")
        for count, label, infos in (
            (ends[0], "Publisher", node.get_publishers_info_by_topic(name)),
            (ends[1], "Subscription", node.get_subscriptions_info_by_topic(name)),
        ):
            print(f"{label} count: {count}")
            for info in infos if options.verbose else ():
                qos = info.qos_profile
                print(
                    f"  {info.node_namespace.rstrip('/')}/{info.node_name}: {info.topic_type}, "
                    f"{qos.reliability.name.lower()}, {qos.durability.name.lower()}, "
                    # The middleware does not tell others the depth of its queues.
                    + (f"depth {qos.depth}" if qos.depth else "depth unknown")
                )


def topic_class(node: Node, topic: str, given: str | None = None) -> Any:
    """Return the message class of a topic, from its publishers unless the type is given."""
    name = given or named("topic", topic, lambda: _types(node))[0]
    return interface_type(name, "msg")


def _subscription_qos(node: Node, options: argparse.Namespace) -> QoSProfile:
    """Return a QoS that all publishers offer, so that latched messages are received, too."""
    ends = wait_for(lambda: node.get_publishers_info_by_topic(full_name(options.topic)), 1.0)
    offered = [end.qos_profile for end in ends]
    reliable = bool(offered) and all(q.reliability == ReliabilityPolicy.RELIABLE for q in offered)
    latched = bool(offered) and all(
        q.durability == DurabilityPolicy.TRANSIENT_LOCAL for q in offered
    )
    return QoSProfile(
        depth=options.qos_depth,
        reliability=ReliabilityPolicy[
            (options.qos_reliability or ("reliable" if reliable else "best_effort")).upper()
        ],
        durability=DurabilityPolicy[
            (options.qos_durability or ("transient_local" if latched else "volatile")).upper()
        ],
    )


def _echo(options: argparse.Namespace) -> int:
    printed = 0

    def show(message: Any) -> None:
        nonlocal printed
        if options.once and printed:
            return
        printed += 1
        value = _part(message, options.field) if options.field else message
        text = message_text(value, full=options.full_length)
        if options.csv:
            text = ",".join(
                line.split(": ")[-1].strip(" -")
                for line in text.splitlines()
                if not line.endswith(":")
            )
        print(text if options.csv else f"{text}\n---", flush=True)

    with participant() as node:
        kind = topic_class(node, options.topic, options.type)
        node.create_subscription(kind, options.topic, show, _subscription_qos(node, options))
        end = None if options.timeout is None else time.monotonic() + options.timeout
        while not signals.STOP.is_set() and not (options.once and printed):
            if end is not None and time.monotonic() > end:
                break
            rclpy.spin_once(node, timeout_sec=0.1)
    return 0 if printed or options.timeout is None else 1


def _part(message: Any, path: str) -> Any:
    """Return a part of a message, such as ``pose.position`` or ``points[0]``."""
    value = message
    for word in path.replace("[", ".[").strip(".").split("."):
        try:
            value = value[int(word[1:-1])] if word.startswith("[") else getattr(value, word)
        except (AttributeError, IndexError, TypeError, ValueError):
            raise InvalidCommand(f"a {type(message).__name__} has no '{path}'") from None
    return value


def _pub(options: argparse.Namespace) -> int:
    if not 0.0 < options.rate < 1e5:
        raise InvalidCommand(f"--rate is {options.rate:g} Hz; it must be above 0")
    kind = interface_type(options.type, "msg")
    desired = 1 if options.once else options.times
    qos = QoSProfile(
        depth=options.qos_depth,
        reliability=ReliabilityPolicy[(options.qos_reliability or "reliable").upper()],
        durability=DurabilityPolicy[(options.qos_durability or "volatile").upper()],
    )
    with participant() as node:
        message_from(options.values, kind(), node)  # refuse before anything is advertised
        publisher = node.create_publisher(kind, options.topic, qos)
        needed = options.wait_matching_subscriptions
        if not _wait_for_subscriptions(
            node, publisher, (1 if desired else 0) if needed is None else needed, options
        ):
            return 1
        count, due = 0, time.monotonic()
        while not desired or count < desired:
            message = message_from(options.values, kind(), node)
            publisher.publish(message)
            count += 1
            if options.print > 0 and (count - 1) % options.print == 0:
                print(f"published #{count}: {options.type} on {publisher.topic_name}", flush=True)
            due = max(due + 1.0 / options.rate, time.monotonic())
            if count != desired and signals.STOP.wait(due - time.monotonic()):
                return 0
        publisher.wait_for_all_acked(Duration(seconds=1.0))
        signals.STOP.wait(options.keep_alive)
    return 0


def _wait_for_subscriptions(
    node: Node, publisher: Any, needed: int, options: argparse.Namespace
) -> bool:
    began = reported = time.monotonic()
    while publisher.get_subscription_count() < needed:
        now = time.monotonic()
        limit = options.max_wait_time_secs
        if limit is not None and now - began > limit:
            print(f"no subscription of {publisher.topic_name} within {limit:g} s", flush=True)
            return False
        if now - reported > 1.0:
            reported = now
            report_waiting(
                f"{needed} subscription(s) of", publisher.topic_name, options.type, _types(node)
            )
        if signals.STOP.wait(0.02):
            return False
    if needed:
        signals.STOP.wait(SETTLE_TIME)
    return True


def _measure(run: Any, options: argparse.Namespace) -> int:
    if options.window < 2:
        raise InvalidCommand(f"--window is {options.window}; it must be at least 2")
    with participant() as node:
        kind = topic_class(node, options.topic)
        return int(run(node, kind, full_name(options.topic), options.window))
