# SPDX-License-Identifier: Apache-2.0
"""Measured processes: started in a separate ROS domain, read from /proc."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motion_nodes.bringup.process_health import read_activity

if TYPE_CHECKING:
    from ros_processes import SuiteProcess

HERE = Path(__file__).resolve().parents[1]
sys.path.append(str(HERE.parent / "test"))  # Scenes, clients and arms of the tests
START = 300.0  # Timeout of a bring-up [s]; the first one on a machine compiles


def isolate() -> None:
    """Isolate this process and its children from other ROS traffic; call before rclpy.init.

    The domain is ROS_DOMAIN_ID if set, else random.
    """
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["ROS_LOG_DIR"] = tempfile.mkdtemp(prefix="motion_nodes-bench-log-")
    os.environ["RCUTILS_COLORIZED_OUTPUT"] = "0"


def script_command(script: str, *args: str) -> list[str]:
    """Return the command line of a script in the folder of the benchmarks."""
    return [sys.executable, str(HERE / script), *args]


def ros_args(**parameters: Any) -> list[str]:
    """Return ROS arguments that set parameters."""
    pairs = [("-p", f"{name}:={json.dumps(value)}") for name, value in parameters.items()]
    return ["--ros-args", *(word for pair in pairs for word in pair)]


@contextlib.contextmanager
def started(command: Sequence[str], **environment: str) -> Iterator[SuiteProcess]:
    """Start a process with additional environment variables; stop it at the end."""
    from ros_processes import SuiteProcess

    with tempfile.TemporaryDirectory() as folder:
        variables = os.environ | {"BENCH_BEGAN_NS": str(time.monotonic_ns())} | environment
        process = SuiteProcess(command, Path(folder, "log"), variables, fork=False)
        try:
            yield process
        finally:
            process.stop()


@contextlib.contextmanager
def motion_up(*words: str) -> Iterator[SuiteProcess]:
    """Start a suite by ``motion up``, wait until it is ready, and check that it runs to the end."""
    with started([sys.executable, "-m", "motion_nodes.cli.main", "up", *words]) as suite:
        suite.wait_for("READY after", START)
        yield suite
        assert suite.running, suite


@contextlib.contextmanager
def looped(rate: float, work: Callable[[], None]) -> Iterator[None]:
    """Call a function at a rate [Hz] in a separate thread; raise its exceptions at the end."""
    from motion_nodes.ros.concurrency.loops import RateLoop

    crashes: list[BaseException] = []
    loop = RateLoop(rate, work, crashes.append)
    loop.start()
    try:
        yield
    finally:
        loop.stop()
    if crashes:
        raise crashes[0]


def memory(pid: int) -> tuple[float, float]:
    """Return RSS and PSS of a process [MB]; PSS divides shared pages among processes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kilobytes["Rss"] / 1024.0, kilobytes["Pss"] / 1024.0


def executable_of(command: Sequence[str]) -> str:
    """Return the name of a process of the suite, from its command line."""
    if "motion_nodes.nodes" in command:
        name = command[command.index("motion_nodes.nodes") + 1]
        planning = name == "container" and '"rrt_planner"' in command[-1]
        return "rrt_planner, trajectory_generator" if planning else name
    others = {"motion_nodes.bringup.template_main": "template",
              "motion_nodes.nodes.clients.dds_probe": "probe"}  # fmt: skip
    return next((name for module, name in others.items() if module in command),
                "motion up (watches)")  # fmt: skip


def descendants(pid: int) -> dict[int, list[str]]:
    """Return a process and its descendants, with their command lines."""
    found: dict[int, list[str]] = {}
    with contextlib.suppress(OSError):  # it may have ended
        found[pid] = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                found |= descendants(int(child))
    return found


class CpuShare:
    """CPU share of processes in an interval."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._before = {pid: read_activity(pid).computed for pid in pids}
        self._began = time.monotonic()

    def end(self) -> dict[int, float]:
        """Return the share of each process since the start [% of a core]; 0 if it has ended."""
        percent = 100.0 / (time.monotonic() - self._began)
        return {pid: percent * max(0.0, read_activity(pid).computed - before)
                for pid, before in self._before.items()}  # fmt: skip
