# SPDX-License-Identifier: Apache-2.0
"""Supervision of a process, on its own side: heartbeats, holds and echoes over DDS; its watchdog.

One thread for each process. A heartbeat reports the delays of the nodes' loops and of the executor,
so a process whose threads run without progress is detected, too. An echo answers a ping of the
supervisor's probe (nodes/clients/dds_probe.py) with its number. Both endpoints are reliable: the
acknowledgement of a ping is sent by the event thread of the participant, and the ping is received
by a receiver thread, so a deadlock of these is detected.
"""

from __future__ import annotations

import json
import math
import os
import select
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import UInt64

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.process_reports import (
    CONTROL_VARIABLE,
    ECHO_VARIABLE,
    HEARTBEAT_PERIOD,
    NEWS_VARIABLE,
    Beat,
    report,
)
from motion_nodes.ros.watchdog import feed, watchdog_time

if TYPE_CHECKING:
    from motion_nodes.ros.node import MotionNode

EXECUTOR_PERIOD = 2.0
"""[s] Between two jobs for the executor: each wakes it, which costs some milliseconds."""


def echo_topics(word: str, pid: int) -> tuple[str, str]:
    """Return the topics of pings to a process and of its echoes; hidden ones of ROS.

    Args:
        word: of the supervisor, see :data:`ECHO_VARIABLE`.
        pid: of the process.
    """
    return tuple(f"/_supervision/{word}/process_{pid}/{end}" for end in ("ping", "echo"))  # type: ignore[return-value]


def quiet_node(name: str) -> Node:
    """Return a hidden node that offers no services and logs nothing to /rosout."""
    no_service = Parameter("start_type_description_service", value=False)
    return Node(
        f"_{name}_{os.getpid()}",
        use_global_arguments=False,
        enable_rosout=False,
        start_parameter_services=False,
        parameter_overrides=[no_service],
    )


class HeartbeatThread:
    """Sends heartbeats and echoes until :meth:`end`."""

    def __init__(self, nodes: Sequence[MotionNode[Any]], executor: Executor) -> None:
        """Start for ``nodes``, which ``executor`` spins.

        Raises:
            InvalidConfig: an invalid time of the watchdog.
        """
        self._watchdog = watchdog_time()
        self._nodes = nodes
        self._node = quiet_node("supervised")
        executor.add_node(self._node)
        self._jobs = ExecutorQueue(self._node)
        self._requested_at: float | None = None
        self._next_job = time.monotonic()
        word = os.environ.get(ECHO_VARIABLE, "")
        self._pings: PolledSubscription[Any] | None = None
        if word:
            ping, echo = echo_topics(word, os.getpid())
            self._pings = PolledSubscription(self._node, UInt64, ping, qos.NEWEST_RELIABLE)
            self._echoes = self._node.create_publisher(UInt64, echo, qos.NEWEST_RELIABLE)
        number = os.environ.get(CONTROL_VARIABLE, "")
        self._control = int(number) if number.isdecimal() else None
        self._unread = b""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop, and leave the graph."""
        self._end.set()
        self._thread.join(2.0 * HEARTBEAT_PERIOD)
        if not self._thread.is_alive():
            self._node.destroy_node()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._end.is_set():
            self._receive(max(due - time.monotonic(), 0.0))
            if time.monotonic() < due:
                continue
            due = time.monotonic() + HEARTBEAT_PERIOD
            # First by the pipe: a publisher may block where the middleware is deadlocked.
            beat = self._beat()
            report(beat)
            feed(self._watchdog, beat)
            self._echo()

    def _beat(self) -> Beat:
        overdue = [(node.overdue, node.get_fully_qualified_name()) for node in self._nodes]
        worst, name = max(overdue, default=(0.0, ""))
        received: dict[str, float] = {}
        for topic, at in (entry for node in self._nodes for entry in node.received()):
            received[topic] = max(at, received.get(topic, 0.0))
        late = name if worst > 0.0 else ""
        return Beat(os.getpid(), round(worst, 3), late, self._behind(), received)

    def _behind(self) -> float:
        """Return for how long the executor has not served its queue [s]."""
        now = time.monotonic()
        if any(node.in_transition for node in self._nodes):
            # A configuration may compile kernels.
            self._requested_at, self._next_job = None, now + EXECUTOR_PERIOD
        elif self._requested_at is not None:
            return round(now - self._requested_at, 3)
        elif now >= self._next_job:
            self._requested_at, self._next_job = now, now + EXECUTOR_PERIOD
            self._jobs.submit(self._served)
        return 0.0

    def _served(self) -> None:
        self._requested_at = None

    def _echo(self) -> None:
        if self._pings is None:
            return
        newest = self._pings.newest()
        if newest is not None:
            self._echoes.publish(newest)

    def _receive(self, seconds: float) -> None:
        """Wait, and execute orders of the supervisor meanwhile."""
        if self._control is None:
            self._end.wait(seconds)
            return
        readable, _, _ = select.select([self._control], [], [], seconds)
        if not readable:
            return
        part = os.read(self._control, 1 << 12)
        if not part:
            # The supervisor has closed its end.
            self._control = None
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            self._obey(line)

    def _obey(self, line: bytes) -> None:
        try:
            order = json.loads(line)
            why, names = str(order["hold"]), set(order["nodes"])
        except (ValueError, TypeError, KeyError):
            return
        for node in self._nodes:
            if node.get_fully_qualified_name() in names:
                node.hold(why)


def supervised() -> bool:
    """Return whether a supervisor has started this process, or a watchdog is set."""
    by_parent = NEWS_VARIABLE in os.environ and CONTROL_VARIABLE in os.environ
    return by_parent or watchdog_time() < math.inf
