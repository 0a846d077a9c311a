# SPDX-License-Identifier: Apache-2.0
"""Processes under measurement: started in a ROS domain of their own, read through /proc."""

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
sys.path.append(str(HERE.parent / "test"))  # Scenes, clients and arms are those of the tests
LIMIT = 60.0  # [s] How long a child may take until it is ready, or ends
START = 300.0  # [s] How long a bring-up may take; the first one on a machine compiles
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ChildFailed(RuntimeError):
    """A child ended or did not get ready; the text holds its output."""


def isolate() -> None:
    """Keep this process and its children away from other ROS traffic; call before rclpy.init.

    The domain is that of ROS_DOMAIN_ID where it is set, else a random one.
    """
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["ROS_LOG_DIR"] = tempfile.mkdtemp(prefix="motion_nodes-bench-log-")
    os.environ["RCUTILS_COLORIZED_OUTPUT"] = "0"


def script_command(script: str, *args: str) -> list[str]:
    """Return the command line of a script of the benchmarks' folder."""
    return [sys.executable, str(HERE / script), *args]


def ros_args(**parameters: Any) -> list[str]:
    """Return ROS arguments that set parameters."""
    pairs = [("-p", f"{name}:={json.dumps(value)}") for name, value in parameters.items()]
    return ["--ros-args", *(word for pair in pairs for word in pair)]


class Child:
    """A process; what it prints goes to a temporary file."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it, with variables of the environment in addition to the own ones."""
        self._log = tempfile.TemporaryFile("w+")
        own = {**os.environ, "BENCH_BEGAN_NS": str(time.monotonic_ns())}
        self._process = process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            env={**own, **(environment or {})},
        )  # fmt: skip
        self.pid = process.pid

    @property
    def output(self) -> str:
        """Everything it printed so far."""
        self._log.flush()
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait_for(self, text: str, within: float = LIMIT) -> None:
        """Wait until it has printed ``text``."""
        end = time.monotonic() + within
        while text not in self.output:
            self.check()
            if time.monotonic() > end:
                raise ChildFailed(f"'{text}' not printed within {within:g} s:\n{self.output}")
            time.sleep(0.02)

    def check(self) -> None:
        """Raise when it has ended."""
        if self._process.poll() is not None:
            raise ChildFailed(f"ended with code {self._process.returncode}:\n{self.output}")

    def stop(self) -> None:
        """Interrupt it, and wait until it has ended."""
        for number in (signal.SIGINT, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(LIMIT)


@contextlib.contextmanager
def motion_up(*words: str) -> Iterator[Child]:
    """Start a suite as a user does, by ``motion up``, and wait until it is ready."""
    child = Child([sys.executable, "-m", "motion_nodes.cli.main", "up", *words])
    try:
        child.wait_for("READY after", START)
        yield child
    finally:
        child.stop()


@contextlib.contextmanager
def looped(rate: float, work: Callable[[], None]) -> Iterator[None]:
    """Call something at a rate [Hz] on a thread of its own meanwhile; raise what it raised."""
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
    """Return the processor time of all threads of each process [s]; ended ones are left out."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return found


def memory(pid: int) -> tuple[float, float]:
    """Return RSS and PSS of a process [MB]; PSS counts a shared page once among its processes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kilobytes["Rss"] / 1024.0, kilobytes["Pss"] / 1024.0


def entries(pid: int, kind: str) -> int:
    """Return how many threads (``task``) or file handles (``fd``) a process has."""
    return len(list(Path(f"/proc/{pid}/{kind}").iterdir()))


def executable_of(command: Sequence[str]) -> str:
    """Return what a process of the suite is, from its command line."""
    if "motion_nodes.nodes" in command:
        name = command[command.index("motion_nodes.nodes") + 1]
        planning = name == "container" and '"rrt_planner"' in command[-1]
        return "rrt_planner, trajectory_generator" if planning else name
    return "template" if "motion_nodes.bringup.template_main" in command else "motion up (watches)"


def descendants(pid: int) -> dict[int, list[str]]:
    """Return a process and those below it, with the command line of each."""
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
    """Share of one core that processes use between two moments."""

    def __init__(self, pids: Sequence[int]) -> None:
        """Begin now."""
        self._before = cpu_seconds(pids)
        self._began = time.monotonic()

    def end(self) -> dict[int, float]:
        """Return the share of each since the beginning [%]."""
        elapsed = time.monotonic() - self._began
        now = cpu_seconds(list(self._before))
        return {pid: 100.0 * (used - self._before[pid]) / elapsed for pid, used in now.items()}
