# SPDX-License-Identifier: Apache-2.0
"""Processes of the suite under test, and a client of their topics and services."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from forked_process import forked
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from node_template import end_with_parent
from patience import LIMIT, Patience, wait_until
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import commands_for
from motion_nodes.model.placement import parse_placements
from motion_nodes.ros.concurrency.polled_subscription import PolledGroup

OFTEN = {"diagnostic_updater.period": 0.2}
"""Parameters of all nodes: who waits for a report waits less."""

PATIENT = {"state_timeout": 3.0}
"""Parameters of nodes that stop without joint states: on a busy machine these pause, too."""

HEARS_STATES = (
    "articulation_controller", "rmpflow_policy", "rrt_planner", "trajectory_generator",
    "differential_base", "holonomic_base", "ackermann_base",
)  # fmt: skip


def usual(executable: str) -> dict[str, Any]:
    """Return the parameters that nodes of tests have where a test does not say otherwise."""
    return OFTEN | (PATIENT if executable in HEARS_STATES else {})


RELIABLE = QoSProfile(depth=50, reliability=ReliabilityPolicy.RELIABLE)
BEST_EFFORT = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
LATCHED = QoSProfile(
    depth=10,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


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
    """A process of the suite; what it prints goes to a file."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        fork: bool = True,
        folder: Path | None = None,
    ) -> None:
        """Start it in a folder; a node without ``fork`` imports only what it needs."""
        self.command = list(command)
        self._log = log
        variables = dict(environment or os.environ)
        made = forked(self.command, log, variables) if fork and folder is None else None
        self._process = made or _started(self.command, log, variables, folder)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """Everything it printed so far."""
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
        """Wait until it has ended by itself, and return the exit code."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within:g} s: {self}") from None

    def stop(self, number: int = signal.SIGINT, within: float = LIMIT) -> int:
        """Ask it to stop, wait, and return the exit code."""
        if self.running:
            self.send(number)
        return self.exit_code(within)

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self.send(signal.SIGKILL)
        self._process.wait(LIMIT)

    def __str__(self) -> str:
        """Show command, state and output."""
        return f"{' '.join(self.command[1:])} (exit code {self._process.poll()})\n{self.output}"


class Suite:
    """Starts processes for a test, and stops what is left of them after it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Keep output in ``folder``."""
        self._folder = folder
        self.environment = dict(environment)
        self.processes: list[SuiteProcess] = []
        self._numbers = itertools.count()
        self.fork = True
        """Whether nodes are forked from a process that has imported what they import."""

    def run(
        self, command: Sequence[str], *, folder: Path | None = None, **variables: str
    ) -> SuiteProcess:
        """Start any command with this run's environment, in this folder or another one."""
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
        self, *robots: str, without: Sequence[str] = (), **settings: Any
    ) -> dict[str, SuiteProcess]:
        """Start the bring-up's composition for some robots; return its processes by name.

        Args:
            robots: words of placement.
            without: executables that the test has no need of.
            settings: of the bring-up.
        """
        config = BringupConfig(placements=parse_placements(robots), **{"viewer": "none"} | settings)
        specs = [
            dataclasses.replace(spec, parameters={**spec.parameters, **usual(spec.executable)})
            for spec in nodes_for(config)
            if spec.executable not in without
        ]
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


class Heard:
    """The messages of one topic since the last :meth:`clear`."""

    def __init__(self, take: Callable[[], Any] = lambda: None) -> None:
        """Take messages by ``take``, which returns None where none is pending."""
        self.take = take
        self.messages: list[Any] = []
        self.times: list[float] = []

    def __call__(self, message: Any) -> None:
        self.messages.append(message)
        self.times.append(time.monotonic())

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def newest(self) -> Any:
        """The last message; None before the first."""
        return self.messages[-1] if self.messages else None

    def clear(self) -> None:
        """Forget all, pending ones too."""
        while self.take() is not None:
            pass
        self.messages.clear()
        self.times.clear()


