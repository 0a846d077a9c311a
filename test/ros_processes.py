# SPDX-License-Identifier: Apache-2.0
"""Processes of the suite under test."""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forked_process import forked
from node_template import end_with_parent
from patience import LIMIT, wait_until

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import NodeSpec, commands_for
from motion_nodes.core.robot.placement import parse_placements

OFTEN = {"diagnostic_updater.period": 0.2}
"""Parameters of all nodes: frequent reports shorten waits."""

PATIENT = {"state_timeout": 3.0}
"""Parameters of nodes that stop without joint states, which pause on a busy machine."""

HEARS_STATES = (
    "articulation_controller", "rmpflow_policy", "rrt_planner", "trajectory_generator",
    "differential_base", "holonomic_base", "ackermann_base",
)  # fmt: skip

RATED = {
    "mock_sim": "mock_sim",
    "mujoco_sim": "mujoco_sim",
    "articulation_controller": "joint_trajectory_controller",
    "rmpflow_policy": "rmpflow_policy",
}
"""Executables with the most expensive loops of a suite, and the names of their nodes."""


def rated(executable: str, rate: float) -> dict[str, Any]:
    """Return the parameters that set the update rate [Hz] of an executable's loop."""
    return {"update_rate": rate} if executable in RATED else {}


def with_rate(spec: NodeSpec, rate: float) -> NodeSpec:
    """Return a node with an update rate [Hz]; unchanged if it has no rated loop."""
    return dataclasses.replace(spec, parameters={**spec.parameters, **rated(spec.executable, rate)})


def rates(rate: float) -> dict[str, Any]:
    """Return the content of a parameter file that sets the update rate [Hz] of a suite."""
    return {
        f"/**/{name}": {"ros__parameters": rated(executable, rate)}
        for executable, name in RATED.items()
    }


def usual(executable: str) -> dict[str, Any]:
    """Return the default parameters of nodes in tests."""
    return OFTEN | (PATIENT if executable in HEARS_STATES else {})


def _started(
    command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path | None
) -> Any:
    with log.open("wb") as file:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )


class SuiteProcess:
    """A process of the suite, with its output in a file."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        fork: bool = True,
        folder: Path | None = None,
    ) -> None:
        """Start it in a folder; ``fork``: from the template of nodes, if possible."""
        self.command = list(command)
        self._log = log
        variables = dict(environment or os.environ)
        made = forked(self.command, log, variables, folder) if fork else None
        self._process = made or _started(self.command, log, variables, folder)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """Output so far."""
        return self._log.read_text(errors="replace")

    def wait_for(self, text: str, within: float = LIMIT) -> None:
        """Wait until it has printed ``text``."""
        wait_until(lambda: text in self.output or not self.running, f"'{text}' in {self}", within)
        assert text in self.output, f"ended without printing '{text}': {self}"

    def send(self, number: int) -> None:
        """Send a signal."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def exit_code(self, within: float = LIMIT) -> int:
        """Wait until it ends by itself; return the exit code."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within:g} s: {self}") from None

    def stop(self, number: int = signal.SIGINT, within: float = LIMIT) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        if self.running:
            self.send(number)
        return self.exit_code(within)

    def kill(self) -> None:
        """Kill it."""
        self.send(signal.SIGKILL)
        self._process.wait(LIMIT)

    def __str__(self) -> str:
        """Return command, state and output."""
        return f"{' '.join(self.command[1:])} (exit code {self._process.poll()})\n{self.output}"


class Suite:
    """Starts processes for a test, and stops those that still run after it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self.environment = dict(environment)
        self.processes: list[SuiteProcess] = []
        self._numbers = itertools.count()
        self.fork = True
        """Whether nodes are forked from a template process that has their imports."""

    def run(
        self, command: Sequence[str], *, folder: Path | None = None, **variables: str
    ) -> SuiteProcess:
        """Start a command with this run's environment, in the present folder or another one."""
        log = self._folder / f"process_{next(self._numbers)}.log"
        process = SuiteProcess(
            command, log, self.environment | variables, fork=self.fork, folder=folder
        )
        self.processes.append(process)
        return process

    def node(
        self,
        executable: str,
        *,
        name: str | None = None,
        namespace: str | None = None,
        ros_args: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> SuiteProcess:
        """Start one node; dots in parameter names are written as two underscores."""
        args = ["--ros-args"]
        args += ["-r", f"__node:={name}"] if name else []
        args += ["-r", f"__ns:=/{namespace}"] if namespace else []
        for key, value in (usual(executable) | parameters).items():
            args += ["-p", f"{key.replace('__', '.')}:={json.dumps(value)}"]
        python = [sys.executable, "-m", "motion_nodes.nodes"]
        return self.run([*python, executable, *args, *ros_args], **(variables or {}))

    def container(self, nodes: Sequence[Mapping[str, Any]]) -> SuiteProcess:
        """Start several nodes in one process."""
        python = [sys.executable, "-m", "motion_nodes.nodes"]
        return self.run([*python, "container", "--nodes", json.dumps(list(nodes))])

    def bring_up(
        self, *robots: str, without: Sequence[str] = (), rate: float | None = None, **settings: Any
    ) -> dict[str, SuiteProcess]:
        """Start the bring-up's nodes for some robots; return the processes by name.

        Args:
            robots: placements.
            without: executables to omit.
            rate: update rate of simulation, controllers and policies [Hz]; None: their defaults.
            settings: settings of the bring-up.
        """
        config = BringupConfig(placements=parse_placements(robots), **{"viewer": "none"} | settings)
        specs = []
        for spec in nodes_for(config):
            if spec.executable not in without:
                made = spec if rate is None else with_rate(spec, rate)
                more = {**made.parameters, **usual(spec.executable)}
                specs.append(dataclasses.replace(made, parameters=more))
        commands = commands_for(specs, composed=True)
        return {name: self.run(command) for name, command in commands.items()}

    def close(self) -> None:
        """Stop everything."""
        for process in self.processes:
            process.send(signal.SIGINT)
        for process in self.processes:
            try:
                process.exit_code(LIMIT)
            except AssertionError:
                process.kill()
                raise
