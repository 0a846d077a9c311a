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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT = 30.0
"""[s] How long a child may take to say that it is ready, or to end."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ChildFailed(RuntimeError):
    """A child did not do what it was started for; the text holds its output."""


def isolate() -> None:
    """Keep this process and its children away from other ROS traffic; call before rclpy.init."""
    os.environ["ROS_DOMAIN_ID"] = str(random.SystemRandom().randint(1, 101))
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["ROS_LOG_DIR"] = tempfile.mkdtemp(prefix="motion_nodes-bench-log-")
    os.environ["RCUTILS_COLORIZED_OUTPUT"] = "0"


def node_command(executable: str, *args: str, **parameters: Any) -> list[str]:
    """Return the command line of one of the suite's nodes."""
    return [sys.executable, "-m", "motion_nodes.nodes", executable, *ros_args(*args, **parameters)]


def script_command(script: str, *args: str) -> list[str]:
    """Return the command line of a script beside this file."""
    return [sys.executable, str(HERE / script), *args]


def ros_args(*args: str, **parameters: Any) -> list[str]:
    """Return ROS arguments that set parameters."""
    words = ["--ros-args", *args]
    for name, value in parameters.items():
        words += ["-p", f"{name}:={json.dumps(value)}"]
    return words


@dataclass(frozen=True)
class Memory:
    """Memory of a process [MB]; ``pss`` counts shared pages by the share of each process."""

    rss: float
    pss: float


class Child:
    """A process; what it prints goes to a temporary file."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it."""
        self._log = tempfile.TemporaryFile("w+")
        self.began_ns = time.monotonic_ns()
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "BENCH_BEGAN_NS": str(self.began_ns), **(environment or {})},
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything it printed so far."""
        self._log.flush()
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait_for(self, text: str) -> None:
        """Wait until it has printed ``text``."""
        end = time.monotonic() + LIMIT
        while text not in self.output:
            self.check()
            if time.monotonic() > end:
                raise ChildFailed(f"'{text}' not printed within {LIMIT:g} s:\n{self.output}")
            time.sleep(0.02)

    def check(self) -> None:
        """Raise when it has ended."""
        if self._process.poll() is not None:
            raise ChildFailed(f"ended with code {self._process.returncode}:\n{self.output}")

    def marks(self) -> dict[str, float]:
        """Return the figures it printed as a line of JSON after ``@@``; it may have ended."""
        lines = [line for line in self.output.splitlines() if line.startswith("@@")]
        if not lines:
            raise ChildFailed(f"printed no figures:\n{self.output}")
        found: dict[str, float] = json.loads(lines[-1][2:])
        return found

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running(*commands: Sequence[str]) -> Iterator[list[Child]]:
    """Start processes, and stop them at the end."""
    children: list[Child] = []
    try:
        for command in commands:
            children.append(Child(command))
        yield children
    finally:
        for child in reversed(children):
            child.stop()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that all threads of a process have used [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def memory(pid: int) -> Memory:
    """Return the memory of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return Memory(kilobytes["Rss"] / 1024.0, kilobytes["Pss"] / 1024.0)


def threads(pid: int) -> int:
    """Return how many threads a process has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def descendants(pid: int) -> dict[int, list[str]]:
    """Return the process ids below a process, and the command line of each."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                text = (folder / "stat").read_text().rpartition(")")[2]
                parents[int(folder.name)] = int(text.split()[1])
    found: dict[int, list[str]] = {}
    wanted = {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted}
        for child in sorted(wanted):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{child}/cmdline").read_text()
                found[child] = text.rstrip("\0").split("\0")
    return found


class CpuShare:
    """Share of one core that processes use between two looks."""

    def __init__(self, pids: Sequence[int]) -> None:
        """Begin now."""
        self._before = {pid: cpu_seconds(pid) for pid in pids}
        self._began = time.monotonic()

    def end(self) -> dict[int, float]:
        """Return the share of each since the beginning [%]."""
        elapsed = time.monotonic() - self._began
        return {
            pid: 100.0 * (cpu_seconds(pid) - before) / elapsed
            for pid, before in self._before.items()
        }
