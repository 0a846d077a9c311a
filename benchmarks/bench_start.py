# SPDX-License-Identifier: Apache-2.0
"""Time of each node from process start to active, and time of imports.

Run: ``python benchmarks/bench_start.py`` (under a minute).

Cold: with an empty cache of compiled kernels (``MOTION_NODES_CACHE_DIR``); warm: with the cache of
a cold start. Files are in the system's page cache in both cases. The container runs all nodes of
``motion up franka`` except the simulation, which has a separate process. Times are measured inside
the processes (``harness/marked_node.py``); outside, discovery would dominate them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Options, Report, Row, benchmark, median, progress
from harness.processes import START, isolate, memory, ros_args, script_command, started

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import commands_for
from motion_nodes.core.robot.placement import parse_placements

STAGES = {"active": "warm: active [ms]", "configured": "configured", "created": "created",
          "imported": "imported", "python": "Python up", "rss": "RSS [MB]",
          "pss": "PSS [MB]"}  # fmt: skip
LIBRARIES = (
    "numpy", "rclpy", "sensor_msgs.msg", "control_msgs.msg", "mujoco", "viser", "ruckig",
    "scipy", "numba", "motion_nodes.core.robot.loader",
    "motion_nodes.nodes.articulation_controller", "motion_nodes.nodes.mujoco_sim",
    "motion_nodes.nodes.browser_viewer",
)  # fmt: skip
SETTLE = 0.5  # Time between the active state and the measurement of memory [s]
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def starts() -> dict[str, list[str]]:
    """Return the measured starts: label -> arguments of marked_node.py."""
    config = BringupConfig(placements=parse_placements(["franka"]), viewer_port=0)
    container = commands_for(nodes_for(config), composed=True)["container"]
    both = ["franka:=franka", "jetbot:=jetbot@1,0,0"]
    nodes = {
        "robot_state": {"robot": "franka"}, "articulation_controller": {"robot": "franka"},
        "differential_base": {"robot": "jetbot"}, "mock_sim": {"robots": ["franka"]},
        "mujoco_sim": {"robots": ["franka"]}, "mujoco_sim, two robots": {"robots": both},
        "browser_viewer": {"robots": ["franka"], "port": 0},
    }  # fmt: skip
    found = {name: [name.split(",")[0], *ros_args(**each)] for name, each in nodes.items()}
    return found | {"container, a whole Franka": container[container.index("container") :]}


def start(words: list[str], cache: Path) -> dict[str, float]:
    """Start once; return the stages [ms] and the memory [MB]."""
    command = script_command("harness/marked_node.py", *words)
    with started(command, MOTION_NODES_CACHE_DIR=str(cache)) as process:
        process.wait_for("@@{", 3.0 * START)  # cold start on a busy machine
        time.sleep(SETTLE)
        assert process.running, process
        line = next(text for text in process.output.splitlines() if text.startswith("@@"))
        marks: dict[str, float] = json.loads(line[2:])
        return {**marks, **dict(zip(("rss", "pss"), memory(process.pid), strict=True))}


def node_row(label: str, words: list[str], count: int) -> Row:
    """Start a node or the container repeatedly, cold and warm."""
    progress(f"start: {label}")
    with tempfile.TemporaryDirectory() as folder:
        cold = [start(words, Path(folder, str(i))) for i in range(count)]
        warm = [start(words, Path(folder, "0")) for _ in range(count)]
    return {
        "": label, "cold: active [ms]": median(run["active"] for run in cold),
        **{head: median(run[key] for run in warm) for key, head in STAGES.items()},
    }  # fmt: skip


def import_row(library: str, count: int) -> Row:
    """Import a library in fresh processes."""
    progress(f"start: import {library}")
    command = [sys.executable, "-c", IMPORT.format(library)]
    texts = [subprocess.check_output(command, text=True) for _ in range(count)]
    return {"": library, "ms": 1e3 * median(map(float, texts))}


@benchmark("Start of the nodes", count=(2, "starts of each kind"),
           imports=(3, "fresh processes per library"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure nodes, then imports."""
    isolate()
    report.table(
        "From process start, medians",
        [node_row(label, words, options.count) for label, words in starts().items()],
        "Warm times are moments since the process began; the container's are those of its last "
        "node, but for 'imported'. PSS counts shared pages once among all processes.",
    )
    report.table("Imports in a fresh process",
                 [import_row(library, options.imports) for library in LIBRARIES])  # fmt: skip
