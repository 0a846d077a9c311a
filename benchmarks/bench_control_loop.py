# SPDX-License-Identifier: Apache-2.0
"""What a control loop costs, and how even it is, while commands stream in at its own rate.

Run: ``python benchmarks/bench_control_loop.py`` (about a minute).

The suite's way is a loop with absolute deadlines that polls its subscriptions
(``polled_way.py``), the usual way an executor with a timer and callbacks (``usual_way.py``). Each
is measured with next to no work (the newest reference is handed on) and as the articulation
controller of the Franka, whose joints are commanded anew at every tick. The suite's node also
keeps parameters, diagnostics and lifecycle alive meanwhile.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

from child_processes import CpuShare, isolate, running, script_command
from report import Cell, Report, Spread, arguments, gaps, progress, ratio

WAYS = ("polled_way.py", "usual_way.py")
WORK = {"relay": "handing on", "controller": "articulation controller"}
STATE_RATE = 250.0
"""[Hz] of the joint_states that stream in beside the commands."""


class Streamer:
    """Streams references and joint states, from one loop of its own."""

    def __init__(self, node: Any, rate: float) -> None:
        """Prepare messages over the Franka's joints."""
        from sensor_msgs.msg import JointState

        from motion_nodes.model.loader import load_robot
        from motion_nodes.ros import qos
        from motion_nodes.ros.concurrency.rate_loop import RateLoop
        from motion_nodes.ros.joint_topics import JointStateWriter

        robot = load_robot("franka")
        self._reference, self._state = (
            JointStateWriter(node.create_publisher(JointState, topic, qos.STREAM),
                             robot.joint_names, velocity=False)
            for topic in ("joint_trajectory_controller/reference", "joint_states")
        )  # fmt: skip
        self._home = robot.home
        self._state.position[:] = self._home
        self._every = max(1, round(rate / STATE_RATE))
        self._tick_count = 0
        self._rate = rate
        self.crash: BaseException | None = None
        self.loop = RateLoop(rate, self._tick, self._crashed)

    def _tick(self) -> None:
        self._tick_count += 1
        phase = 2.0 * math.pi * 0.5 * self._tick_count / self._rate
        self._reference.position[:] = self._home
        self._reference.position[3] += 0.05 * math.sin(phase)
        self._reference.send(time.time_ns())
        if self._tick_count % self._every == 0:
            self._state.send(time.time_ns())

    def _crashed(self, error: BaseException) -> None:
        self.crash = error


def measure(way: str, work: str, rate: float, seconds: float) -> dict[str, Any]:
    """Return CPU share [%] and spread of the periods [ms] of one loop, without stream's start."""
    progress(f"control loop: {way} {work} at {rate:.0f} Hz")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ticks.json"
        command = script_command(way, work, "--rate", str(rate), "--ticks", str(file))
        with running(command) as (child,):
            child.wait_for("ready" if way == "usual_way.py" else "configured in")
            time.sleep(1.5)  # discovery, the stream's first messages
            cpu, began = CpuShare([child.pid]), time.monotonic_ns()
            time.sleep(seconds)
            share, ended = cpu.end()[child.pid], time.monotonic_ns()
            child.check()
        ticks = [t for t in json.loads(file.read_text()) if began <= t <= ended]
    return {"cpu": share, "period": gaps(ticks), "rate": len(ticks) / seconds}


def show(report: Report, results: dict[tuple[str, str, float], dict[str, Any]]) -> None:
    """Print one table per kind of work."""
    rates = sorted({rate for _, _, rate in results})
    for work, title in WORK.items():
        rows: list[list[Cell]] = []
        for rate in rates:
            for way in WAYS:
                result, peer = results[way, work, rate], results[WAYS[1], work, rate]
                period: Spread = result["period"]
                name = "motion_nodes" if way == WAYS[0] else "usual way"
                rows.append([f"{name}, {rate:.0f} Hz", result["rate"], result["cpu"],
                             ratio(result["cpu"], peer["cpu"]), period.p50, period.p99,
                             period.maximum])  # fmt: skip
        report.table(
            f"One loop: {title}, commands at the loop's rate",
            ["", "achieved [Hz]", "CPU [% of a core]", "CPU / usual", "period p50 [ms]",
             "p99 [ms]", "max [ms]"],
            rows,
        )  # fmt: skip


def main() -> None:
    """Measure both ways at all rates."""
    parser = arguments(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[250.0, 500.0, 1000.0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    options = parser.parse_args()
    isolate()
    import rclpy

    report = Report("Control loop: CPU and period")
    rclpy.init(args=[])
    node = rclpy.create_node("bench_streamer")
    results = {}
    for rate in options.rates:
        streamer = Streamer(node, rate)
        streamer.loop.start()
        for work in WORK:
            for way in WAYS:
                results[way, work, rate] = measure(way, work, rate, options.seconds)
        streamer.loop.stop()
        if streamer.crash is not None:
            raise streamer.crash
    node.destroy_node()
    rclpy.shutdown()
    show(report, results)
    report.write(options.json)


if __name__ == "__main__":
    main()
