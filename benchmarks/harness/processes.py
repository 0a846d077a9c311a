# SPDX-License-Identifier: Apache-2.0
"""Measured processes: started in a separate ROS domain, read from /proc."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
sys.path.append(str(HERE.parent / "test"))  # Scenes, clients and arms of the tests
LIMIT = 60.0  # Timeout until a child is ready, or ends [s]
START = 300.0  # Timeout of a bring-up [s]; the first one on a machine compiles
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ChildFailed(RuntimeError):
    """A child ended or did not become ready; the text contains its output."""


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


class Child:
    """A process; its output goes to a temporary file."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the process with additional environment variables."""
        self._log = tempfile.TemporaryFile("w+")
        own = {**os.environ, "BENCH_BEGAN_NS": str(time.monotonic_ns())}
        self._process = process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            env={**own, **(environment or {})},
        )  # fmt: skip
        self.pid = process.pid

    @property
    def output(self) -> str:
        """Output so far."""
        self._log.flush()
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait_for(self, text: str, within: float = LIMIT) -> None:
        """Wait until the output contains ``text``, for at most ``within`` [s].

        Raises:
            ChildFailed: timeout, or the process ended.
        """
        end = time.monotonic() + within
        while text not in self.output:
            self.check()
            if time.monotonic() > end:
                raise ChildFailed(f"'{text}' not printed within {within:g} s:\n{self.output}")
            time.sleep(0.02)

    def check(self) -> None:
        """Check that the process runs.

        Raises:
            ChildFailed: it ended.
        """
        if self._process.poll() is not None:
            raise ChildFailed(f"ended with code {self._process.returncode}:\n{self.output}")

    def stop(self) -> None:
        """Interrupt the process and wait for its end."""
        for number in (signal.SIGINT, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(LIMIT)


@contextlib.contextmanager
def motion_up(*words: str) -> Iterator[Child]:
    """Start a suite by ``motion up`` and wait until it is ready."""
    child = Child([sys.executable, "-m", "motion_nodes.cli.main", "up", *words])
    try:
        child.wait_for("READY after", START)
        yield child
    finally:
        child.stop()


@contextlib.contextmanager
def looped(rate: float, work: Callable[[], None]) -> Iterator[None]:
    """Call a function at a rate [Hz] in a separate thread; raise its exceptions at the end."""
    from motion_nodes.ros.concurrency.rate_loop import RateLoop

    crashes: list[BaseException] = []
    loop = RateLoop(rate, work, crashes.append)
    loop.start()
    try:
        yield
    finally:
        loop.stop()
    if crashes:
        raise crashes[0]


def cpu_seconds(pids: Sequence[int]) -> dict[int, float]:
    """Return the CPU time of all threads by process [s], without ended processes."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return found


def memory(pid: int) -> tuple[float, float]:
    """Return RSS and PSS of a process [MB]; PSS divides shared pages among processes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kilobytes["Rss"] / 1024.0, kilobytes["Pss"] / 1024.0


def entries(pid: int, kind: str) -> int:
    """Return the number of threads (``task``) or file handles (``fd``) of a process."""
    return len(list(Path(f"/proc/{pid}/{kind}").iterdir()))


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
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                text = (folder / "stat").read_text().rpartition(")")[2]
                parents[int(folder.name)] = int(text.split()[1])
    found, wanted = {}, {pid}
    while wanted:
        for child in sorted(wanted):
            with contextlib.suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_text().rstrip("\0").split("\0")
        wanted = {child for child, parent in parents.items() if parent in wanted}
    return found


class CpuShare:
    """CPU share of processes in an interval."""

    def __init__(self, pids: Sequence[int]) -> None:
        """Begin now."""
        self._before = cpu_seconds(pids)
        self._began = time.monotonic()

    def end(self) -> dict[int, float]:
        """Return the share of each process since the start [% of a core]."""
        elapsed = time.monotonic() - self._began
        now = cpu_seconds(list(self._before))
        return {pid: 100.0 * (used - self._before[pid]) / elapsed for pid, used in now.items()}
