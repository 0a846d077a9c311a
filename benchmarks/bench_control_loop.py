# SPDX-License-Identifier: Apache-2.0
"""CPU load and jitter of a control loop, with commands at its own rate.

Run: ``python benchmarks/bench_control_loop.py`` (about a minute; ``--seconds 60`` for more).

Joint controller of the Franka with a reference per tick and joint states at 250 Hz, both from this
process, in wall time, compared with the same core in a node as in rclpy's tutorials
(``peers/usual_controller.py``), and with a loop in C that only takes and publishes these messages
by rcl (``peers/bare_loop.c``), the physical floor. The suite's node also serves parameters,
actions, diagnostics and lifecycle. Periods are differences of the times at which ticks start,
recorded inside the process; stamps of references are deadlines.
"""

from __future__ import annotations

import itertools
import json
import math
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from harness import CpuShare, Options, Report, Row, Spread, benchmark, progress
from harness.processes import looped, ros_args, script_command, started
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import JointStateWriter

STATE_RATE = 250.0  # Rate of the joint states [Hz]
SETTLE = 2.0  # Time from the node's start to the measurement [s]
CPU = "CPU [% of a core]"


def feeding(node: Any, rate: float) -> AbstractContextManager[None]:
    """Stream references and joint states of the Franka's joints from a separate loop."""
    robot, ticks = load_robot("franka"), itertools.count()
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

    return looped(rate, send)


def measure(command: list[str], rate: float, seconds: float) -> Row:
    """Return a loop's cells of the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ticks.json"
        with started(command, BENCH_TICKS=str(file)) as process:
            process.wait_for("configured in")
            time.sleep(SETTLE)
            share, begin = CpuShare([process.pid]), time.monotonic_ns()
            time.sleep(seconds)
            cpu, end = share.end()[process.pid], time.monotonic_ns()
            assert process.running, process
        ticks = np.array(json.loads(file.read_text()))
    inside = ticks[(ticks >= begin) & (ticks <= end)]
    achieved, period = 1e9 * len(inside) / (end - begin), Spread.of(1e-6 * np.diff(inside))
    return {
        "achieved [Hz]": achieved, CPU: cpu, "CPU per tick [us]": 1e4 * cpu / achieved,
        "CPU / usual": None, "CPU / bare loop": None, "period p50 [ms]": period.p50,
        "p99 [ms]": period.p99, "max [ms]": period.maximum,
    }  # fmt: skip


@benchmark("Control loop: CPU and period", ros=True, rates=[250.0, 500.0, 1000.0],
           seconds=(3.0, "of each measurement"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure all loops at all rates."""
    node, rows = rclpy.create_node("bench_control_loop"), list[Row]()
    for rate in options.rates:
        own = ("articulation_controller", *ros_args(robot="franka", update_rate=rate))
        commands = {"motion_nodes": ("harness/marked_node.py", *own),
                    "usual way": ("peers/usual_controller.py", str(rate)),
                    "bare loop in C": ("peers/bare_loop.py", str(rate))}  # fmt: skip
        progress(f"control loop: {rate:.0f} Hz")
        with feeding(node, rate):
            found = {name: measure(script_command(*words), rate, options.seconds)
                     for name, words in commands.items()}  # fmt: skip
        for name, row in found.items():
            row["CPU / usual"] = row[CPU] / found["usual way"][CPU]
            row["CPU / bare loop"] = row[CPU] / found["bare loop in C"][CPU]
            rows.append({"": f"{name}, {rate:.0f} Hz", **row})
    node.destroy_node()
    report.table("The articulation controller, a reference for each tick", rows)
