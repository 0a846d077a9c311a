# SPDX-License-Identifier: Apache-2.0
"""How long each node takes from process start to active, and what importing costs.

Run: ``python benchmarks/bench_start.py`` (under a minute).

Cold: with an empty folder for compiled kernels (``MOTION_NODES_CACHE_DIR``); warm: with what a
cold start left there. Files are in the system's page cache both times. The container runs all
nodes of ``motion up franka`` but the simulation, which has a process of its own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from child_processes import Child, isolate, memory, ros_args, script_command
from report import Cell, Report, arguments, progress

STAGES = ("python", "imported", "created", "configured", "active")
LIBRARIES = (
    "numpy", "rclpy", "sensor_msgs.msg", "control_msgs.msg", "mujoco", "viser", "ruckig",
    "scipy", "numba", "motion_nodes.model.loader", "motion_nodes.nodes.articulation_controller",
    "motion_nodes.nodes.mujoco_sim", "motion_nodes.nodes.browser_viewer",
)  # fmt: skip
SETTLE = 0.5
"""[s] Memory is read so long after the node is active."""


def starts() -> dict[str, list[str]]:
    """Return what is started: a label, and the arguments of start_marker.py."""
    from motion_nodes.bringup.compose import BringupConfig, commands_for, nodes_for
    from motion_nodes.model.placement import parse_placements

    config = BringupConfig(placements=parse_placements(["franka"]), viewer_port=0)
    container = commands_for(nodes_for(config), composed=True)["container"]
    both = ["franka:=franka", "jetbot:=jetbot@1,0,0"]
    return {
        "robot_state": ["robot_state", *ros_args(robot="franka")],
        "articulation_controller": ["articulation_controller", *ros_args(robot="franka")],
        "differential_base": ["differential_base", *ros_args(robot="jetbot")],
        "mock_sim": ["mock_sim", *ros_args(robots=["franka"])],
        "mujoco_sim": ["mujoco_sim", *ros_args(robots=["franka"])],
        "mujoco_sim, two robots": ["mujoco_sim", *ros_args(robots=both)],
        "browser_viewer": ["browser_viewer", *ros_args(robots=["franka"], port=0)],
        "container, a whole Franka": container[container.index("container") :],
    }


def start(arguments: list[str], cache: Path) -> dict[str, float]:
    """Start once; return the stages [ms] and the memory [MB]."""
    environment = {"MOTION_NODES_CACHE_DIR": str(cache)}
    child = Child(script_command("start_marker.py", *arguments), environment)
    try:
        child.wait_for("@@")
        time.sleep(SETTLE)
        child.check()
        marks = child.marks()
        used = memory(child.pid)
        return {**marks, "rss": used.rss, "pss": used.pss}
    finally:
        child.stop()


def median(runs: list[dict[str, float]], key: str) -> float:
    """Return the median of one figure."""
    return statistics.median(run[key] for run in runs)


def node_rows(count: int) -> list[list[Cell]]:
    """Start everything, cold and warm."""
    rows: list[list[Cell]] = []
    for label, words in starts().items():
        progress(f"start: {label}")
        with tempfile.TemporaryDirectory() as folder:
            cold = [start(words, Path(folder, str(i))) for i in range(count)]
            warm = [start(words, Path(folder, "0")) for _ in range(count)]
        rows.append([label, median(cold, "active"), *(median(warm, s) for s in STAGES[::-1]),
                     median(warm, "rss"), median(warm, "pss")])  # fmt: skip
    return rows


IMPORT = """
import time
begin = time.perf_counter()
import {0}
print(time.perf_counter() - begin)
"""


def import_rows(count: int) -> list[list[Cell]]:
    """Import each library in fresh processes."""
    progress("start: imports")
    empty = [_timed([sys.executable, "-c", "pass"])[0] for _ in range(count)]
    rows: list[list[Cell]] = [["Python itself, until it exits", statistics.median(empty)]]
    for library in LIBRARIES:
        command = [sys.executable, "-c", IMPORT.format(library)]
        inside = [float(_timed(command)[1]) * 1e3 for _ in range(count)]
        rows.append([library, statistics.median(inside)])
    return rows


def _timed(command: list[str]) -> tuple[float, str]:
    """Run a command; return how long it took [ms] and what it printed."""
    begin = time.perf_counter()
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
    return (time.perf_counter() - begin) * 1e3, done.stdout


def main() -> None:
    """Measure nodes, then imports."""
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=2, help="starts of each kind")
    parser.add_argument("--imports", type=int, default=3, help="fresh processes per library")
    options = parser.parse_args()
    isolate()
    report = Report("Start of the nodes")
    report.table(
        "From process start, medians",
        ["", "cold: active [ms]", "warm: active [ms]", "configured", "created", "imported",
         "Python up", "RSS [MB]", "PSS [MB]"],
        node_rows(options.count),
        "Warm times are moments since the process began; the container's are those of its last "
        "node, but for 'imported'. PSS counts shared pages once among all processes.",
    )  # fmt: skip
    report.table("Imports in a fresh process", ["", "ms"], import_rows(options.imports))
    report.write(options.json)


if __name__ == "__main__":
    main()
