# SPDX-License-Identifier: Apache-2.0
"""What a running suite costs per process: processor, memory, threads, idle and moving.

Run: ``python benchmarks/bench_suite.py`` (about 40 seconds).

Starts ``motion up`` as a user does, with the browser viewer but no page open. Moving means:
references for the arm at 50 Hz, twists for the base at 20 Hz, from a client outside the count. A
robot that was commanded and did not move ends the benchmark with an error.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from typing import Any

import rclpy
from geometry_msgs.msg import TwistStamped
from harness import Cell, CpuShare, Report, arguments, isolate, motion_up, progress
from harness.processes import descendants, entries, executable_of, memory
from sensor_msgs.msg import JointState

from motion_nodes.model.loader import load_robot
from motion_nodes.model.placement import Placement, parse_placements
from motion_nodes.ros import qos
from motion_nodes.ros.names import BASE_CONTROLLERS, JOINT_CONTROLLER, under

SUITES = {
    "motion up franka": ["franka"],
    "motion up franka jetbot (the demo's robots)": ["franka:=franka", "jetbot:=jetbot@0.6,-0.5,0"],
}
SETTLE = 2.0  # [s] Pause after the start, before the idle suite is measured
MOVING = 0.05  # [rad/s or m/s] A joint that was commanded is faster


def mover(node: Any, place: Placement) -> Callable[[float, int], None]:
    """Return what moves one robot: called at 50 Hz with the time [s] and the number of the call."""
    robot = load_robot(place.robot)
    if robot.base is not None:
        name = under(place.namespace, f"{BASE_CONTROLLERS[robot.kind]}/cmd_vel")
        twists = node.create_publisher(TwistStamped, name, qos.STREAM)

        def drive(t: float, tick: int) -> None:
            if tick % 5 < 2:  # two of five at 50 Hz: 20 Hz
                message = TwistStamped()
                message.twist.linear.x, message.twist.angular.z = 0.1, math.sin(t)
                twists.publish(message)

        return drive
    name = under(place.namespace, f"{JOINT_CONTROLLER}/reference")
    references = node.create_publisher(JointState, name, qos.STREAM)
    arm = next(group for group in robot.groups.values() if group.tip is not None)

    def swing(t: float, _tick: int) -> None:
        q = robot.home[arm.indices] + 0.2 * math.sin(2.0 * math.pi * 0.4 * t)
        references.publish(JointState(name=list(arm.joints), position=q.tolist()))

    return swing


def measure(node: Any, robots: list[str], seconds: float) -> list[list[Cell]]:
    """Run one suite; return its processes and their sum."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
    places = parse_placements(robots)
    speeds = {under(place.namespace, "joint_states"): 0.0 for place in places}
    for topic in speeds:

        def measured(state: JointState, topic: str = topic) -> None:
            speeds[topic] = max(speeds[topic], *map(abs, state.velocity))

        node.create_subscription(JointState, topic, measured, qos.STATES)
    with motion_up(*robots, "--port", str(port)) as suite:
        movers = [mover(node, place) for place in places]
        time.sleep(SETTLE)
        found = descendants(suite.pid)
        progress("suite: idle")
        share = CpuShare(list(found))
        time.sleep(seconds)
        idle = share.end()
        progress("suite: moving")
        share, begin = CpuShare(list(found)), time.monotonic()
        for tick in range(round(50.0 * seconds)):
            for move in movers:
                move(time.monotonic() - begin, tick)
            rclpy.spin_once(node, timeout_sec=0.0)
            time.sleep(max(0.0, begin + (tick + 1) / 50.0 - time.monotonic()))
        moving = share.end()
        still = [topic for topic, speed in speeds.items() if speed < MOVING]
        if still:
            raise RuntimeError(f"commanded, but did not move: {', '.join(still)}; no figures")
        rows: list[list[Cell]] = [
            [executable_of(words), idle[pid], moving[pid], *memory(pid), entries(pid, "task")]
            for pid, words in found.items()
        ]
        suite.check()
    sums: list[Any] = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    return [*rows, ["sum", *sums[:2], None, *sums[3:]]]


def main() -> None:
    """Measure all suites."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="idle, and again moving")
    options = parser.parse_args()
    isolate()
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
