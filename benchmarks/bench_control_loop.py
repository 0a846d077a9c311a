# SPDX-License-Identifier: Apache-2.0
"""What a control loop costs, and how even it is, while commands stream in at its own rate.

Run: ``python benchmarks/bench_control_loop.py`` (about a minute; ``--seconds 60`` for more).

The articulation controller of the Franka with a reference for each tick and joint states at 250 Hz,
all from this process, in wall time, beside the same core in a node as rclpy's tutorials write it
(``peers/usual_controller.py``). The suite's node also keeps parameters, actions, diagnostics and
lifecycle alive meanwhile. Periods are the differences of the moments at which ticks began, noted
inside the process, and not of stamps, which are deadlines.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from harness import Cell, Child, CpuShare, Report, Spread, arguments, isolate, progress, ratio
from harness.processes import ros_args, script_command
from sensor_msgs.msg import JointState

from motion_nodes.model.loader import load_robot
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.rate_loop import RateLoop
from motion_nodes.ros.joint_topics import JointStateWriter

STATE_RATE = 250.0  # [Hz] Of the joint states
SETTLE = 2.0  # [s] From the node's start to the begin of the measurement


@contextlib.contextmanager
def feeding(node: Any, rate: float) -> Iterator[None]:
    """Stream references and joint states over the Franka's joints, from a loop of its own."""
    robot, ticks, crashes = load_robot("franka"), itertools.count(), []
    reference, state = (
        JointStateWriter(node.create_publisher(JointState, topic, qos.STREAM), robot.joint_names,
                         velocity=False)
        for topic in ("joint_trajectory_controller/reference", "joint_states")
    )  # fmt: skip
    state.position[:] = robot.home

    def send() -> None:
        tick = next(ticks)
        reference.position[:] = robot.home
        reference.position[3] += 0.05 * math.sin(math.pi * tick / rate)
        reference.send(time.time_ns())
        if tick % max(1, round(rate / STATE_RATE)) == 0:
            state.send(time.time_ns())

    loop = RateLoop(rate, send, crashes.append)
    loop.start()
    try:
        yield
    finally:
        loop.stop()
    if crashes:
        raise crashes[0]


def measure(command: list[str], rate: float, seconds: float) -> dict[str, Any]:
    """Return CPU share [%], periods and achieved rate of a loop."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ticks.json"
        child = Child(command, {"BENCH_TICKS": str(file)})
        try:
            child.wait_for("configured in")
            time.sleep(SETTLE)
            share, begin = CpuShare([child.pid]), time.monotonic_ns()
            time.sleep(seconds)
            cpu, end = share.end()[child.pid], time.monotonic_ns()
            child.check()
        finally:
            child.stop()
        ticks = np.array(json.loads(file.read_text()))
    inside = ticks[(ticks >= begin) & (ticks <= end)]
    late = 100.0 * float((np.diff(inside) > 1.5e9 / rate).mean())
    return {"cpu": cpu, "period": Spread.gaps(inside), "late": late,
            "rate": 1e9 * len(inside) / (end - begin)}  # fmt: skip


def main() -> None:
    """Measure both ways at all rates."""
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[250.0, 500.0, 1000.0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    options = parser.parse_args()
    isolate()
    report = Report("Control loop: CPU and period")
    rclpy.init(args=[])
    node = rclpy.create_node("bench_control_loop")
    rows: list[list[Cell]] = []
    for rate in options.rates:
        own = ros_args(robot="franka", update_rate=rate)
        words = ("harness/marked_node.py", "articulation_controller", *own)
        commands = {
            "motion_nodes": script_command(*words),
            "usual way": script_command("peers/usual_controller.py", str(rate)),
        }
        progress(f"control loop: {rate:.0f} Hz")
        with feeding(node, rate):
            found = {n: measure(words, rate, options.seconds) for n, words in commands.items()}
        for name, r in found.items():
            period: Spread = r["period"]
            rows.append([f"{name}, {rate:.0f} Hz", r["rate"], r["cpu"], 1e4 * r["cpu"] / r["rate"],
                         ratio(r["cpu"], found["usual way"]["cpu"]), period.p50, period.p99,
                         period.maximum, r["late"]])  # fmt: skip
    node.destroy_node()
    rclpy.shutdown()
    report.table(
        "The articulation controller, a reference for each tick",
        ["", "achieved [Hz]", "CPU [% of a core]", "CPU per tick [us]", "CPU / usual",
         "period p50 [ms]", "p99 [ms]", "max [ms]", "over 1.5 periods [%]"],
        rows,
    )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
