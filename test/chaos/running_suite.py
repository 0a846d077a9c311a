# SPDX-License-Identifier: Apache-2.0
"""The suite under test: its processes by name, started here or by ``motion up``."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ros_processes import Suite, SuiteProcess

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import commands_for, processes_for
from motion_nodes.core.robot.placement import parse_placements

ENDS = 15.0
"""[s] Timeout of a process that was asked to end."""


class RunningSuite:
    """Processes of a bring-up, started and restarted by the test itself."""

    supervised = False

    def __init__(
        self, suite: Suite, robots: Sequence[str], backend: str, without: Sequence[str] = ()
    ) -> None:
        """Prepare.

        Args:
            suite: starts the processes.
            robots: words of placement, each with a namespace.
            backend: of the simulation.
            without: executables that are left out.
        """
        places = parse_placements(robots)
        config = BringupConfig(placements=places, backend=backend, viewer="none")
        specs = [spec for spec in nodes_for(config) if spec.executable not in without]
        self.robots = {place.namespace: place.robot for place in places}
        self.commands = commands_for(specs, composed=True)
        self.nodes = {
            name: [spec.full_name for spec in members]
            for name, members in processes_for(specs, composed=True).items()
        }
        self.simulation = next(name for name in self.commands if name.endswith("_sim"))
        self._suite = suite
        self._processes: dict[str, SuiteProcess] = {}
        self._read: dict[int, int] = {}
        self._closed: set[int] = set()
        self.prefix: dict[str, list[str]] = {}
        """What is put before the command of a process, such as ``ip netns exec robot``."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment of processes that start from now on."""
        return self._suite.environment

    def start(self) -> None:
        """Start all processes."""
        for name in self.commands:
            self.restart(name)

    def restart(self, name: str) -> None:
        """Start a process that has ended."""
        self._processes[name] = self._suite.run([*self.prefix.get(name, ()), *self.commands[name]])

    def pid(self, name: str) -> int | None:
        """Return the process id; None for a process that has ended."""
        process = self._processes[name]
        return process.pid if process.running else None

    def end(self, name: str, number: int) -> int:
        """Send a signal that ends a process, and return its exit code."""
        return self._processes[name].stop(number, ENDS)

    def output(self, name: str) -> str:
        """Return the output of a process since its last start."""
        return self._processes[name].output

    def new_output(self) -> str:
        """Return the output of all processes since the last call, including ended ones."""
        parts = []
        for i, process in enumerate(self._suite.processes):
            if i not in self._closed:
                output = process.output
                parts.append(output[self._read.get(i, 0) :])
                self._read[i] = len(output)
                if not process.running:
                    self._closed.add(i)
        return "\n".join(parts)


class SupervisedSuite(RunningSuite):
    """The same processes as children of ``motion up``, which restarts those that end."""

    supervised = True

    def __init__(self, suite: Suite, robots: Sequence[str], backend: str) -> None:
        """Prepare; arguments as in :class:`RunningSuite`."""
        super().__init__(suite, robots, backend)
        self._command = [sys.executable, "-m", "motion_nodes.cli.main", "up", *robots,
                         "--backend", backend, "--viewer", "none", "--respawn"]  # fmt: skip

    def start(self) -> None:
        """Start ``motion up``."""
        self._up = self._suite.run(self._command)

    def restart(self, name: str) -> None:
        """Nothing: the supervisor does it."""

    def pid(self, name: str) -> int | None:
        """Return the process id of the child with the nodes of a process; None without one."""
        wanted = [part.encode() for part in self.commands[name][1:4]]
        marks = [node.rpartition("/")[2].encode() for node in self.nodes[name][:1]]
        for pid in _children(self._up.pid):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                line = b" ".join(words)
                if words[1:4] == wanted and all(mark in line for mark in marks):
                    return pid
        return None

    def end(self, name: str, number: int) -> int:
        """Send a signal that ends a process; return 0, as only the supervisor has its exit code."""
        pid = self.pid(name)
        if pid is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        end = time.monotonic() + ENDS
        while self.pid(name) == pid and time.monotonic() < end:
            time.sleep(0.02)
        assert self.pid(name) != pid, f"{name} ignored {signal.Signals(number).name}"
        return 0

    def output(self, name: str) -> str:
        """Return the output of all processes."""
        return self._up.output


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def processes_of(nodes: Mapping[str, Sequence[str]], wanted: Sequence[str]) -> set[str]:
    """Return the processes of some nodes, by the last part of their names."""
    return {
        process for process, members in nodes.items()
        for node in members if node.rpartition("/")[2] in wanted
    }  # fmt: skip
