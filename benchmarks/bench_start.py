# SPDX-License-Identifier: Apache-2.0
"""How long each node takes from process start to active, and what importing costs.

Run: ``python benchmarks/bench_start.py`` (under a minute).

Cold: with an empty folder for compiled kernels (``MOTION_NODES_CACHE_DIR``); warm: with what a
cold start left there. Files are in the system's page cache both times. The container runs all
nodes of ``motion up franka`` but the simulation, which has a process of its own. Measured inside
the processes (``harness/marked_node.py``): from outside, discovery would be most of what is seen.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Cell, Child, Report, arguments, isolate, progress, script_command
from harness.processes import START, memory, ros_args

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import commands_for
from motion_nodes.model.placement import parse_placements

STAGES = ("active", "configured", "created", "imported", "python")
LIBRARIES = (
    "numpy", "rclpy", "sensor_msgs.msg", "control_msgs.msg", "mujoco", "viser", "ruckig",
    "scipy", "numba", "motion_nodes", "motion_nodes.model.loader",
    "motion_nodes.nodes.articulation_controller", "motion_nodes.nodes.mujoco_sim",
    "motion_nodes.nodes.browser_viewer",
)  # fmt: skip
SETTLE = 0.5  # [s] between the active state and the reading of memory
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def starts() -> dict[str, list[str]]:
    """Return what is started: a label, and the arguments of marked_node.py."""
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


def start(words: list[str], cache: Path) -> dict[str, float]:
    """Start once; return the stages [ms] and the memory [MB]."""
    command = script_command("harness/marked_node.py", *words)
    child = Child(command, {"MOTION_NODES_CACHE_DIR": str(cache)})
    try:
        child.wait_for("@@{", 3.0 * START)  # cold on a busy machine
        time.sleep(SETTLE)
        child.check()
        line = next(text for text in child.output.splitlines() if text.startswith("@@"))
        marks: dict[str, float] = json.loads(line[2:])
        return {**marks, **dict(zip(("rss", "pss"), memory(child.pid), strict=True))}
    finally:
        child.stop()


def node_rows(count: int) -> list[list[Cell]]:
    """Start everything, cold and warm."""
    rows: list[list[Cell]] = []
    for label, words in starts().items():
        progress(f"start: {label}")
        with tempfile.TemporaryDirectory() as folder:
            cold = [start(words, Path(folder, str(i))) for i in range(count)]
            warm = [start(words, Path(folder, "0")) for _ in range(count)]
        medians = {key: statistics.median(run[key] for run in warm) for key in warm[0]}
        first = statistics.median(run["active"] for run in cold)
        rows.append([label, first, *(medians[key] for key in (*STAGES, "rss", "pss"))])
    return rows


def import_rows(count: int) -> list[list[Cell]]:
    """Import each library in fresh processes."""
    rows: list[list[Cell]] = []
    for library in LIBRARIES:
        progress(f"start: import {library}")
        command = [sys.executable, "-c", IMPORT.format(library)]
        texts = [subprocess.check_output(command, text=True) for _ in range(count)]
        rows.append([library, 1e3 * statistics.median(map(float, texts))])
    return rows


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