class RosClient:
    """A node of the test itself; it hears only while it waits.

    Topics are polled: an executor takes ten times as long for a message, and robots send hundreds
    in a second.
    """

    PERIOD = 0.01
    """[s] How often topics are polled."""

    def __init__(self, name: str = "test_client") -> None:
        self.node = Node(name, use_global_arguments=False)
        self._polled = PolledGroup()
        self._topics: list[Heard] = []
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}
        self._diagnostics: dict[str, DiagnosticStatus] | None = None

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self.node.destroy_node()

    def listen(self, kind: Any, topic: str, profile: QoSProfile = RELIABLE) -> Heard:
        """Begin to listen."""
        subscription = self.node.create_subscription(
            kind, topic, print, profile, callback_group=self._polled
        )
        heard = Heard(lambda: subscription.handle.take_message(kind, False))
        self._topics.append(heard)
        return heard

    def _round(self, timeout: float = PERIOD) -> Iterator[None]:
        """Serve the executor for a time [s], then hear messages; pauses after each of them."""
        self._executor.spin_once(timeout_sec=timeout)
        yield
        for heard in self._topics:
            while (taken := heard.take()) is not None:
                heard(taken[0])
                yield

    def publisher(self, kind: Any, topic: str, profile: QoSProfile = RELIABLE) -> Any:
        """Return a publisher that somebody already hears."""
        publisher = self.node.create_publisher(kind, topic, profile)
        self.wait(lambda: publisher.get_subscription_count() > 0, f"a subscriber of {topic}")
        return publisher

    def spin(self, seconds: float) -> None:
        """Hear messages for a while: for tests that something does NOT happen."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            for _ in self._round(min(left, self.PERIOD)):
                pass

    def wait(self, condition: Callable[[], Any], what: str, within: float = LIMIT) -> Any:
        """Hear messages until the condition is true, and return its value."""
        patience = Patience(within)
        if value := condition():
            return value
        while True:
            patience.require(what)
            for _ in self._round():
                if value := condition():
                    return value

    def repeat(
        self,
        send: Callable[[], None],
        until: Callable[[], Any],
        what: str,
        *,
        rate: float = 20.0,
        within: float = LIMIT,
    ) -> Any:
        """Call ``send`` at a rate [Hz] until the condition is true."""
        patience = Patience(within)
        due = time.monotonic()
        if value := until():
            return value
        while True:
            patience.require(what)
            now = time.monotonic()
            if now >= due:
                send()
                due = max(due + 1.0 / rate, now)
            for _ in self._round(max(0.0, min(due - now, self.PERIOD))):
                if value := until():
                    return value

    def repeat_for(self, send: Callable[[], None], seconds: float, rate: float = 20.0) -> None:
        """Call ``send`` at a rate [Hz] for a while."""
        end = time.monotonic() + seconds
        self.repeat(send, lambda: time.monotonic() >= end, "the time", rate=rate,
                    within=seconds + LIMIT)  # fmt: skip

    def call(self, kind: Any, name: str, request: Any = None, within: float = LIMIT) -> Any:
        """Call a service."""
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)
        client = self._clients[name]
        self.wait(client.service_is_ready, f"service {name}", within)
        future = client.call_async(request if request is not None else kind.Request())
        self.wait(future.done, f"answer of {name}", within)
        return future.result()

    def servers(self, name: str) -> set[bytes]:
        """Return ids of a service's servers in the graph; killed ones stay in it for a while."""
        topic = f"rq{name}Request"
        found = self.node.get_subscriptions_info_by_topic(topic, no_mangle=True)
        return {bytes(info.endpoint_gid) for info in found}

    def state(self, node: str) -> str:
        """Return a node's lifecycle state."""
        return self.call(GetState, f"{node}/get_state").current_state.label

    def change_state(self, node: str, verb: str) -> bool:
        """Trigger a transition such as ``configure``."""
        number = getattr(Transition, f"TRANSITION_{verb.upper()}")
        request = ChangeState.Request(transition=Transition(id=number))
        return self.call(ChangeState, f"{node}/change_state", request).success

    def set_parameters(self, node: str, **values: Any) -> Any:
        """Set parameters as one batch; dots in names are written as two underscores."""
        batch = [Parameter(k.replace("__", "."), value=v) for k, v in values.items()]
        request = SetParametersAtomically.Request(
            parameters=[parameter.to_parameter_msg() for parameter in batch]
        )
        return self.call(
            SetParametersAtomically, f"{node}/set_parameters_atomically", request
        ).result

    def get_parameter(self, node: str, name: str) -> Any:
        """Read one parameter."""
        request = GetParameters.Request(names=[name])
        value = self.call(GetParameters, f"{node}/get_parameters", request).values[0]
        return rclpy.parameter.parameter_value_to_python(value)

    def diagnostics(self, node: str) -> DiagnosticStatus | None:
        """Return the newest report of a node, such as ``/a/robot_state``."""
        if self._diagnostics is None:
            self._diagnostics = kept = {}

            def keep(message: DiagnosticArray) -> None:
                kept.update({status.name: status for status in message.status})

            self._reports = self.node.create_subscription(
                DiagnosticArray, "/diagnostics", keep, BEST_EFFORT
            )
        return self._diagnostics.get(node.strip("/"))

    def forget_diagnoses(self) -> None:
        """From now on, only reports that are made later count."""
        if self._diagnostics is not None:
            # A new subscription receives none of those that wait in the old one.
            self.node.destroy_subscription(self._reports)
            self._diagnostics = None

    def wait_for_diagnosis(
        self, node: str, text: str, level: bytes | None = None, within: float = LIMIT
    ) -> DiagnosticStatus:
        """Wait until a node's report says something; it may be an old report."""

        def found() -> DiagnosticStatus | None:
            status = self.diagnostics(node)
            if status is None or text not in status.message:
                return None
            return status if level is None or status.level == level else None

        try:
            return self.wait(found, f"{node} diagnoses '{text}'", within)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says: {self.diagnostics(node)}") from None


def values_of(status: DiagnosticStatus) -> dict[str, str]:
    """Return the figures of a report."""
    return {pair.key: pair.value for pair in status.values}
