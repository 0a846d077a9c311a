# SPDX-License-Identifier: Apache-2.0
"""One run of the fuzzer: brings up a suite, attacks it in phases, and reports violations."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from ros_processes import Suite, SuiteProcess
from std_srvs.srv import SetBool, Trigger

from fuzz.attacker import Attacker, states_of
from fuzz.endpoints import OWN_SERVICES, find_endpoints
from fuzz.processes import Usage, tracebacks, usage_of
from fuzz.watcher import WatcherProcess
from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.placement import parse_placements

PHASES = {"messages": 0.8, "parameters": 0.1, "lifecycle": 0.03, "time": 0.07}
"""Share of the messages of each phase. Velocities and accelerations are watched in the first."""
STOP_PERIOD = 10
"""Requests to stop are part of every tenth batch of 100 messages, after which motion is resumed."""
PROGRESS_PERIOD = 30.0
"""Time between two reports of progress [s]."""
READY = 240.0
"""[s] How long the suite may take to come up, for it may have to compile."""
PATIENCE = 60.0
"""[s] How long answers may take at the end of a phase before they count as lost."""
LASTING = ("get_state", "change_state", "get_available_states", "get_available_transitions",
           "get_transition_graph", "describe_parameters", "get_parameter_types", "get_parameters",
           "list_parameters", "set_parameters", "set_parameters_atomically",
           "get_type_description")  # fmt: skip
"""Services that a node has in every state."""
RECOVERY = 60.0
"""[s] How long nodes may take to become active again after a phase."""


@dataclass
class Findings:
    """Findings of a campaign."""

    failures: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


class Campaign:
    """Attacks a suite of some robots."""

    def __init__(
        self,
        suite: Suite,
        robots: Sequence[str],
        *,
        seed: int,
        messages: int,
        rate: float = 300.0,
        longest_wait: float = 1.0,
        backend: str = "mujoco",
        without: Sequence[str] = (),
        phases: Sequence[str] = tuple(PHASES),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare a run.

        Args:
            suite: starts the processes.
            robots: words of placement, each with a namespace.
            seed: random seed.
            messages: total number.
            rate: max rate of messages [Hz].
            longest_wait: max response time of a node to a probe [s].
            backend: of the simulation.
            without: executables that are not started.
            phases: to run, out of :data:`PHASES`.
            say: reports progress.
        """
        self._suite = suite
        self._places = {p.namespace: p.robot for p in parse_placements(robots)}
        self._words = list(robots)
        self._seed, self._messages, self._rate = seed, messages, rate
        self._longest_wait = longest_wait
        self._backend, self._without, self._phases = backend, without, phases
        self._say = say
        self.findings = Findings()
        self._worst_probe = (0.0, "")
        self._stopped = False

    def stop(self) -> None:
        """End after the current messages; :meth:`run` returns the findings so far."""
        self._stopped = True

    def run(self) -> Findings:
        """Run all phases; does not end the suite's processes."""
        processes = self._suite.bring_up(*self._words, backend=self._backend, without=self._without)
        robots = {space: load_robot(name) for space, name in self._places.items()}
        attacker = Attacker(robots, self._seed)
        try:
            self._attack(attacker, processes)
        finally:
            self.journal = list(attacker.journal)
            attacker.close()
        return self.findings

    # ---- inside

    def _attack(self, attacker: Attacker, processes: dict[str, SuiteProcess]) -> None:
        nodes = self._wait_until_active(attacker)
        watcher = WatcherProcess(self._places, self._suite.environment)
        endpoints = find_endpoints(attacker.node)
        self.findings.figures["endpoints"] = len(endpoints)
        before = {name: usage_of(process.pid) for name, process in processes.items()}
        for phase in self._phases:
            chosen = [each for each in endpoints if each.phase == phase]
            watcher.exact(phase == "messages")
            count = int(PHASES[phase] * self._messages)
            self._run_phase(phase, attacker, processes, nodes, chosen, count)
            watcher.exact(False)
            self._answers(attacker, nodes, phase)
            self._restore(attacker, nodes, phase)
            if self._stopped or self._gone(processes):
                break
        attacker.spin(1.0)
        for name, process in processes.items():
            if process.running:
                self._compare(name, before[name], usage_of(process.pid))
        self._take(watcher.ask())
        watcher.close()
        self._summarize(attacker, processes)

    def _run_phase(
        self,
        phase: str,
        attacker: Attacker,
        processes: dict[str, SuiteProcess],
        nodes: list[str],
        endpoints: Sequence[Any],
        count: int,
    ) -> None:
        done = 0
        begin, sent = time.monotonic(), attacker.tally.count
        told = begin
        while done < count and not self._stopped and not self._gone(processes):
            if time.monotonic() - told > PROGRESS_PERIOD:
                told = time.monotonic()
                self._say(f"... {phase}: {done} of {count}, {len(self.findings.failures)} failures")
            part = min(100, count - done)
            stops = (done // 100) % STOP_PERIOD == STOP_PERIOD - 1
            chosen = [each for each in endpoints if stops or not each.stops]
            attacker.attack(chosen, part, self._rate)
            done += part
            if stops and phase == "messages":
                self._resume(attacker, endpoints)
            # One thread per process serves its nodes: probing one of them is enough.
            self._probe(attacker, nodes[(done // 100) % len(nodes)])
        rate = (attacker.tally.count - sent) / max(time.monotonic() - begin, 1e-9)
        self.findings.figures.setdefault("messages per second", {})[phase] = round(rate, 1)

    def _resume(self, attacker: Attacker, endpoints: Sequence[Any]) -> None:
        name = next(each.name for each in endpoints if each.name.endswith("/resume"))
        answer = attacker.call(Trigger, name, Trigger.Request())
        if answer is None or not answer.success:
            self._fail(f"{name}, message {attacker.tally.count}: {answer}")

    def _probe(self, attacker: Attacker, node: str) -> None:
        label, waited = states_of(attacker, [node])[node]
        where = f"{node}, message {attacker.tally.count}"
        self._worst_probe = max(self._worst_probe, (waited, where))
        if label == "no answer":
            self._fail(f"{where}: does not say its state")

    def _wait_until_active(self, attacker: Attacker) -> list[str]:
        end = time.monotonic() + READY
        nodes: list[str] = []
        while time.monotonic() < end:
            attacker.spin(0.5)
            graph = attacker.node.get_service_names_and_types()
            nodes = sorted(
                name.removesuffix("/get_transition_graph") for name, _ in graph
                if name.endswith("/get_transition_graph") and not name.startswith(OWN_SERVICES)
            )  # fmt: skip
            states = states_of(attacker, nodes)
            if set(self._expected()) <= set(nodes) and all(
                label == "active" for label, _ in states.values()
            ):
                attacker.spin(1.0)
                return nodes
        raise AssertionError(f"not up within {READY:g} s: {states_of(attacker, nodes)}")

    def _expected(self) -> list[str]:
        config = BringupConfig(placements=parse_placements(self._words), backend=self._backend,
                               viewer="none")  # fmt: skip
        specs = nodes_for(config)
        return [spec.full_name for spec in specs if spec.executable not in self._without]

    def _answers(self, attacker: Attacker, nodes: list[str], phase: str) -> None:
        """Wait for missing responses.

        Cleanup of a node removes its own services, with the pending requests.
        """
        lost = attacker.settle(PATIENCE)
        if phase == "lifecycle":
            stay = [each for each in lost if _stays(each.name, nodes)]
            self.findings.figures["requests to services that went"] = len(lost) - len(stay)
            lost = stay
        for each in lost:
            self._fail(f"no answer: {each.name}, message {each.number}, phase {phase}")

    def _restore(self, attacker: Attacker, nodes: list[str], phase: str) -> None:
        """Restore the initial state of the suite, as far as the phase changed it intentionally."""
        if phase == "time":
            for name in ("/mujoco_sim/pause", "/mock_sim/pause"):
                if attacker.node.get_node_names() and name.split("/")[1].startswith(self._backend):
                    attacker.call(SetBool, name, SetBool.Request(data=False))
            attacker.drop_publishers("/clock")
        if phase in ("lifecycle", "parameters"):
            for node in nodes:
                self._renew(attacker, node)
        end = time.monotonic() + RECOVERY
        while True:
            states = states_of(attacker, nodes)
            wrong = {name: label for name, (label, _) in states.items() if label != "active"}
            if not wrong:
                return
            if time.monotonic() > end:
                self._fail(f"after phase {phase}: {wrong}")
                return
            attacker.spin(0.5)

    def _renew(self, attacker: Attacker, node: str) -> None:
        """Reconfigure a node, which restores its initial parameters."""
        label = states_of(attacker, [node])[node][0]
        steps = {
            "active": ("DEACTIVATE", "CLEANUP", "CONFIGURE", "ACTIVATE"),
            "inactive": ("CLEANUP", "CONFIGURE", "ACTIVATE"),
            "unconfigured": ("CONFIGURE", "ACTIVATE"),
        }.get(label, ())
        for step in steps:
            number = getattr(Transition, f"TRANSITION_{step}")
            request = ChangeState.Request(transition=Transition(id=number))
            answer = attacker.call(ChangeState, f"{node}/change_state", request, 60.0)
            if answer is None or not answer.success:
                self._fail(f"{node}: {step.lower()} failed from {label}")
                return

    def _gone(self, processes: dict[str, SuiteProcess]) -> bool:
        return any(not process.running for process in processes.values())

    def _compare(self, name: str, before: Usage, after: Usage) -> None:
        self.findings.figures[f"{name}: memory [MB]"] = f"{before.memory:.0f} -> {after.memory:.0f}"
        self.findings.figures[f"{name}: handles"] = f"{before.handles} -> {after.handles}"
        self.findings.figures[f"{name}: threads"] = f"{before.threads} -> {after.threads}"
        if after.handles > before.handles + 40:
            self._fail(f"{name}: handles went from {before.handles} to {after.handles}")
        if after.threads > before.threads + 20:
            self._fail(f"{name}: threads went from {before.threads} to {after.threads}")
        if after.memory > 1.5 * before.memory + 200.0:
            self._fail(f"{name}: memory went from {before.memory:.0f} to {after.memory:.0f} MB")

    def _take(self, seen: dict[str, Any]) -> None:
        self.findings.failures += [f"limit: {text}" for text in seen["violations"]]
        robots = seen["robots"]
        self.findings.figures["commands watched"] = {s: r["commands"] for s, r in robots.items()}
        self.findings.figures["largest share of limits"] = {
            space: {what: round(share, 3) for what, share in report["peaks"].items()}
            for space, report in robots.items()
        }

    def _summarize(self, attacker: Attacker, processes: dict[str, SuiteProcess]) -> None:
        tally, figures = attacker.tally, self.findings.figures
        figures["messages"] = dict(tally.sent) | {"damaged": tally.damaged}
        figures["answers"] = tally.answered
        waited, where = self._worst_probe
        figures["longest wait of a probe"] = f"{waited:.2f} s ({where})"
        slow = sorted(tally.worst.items(), key=lambda item: item[1], reverse=True)[:8]
        figures["longest answers"] = {
            f"{name}, message {number}": f"{seconds:.2f} s" for name, (seconds, number) in slow
        }
        if waited > self._longest_wait:
            self._fail(f"{where}: took {waited:.2f} s to say its state")
        for name, process in processes.items():
            if not process.running:
                self._fail(f"process {name} ended with code {process.exit_code()}")
            for line in tracebacks(process.output):
                self._fail(f"{name}: {line}")
        figures["faults in the logs"] = sum(p.output.count("[FATAL]") for p in processes.values())

    def _fail(self, text: str) -> None:
        if text not in self.findings.failures:
            self.findings.failures.append(text)


def _stays(service: str, nodes: Sequence[str]) -> bool:
    node, _, name = service.rpartition("/")
    return node in nodes and name in LASTING
