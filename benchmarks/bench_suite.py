# SPDX-License-Identifier: Apache-2.0
"""Resources of a running suite per process: CPU, memory, threads, idle and moving.

Run: ``python benchmarks/bench_suite.py`` (about 50 seconds).

Starts ``motion up`` like a user, with the browser viewer but without an open page. Moving:
references for the arm at 50 Hz and twists for the base at 20 Hz, from a client that is not counted.
A commanded robot that does not move is an error.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable
from typing import Any

from harness import CpuShare, Options, Report, Row, benchmark, motion_up, progress
from geometry_msgs.msg import TwistStamped
from harness.processes import descendants, executable_of, memory
from ros_client import BEST_EFFORT, RosClient
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.placement import Placement, parse_placements
from motion_nodes.ros import qos
from motion_nodes.ros.names import BASE_CONTROLLERS, JOINT_CONTROLLER, under

SUITES = {
    "motion up franka": ["franka"],
    "motion up franka jetbot (the demo's robots)": ["franka:=franka", "jetbot:=jetbot@0.6,-0.5,0"],
}
SETTLE = 6.0  # Time from the start to the measurement of the idle suite, until the arm rests [s]
MOVING = 0.05  # Min velocity of a commanded joint [rad/s or m/s]


def mover(node: Any, place: Placement) -> Callable[[float, int], None]:
    """Return a function that moves a robot: called at 50 Hz with time [s] and call number."""
    robot = load_robot(place.robot)
    based = robot.base is not None
    topic = f"{BASE_CONTROLLERS[robot.kind]}/cmd_vel" if based else f"{JOINT_CONTROLLER}/reference"
    kind = TwistStamped if based else JointState
    publisher = node.create_publisher(kind, under(place.namespace, topic), qos.STREAM)

    def drive(t: float, tick: int) -> None:
        if tick % 5 < 2:  # two of five calls at 50 Hz: 20 Hz
            message = TwistStamped()
            message.twist.linear.x, message.twist.angular.z = 0.1, math.sin(t)
            publisher.publish(message)

    def swing(t: float, _tick: int) -> None:
        arm = next(group for group in robot.groups.values() if group.tip is not None)
        q = robot.home[arm.indices] + 0.2 * math.sin(2.0 * math.pi * 0.4 * t)
        publisher.publish(JointState(name=list(arm.joints), position=q.tolist()))

    return drive if based else swing


def measure(client: RosClient, robots: list[str], seconds: float) -> list[Row]:
    """Run one suite; return rows of its processes and of their sum."""
    places = parse_placements(robots)
    topics = [under(place.namespace, "joint_states") for place in places]
    states = {topic: client.listen(JointState, topic, BEST_EFFORT) for topic in topics}
    with motion_up(*robots, "--port", "0") as suite:
        movers = [mover(client.node, place) for place in places]
        time.sleep(SETTLE)
        found, ticks = descendants(suite.pid), itertools.count()
        share = CpuShare(found)
        time.sleep(seconds)
        idle = share.end()
        share, begin = CpuShare(found), time.monotonic()

        def move() -> None:
            tick = next(ticks)
            for each in movers:
                each(time.monotonic() - begin, tick)

        client.repeat_for(move, seconds, 50.0)
        moving = share.end()
        for topic, heard in states.items():
            if max(abs(v) for message in heard.messages for v in message.velocity) < MOVING:
                raise RuntimeError(f"commanded, but did not move: {topic}; no figures")
        rows: list[Row] = [
            {"": executable_of(words), "CPU idle [% of a core]": idle[pid],
             "CPU moving": moving[pid],
             **dict(zip(("RSS [MB]", "PSS [MB]"), memory(pid), strict=True)),
             "threads": len(os.listdir(f"/proc/{pid}/task"))}
            for pid, words in found.items()
        ]  # fmt: skip
    summed = ("CPU idle [% of a core]", "CPU moving", "PSS [MB]", "threads")
    sums = {name: sum(row[name] for row in rows) for name in summed}
    return [*rows, {"": "sum", **sums}]


@benchmark("The running suite", ros=True, seconds=(5.0, "idle, and again moving"))
def main(report: Report, options: Options) -> None:
    """Measure all suites."""
    client = RosClient("bench_suite")
    for title, robots in SUITES.items():
        progress(f"suite: {title}")
        report.table(title, measure(client, robots, options.seconds))
    client.close()
