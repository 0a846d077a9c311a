# SPDX-License-Identifier: Apache-2.0
"""What a running suite costs per process: processor, memory, threads, idle and moving.

Run: ``python benchmarks/bench_suite.py`` (about 40 seconds).

Starts ``motion up`` as a person would, with the browser viewer but no page open. Moving means:
references for the arm at 50 Hz, twists for the base at 20 Hz, from a client outside the count.
"""

from __future__ import annotations

import math
import socket
import sys
import time
from typing import Any

from child_processes import (
    Child,
    CpuShare,
    Memory,
    descendants,
    isolate,
    memory,
    running,
    threads,
)
from report import Cell, Report, arguments, progress

SUITES = {
    "motion up franka": ["franka"],
    "motion up franka jetbot (the demo's robots)": [
        "franka:=franka",
        "jetbot:=jetbot@0.6,-0.5,0",
    ],
}
READY_WITHIN = 30.0
"""[s]"""
SETTLE = 2.0
"""[s] Pause after the start, before the idle suite is measured."""


class Mover:
    """Moves the robots of one suite."""

    def __init__(self, node: Any, robots: list[str]) -> None:
        """Create the endpoints."""
        from geometry_msgs.msg import TwistStamped
        from sensor_msgs.msg import JointState
        from state_probe import StateProbe

        from motion_nodes.model.loader import load_robot
        from motion_nodes.model.placement import parse_placements
        from motion_nodes.ros import qos
        from motion_nodes.ros.names import BASE_CONTROLLERS, JOINT_CONTROLLER, under

        self._senders: list[Any] = []
        self._twist, self._reference = TwistStamped(), JointState()
        self.states = []
        for place in parse_placements(robots):
            robot = load_robot(place.robot)
            self.states.append(StateProbe(node, under(place.namespace, "joint_states")))
            if robot.base is not None:
                topic = under(place.namespace, f"{BASE_CONTROLLERS[robot.kind]}/cmd_vel")
                publisher = node.create_publisher(TwistStamped, topic, qos.STREAM)
                self._senders.append((publisher, self._drive))
            else:
                topic = under(place.namespace, f"{JOINT_CONTROLLER}/reference")
                publisher = node.create_publisher(JointState, topic, qos.STREAM)
                self._home = dict(zip(robot.joint_names, robot.home.tolist(), strict=True))
                self._senders.append((publisher, self._swing))

    def wait_until_ready(self, child: Child) -> None:
        """Wait until all robots speak and all controllers listen."""
        end = time.monotonic() + READY_WITHIN
        waiting = list(self.states)
        while waiting or any(p.get_subscription_count() == 0 for p, _ in self._senders):
            child.check()
            if time.monotonic() > end:
                raise TimeoutError(f"not ready within {READY_WITHIN:g} s:\n{child.output}")
            waiting = [probe for probe in waiting if not probe.wait(0.1)[1][0]]

    def move(self, seconds: float) -> None:
        """Move everything for a while.

        Raises:
            RuntimeError: a robot did not move.
        """
        begin = time.monotonic()
        tick = 0
        seen: list[set[float]] = [set() for _ in self.states]
        while (elapsed := time.monotonic() - begin) < seconds:
            for publisher, send in self._senders:
                send(publisher, elapsed, tick)
            tick += 1
            time.sleep(max(0.0, begin + tick / 50.0 - time.monotonic()))
            for positions, probe in zip(seen, self.states, strict=True):
                positions.update(message.position[0] for message in probe.wait(0.0)[1][0])
        for positions, probe in zip(seen, self.states, strict=True):
            probe.close()
            if max(positions) - min(positions) < 0.05:
                raise RuntimeError("a robot that was commanded did not move; no figures")

    def _swing(self, publisher: Any, elapsed: float, _tick: int) -> None:
        joints = {name: q for name, q in self._home.items() if "finger" not in name}
        offset = 0.2 * math.sin(2.0 * math.pi * 0.4 * elapsed)
        self._reference.name = list(joints)
        self._reference.position = [q + offset for q in joints.values()]
        publisher.publish(self._reference)

    def _drive(self, publisher: Any, elapsed: float, tick: int) -> None:
        if tick % 5 < 2:
            # Two of five ticks at 50 Hz: 20 Hz.
            self._twist.twist.linear.x = 0.1
            self._twist.twist.angular.z = math.sin(elapsed)
            publisher.publish(self._twist)


def free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def process_name(command: list[str]) -> str:
    """Return what a process of the suite is, from its command line."""
    if "motion_nodes.nodes" in command:
        return command[command.index("motion_nodes.nodes") + 1]
    return "motion up (watches)"


def measure(node: Any, robots: list[str], seconds: float) -> list[list[Cell]]:
    """Run one suite; return its processes and their sum."""
    command = [sys.executable, "-m", "motion_nodes.cli.main", "up", *robots,
               "--port", str(free_port())]  # fmt: skip
    with running(command) as (child,):
        mover = Mover(node, robots)
        mover.wait_until_ready(child)
        time.sleep(SETTLE)
        found = {child.pid: command, **descendants(child.pid)}
        progress("suite: idle")
        cpu = CpuShare(list(found))
        time.sleep(seconds)
        idle = cpu.end()
        progress("suite: moving")
        cpu = CpuShare(list(found))
        mover.move(seconds)
        moving = cpu.end()
        used = {pid: memory(pid) for pid in found}
        rows: list[list[Cell]] = [
            [process_name(words), idle[pid], moving[pid], used[pid].rss, used[pid].pss,
             threads(pid)]
            for pid, words in found.items()
        ]  # fmt: skip
        child.check()
    return [*rows, _sum(rows, list(used.values()))]


def _sum(rows: list[list[Cell]], used: list[Memory]) -> list[Cell]:
    idle, moving, count = (sum(float(row[i] or 0) for row in rows) for i in (1, 2, 5))
    return ["sum", idle, moving, None, sum(m.pss for m in used), int(count)]


def main() -> None:
    """Measure all suites."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="idle, and again moving")
    options = parser.parse_args()
    isolate()
    import rclpy

    report = Report("The running suite")
    rclpy.init(args=[])
    node = rclpy.create_node("bench_suite")
    for title, robots in SUITES.items():
        progress(f"suite: {title}")
        report.table(
            title,
            ["", "CPU idle [% of a core]", "CPU moving", "RSS [MB]", "PSS [MB]", "threads"],
            measure(node, robots, options.seconds),
        )
    node.destroy_node()
    rclpy.shutdown()
    report.write(options.json)


if __name__ == "__main__":
    main()
