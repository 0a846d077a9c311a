# SPDX-License-Identifier: Apache-2.0
"""The supervisor's probe: pings the processes of a suite over DDS, and publishes its findings.

It runs in its own process, so that a deadlock of the middleware does not block the supervisor. It
sends records of echoes to the supervisor by pipe, and receives lines of JSON: ``targets``, the
processes to ping, and ``diagnostics``, the report to publish on ``/diagnostics``.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Mapping
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import UInt64

from motion_nodes.ros import qos, signals
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.diagnostics import LEVELS
from motion_nodes.ros.environment import init_arguments
from motion_nodes.ros.heartbeat import echo_topics, quiet_node
from motion_nodes.ros.process_reports import CONTROL_VARIABLE, ECHO_VARIABLE, Beat, Echo, report

PERIOD = 0.2
"""[s] Polling period of echoes, after which the next ping is sent."""
RESEND = 1.2
"""[s] Time without an echo after which the next ping is sent: three times its max delay."""
CONNECTION_TIME = 30.0
"""[s] A process that was never reached is reported after this time."""
LONGEST_STEP = 0.5
"""[s] A delay of the probe itself beyond this does not count as silence of the others."""


class Target:
    """One process that is pinged."""

    def __init__(self, node: Node, word: str, pid: int, now: float) -> None:
        self._node, self.pid = node, pid
        ping, echo = echo_topics(word, pid)
        self._pings = node.create_publisher(UInt64, ping, qos.NEWEST_RELIABLE)
        self._echoes = PolledSubscription[Any](node, UInt64, echo, qos.NEWEST_RELIABLE)
        self._reached, self._answered = False, now
        self._delay = 0.0
        self._number, self._sent = 0, -float("inf")
        self._echoed = 0

    def poll(self, now: float) -> Echo | None:
        """Check for an echo and send the next ping; None before the first echo.

        A ping counts as answered once its echo has arrived and the middleware of the other process
        has acknowledged it.
        """
        newest = self._echoes.newest()
        if newest is not None and self._echoed < newest.data <= self._number:
            self._echoed, self._delay = newest.data, now - self._sent
        fresh = self._echoed == self._number
        if self._number and fresh and self._pings.wait_for_all_acked(Duration()):
            self._answered, self._reached = now, True
        if fresh or now - self._sent > RESEND:
            self._number += 1
            self._sent = now
            self._pings.publish(UInt64(data=self._number))
        silent = now - self._answered
        if not self._reached and silent < CONNECTION_TIME:
            return None
        return Echo(os.getpid(), self.pid, round(silent, 3), round(self._delay, 3))

    def destroy(self) -> None:
        """Leave the graph."""
        self._echoes.destroy()
        self._node.destroy_publisher(self._pings)


class Probe:
    """All targets, and the reports."""

    def __init__(self, node: Node, word: str) -> None:
        self._node, self._word = node, word
        self._targets: dict[int, Target] = {}
        self._reports = node.create_publisher(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)

    def obey(self, line: bytes, now: float) -> None:
        """Execute a command line of the supervisor."""
        try:
            order = json.loads(line)
            if "targets" in order:
                self._set_targets({int(pid) for pid in order["targets"]}, now)
            if "diagnostics" in order:
                self._publish(order["diagnostics"])
        except (ValueError, TypeError, KeyError) as error:
            print(f"supervisor: line ignored: {error!r}", file=sys.stderr, flush=True)

    def poll(self, now: float) -> None:
        """Ping all, and report to the supervisor."""
        for target in self._targets.values():
            echo = target.poll(now)
            if echo is not None:
                report(echo)
        report(Beat(os.getpid()))

    def _set_targets(self, pids: set[int], now: float) -> None:
        for pid in self._targets.keys() - pids:
            self._targets.pop(pid).destroy()
        for pid in pids - self._targets.keys():
            self._targets[pid] = Target(self._node, self._word, pid, now)

    def _publish(self, entries: list[Mapping[str, Any]]) -> None:
        message = DiagnosticArray(
            status=[
                DiagnosticStatus(
                    level=LEVELS[entry["level"]],
                    name=entry["name"],
                    message=entry["message"],
                    hardware_id="supervisor",
                    values=[KeyValue(key=k, value=v) for k, v in entry["values"].items()],
                )
                for entry in entries
            ]
        )
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._reports.publish(message)


def run(probe: Probe, control: int) -> None:
    """Ping until a signal is received or the supervisor has closed its end of the pipe."""
    now, last, unread = 0.0, time.monotonic(), b""
    due = last
    while not signals.STOP.is_set():
        readable, _, _ = select.select([control], [], [], max(due - time.monotonic(), 0.0))
        wall = time.monotonic()
        now, last = now + min(wall - last, LONGEST_STEP), wall
        if readable:
            part = os.read(control, 1 << 16)
            if not part:
                return
            *lines, unread = (unread + part).split(b"\n")
            for line in lines:
                probe.obey(line, now)
        if wall >= due:
            due = wall + PERIOD
            probe.poll(now)


def main() -> None:
    """Run the probe; a supervisor starts it (motion_nodes/bringup/supervisor.py)."""
    control, word = os.environ.get(CONTROL_VARIABLE, ""), os.environ.get(ECHO_VARIABLE, "")
    if not control.isdecimal() or not word:
        print("the probe is started by `motion up`, with its pipes", file=sys.stderr)
        sys.exit(2)
    signals.stop_quietly()
    rclpy.init(args=init_arguments([]), signal_handler_options=SignalHandlerOptions.NO)
    node = quiet_node("supervisor")
    signals.nodes_exist()
    run(Probe(node, word), int(control))
    sys.stdout.flush()
    # No robot is commanded here; the middleware may be blocked.
    os._exit(0)


if __name__ == "__main__":
    main()
