# SPDX-License-Identifier: Apache-2.0
"""Supervises the processes of a suite: detects dead and wedged ones, holds the robots, restarts.

Faults are classified by :mod:`motion_nodes.bringup.process_health`, restarts are limited by
:mod:`motion_nodes.bringup.process_health`. The supervisor does not load ROS: a separate probe
process (motion_nodes/nodes/clients/dds_probe.py) pings over DDS.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from motion_nodes.bringup.node_specs import DRIVERS, NodeSpec, command_of
from motion_nodes.bringup.process_health import (
    Activity,
    Condition,
    HealthFinding,
    HealthLimits,
    Heartbeat,
    ProcessHealth,
    RestartLimits,
    StreamComparison,
    Watched,
    read_activity,
)
from motion_nodes.bringup.process_template import ProcessTemplate
from motion_nodes.bringup.processes import ProcessEvents, ProcessGroup, Report, how_it_ended
from motion_nodes.core.control.stop_state import StopState
from motion_nodes.ros.process_reports import (
    ASLEEP,
    ECHO_VARIABLE,
    FAILED,
    NEVER,
    READY,
    REPLACED_VARIABLE,
    STOP_VARIABLE,
    Beat,
    Echo,
    News,
    StopReport,
    stop_text,
)

PROBE = "supervisor_probe"
"""Name of the process that pings over DDS."""
PROBE_COMMAND = [sys.executable, "-m", "motion_nodes.nodes.clients.dds_probe"]
PROBE_AFTER = 10.0
"""[s] Max delay of the start of the probe, which waits until all nodes are ready."""
LONGEST_STEP = 0.5
"""[s] Max time between two cycles that counts as silence of processes; the rest is own delay."""
REPORT_PERIOD = 1.0
"""[s] Period of reports on /diagnostics."""


@dataclass(frozen=True)
class Supervision:
    """How processes are supervised, and by which measurements."""

    respawn: bool = True
    """Whether processes are replaced; False: only reported."""
    health: HealthLimits = field(default_factory=HealthLimits)
    """Timeouts."""
    budget: RestartLimits = field(default_factory=RestartLimits)
    """Limits of restarts."""
    activity: Callable[[int], Activity] = read_activity
    """Returns the process accounting of a process id."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time [s]."""


class Supervisor:
    """Supervises a group of processes; call :meth:`watch` several times a second."""

    def __init__(
        self,
        processes: Mapping[str, Sequence[NodeSpec]],
        commands: Mapping[str, list[str]],
        print_line: Callable[[str], None],
        rules: Supervision | None = None,
        *,
        on_report: Callable[[str, News], None] = lambda _name, _news: None,
        template: ProcessTemplate | None = None,
    ) -> None:
        """Create the supervisor; processes start when the context of :attr:`group` is entered.

        Args:
            processes: the nodes of each process by its name.
            commands: their command lines.
            print_line: prints one line.
            rules: of the supervision; None: the defaults.
            on_report: called with the name of a process and the report of one of its nodes.
            template: forks the processes.
        """
        rules = rules or Supervision()
        self._rules, self._print_line, self._on_report = rules, print_line, on_report
        self._left_out: dict[str, str] = {}
        """Full names of the nodes of robots that cannot start, each with the reason."""
        self._watched = {name: Watched(specs, rules.budget) for name, specs in processes.items()}
        self._probe = Watched((), RestartLimits(burst=rules.budget.burst, delays=(1.0,)))
        self._probe_trusted, self._all_silent = True, False
        self._streams = StreamComparison()
        self._now, self._last = 0.0, rules.clock()
        self._stop = StopState()
        self._report_due = 0.0
        environment = {**os.environ, ECHO_VARIABLE: f"s{secrets.token_hex(4)}"}
        self.group = ProcessGroup(
            commands,
            print_line,
            environment=environment,
            events=ProcessEvents(self._read, self._ended),
            template=template,
            drivers=[
                n for n, specs in processes.items() if any(s.executable in DRIVERS for s in specs)
            ],
        )

    @property
    def failed(self) -> dict[str, int]:
        """Exit code by name, of processes that ended and are not restarted."""
        return self.group.failed

    @property
    def failed_to_start(self) -> list[str]:
        """Names of processes that ended with an error of their configuration."""
        return [name for name, watched in self._watched.items() if watched.failed_start]

    def nodes_of(self, name: str) -> list[str]:
        """Return the full names of the nodes of a process."""
        return [spec.full_name for spec in self._watched[name].nodes]

    def watch(self, *, settled: bool) -> bool:
        """Run one cycle of the supervision.

        Args:
            settled: whether all nodes are up, so that the start of the probe delays none.

        Returns:
            Whether a process is running or will be restarted.
        """
        wall = self._rules.clock()
        self._now, self._last = self._now + min(wall - self._last, LONGEST_STEP), wall
        for name in self._everyone():
            self._note_start(name)
        self.group.watch()
        self._start_probe(settled)
        self._check_probe()
        for name in self._everyone():
            self._check(name)
        self._start_due()
        if self._now >= self._report_due:
            self._report_due = self._now + REPORT_PERIOD
            self._report()
        return any(w.health is not None or w.due is not None for w in self._watched.values())

    def leave_out(self, robots: Mapping[str, str]) -> None:
        """Stop the nodes of robots that cannot start; processes that they share start again.

        Args:
            robots: namespaces, each with the reason.
        """
        for name, watched in list(self._watched.items()):
            kept = [spec for spec in watched.nodes if spec.namespace not in robots]
            if len(kept) == len(watched.nodes):
                continue
            gone = [spec for spec in watched.nodes if spec not in kept]
            self._left_out |= {spec.full_name: robots[spec.namespace] for spec in gone}
            self.group.end(name)
            self.group.failed.pop(name, None)
            self._streams.forget(name)
            del self._watched[name]
            if kept:
                self._watched[name] = Watched(kept, self._rules.budget)
                self.group.add(name, command_of(name, kept))
                self._note_start(name)

    # ---- reports of processes

    def _read(self, name: str, report: Report) -> None:
        watched = self._everyone()[name]
        if isinstance(report, Beat):
            if watched.health is not None:
                beat = Heartbeat(report.overdue, report.loop.strip("/"), report.executor)
                first = not watched.health.responded
                watched.health.heartbeat(beat, self._now)
                self._streams.update(name, report.received, self._now)
                if first:
                    self._send_targets()
        elif isinstance(report, Echo):
            self._read_echo(report)
        elif isinstance(report, StopReport):
            state = report.state()
            self._stop = self._stop if state is None else self._stop.merge(state)
        else:
            if report.state == FAILED:
                watched.failed_start = True
            self._on_report(name, report)
            if report.state in (READY, ASLEEP) and report.node in watched.unready:
                watched.unready.discard(report.node)
                if not watched.unready:
                    self._print_line(f"{name} is back after {self._now - watched.lost_at:.1f} s")

    def _read_echo(self, echo: Echo) -> None:
        if echo.silent <= self._rules.health.reach:
            self._probe_trusted = True
        for name, watched in self._watched.items():
            if watched.health is not None and self.group.pid(name) == echo.target:
                watched.health.echo(echo.silent)
                watched.delay = echo.delay

    def _ended(self, name: str, code: int) -> None:
        watched = self._everyone()[name]
        if watched.failed_start and not watched.budget.total:
            # Configuration error: a restart would fail again.
            self._print_line(f"{name} {how_it_ended(code)}")
            watched.health = None
            self.group.failed[name] = code
            return
        watched.failed_start = False
        self._lost(name, how_it_ended(code), code)

    # ---- reactions

    def _check(self, name: str) -> None:
        watched = self._everyone()[name]
        if watched.health is None:
            return
        watched.health.missed(self._streams.missed(name, self._now))
        finding = watched.health.finding(self._activity_of(name), self._now)
        if finding is not None and finding.condition is Condition.UNREACHABLE and self._all_silent:
            # A common cause, such as the network: replacing processes would not help.
            finding = replace(finding, replace=len(self._watched) == 1)
        before, watched.finding = watched.finding, finding
        if finding is None:
            if before is not None:
                self._print_line(f"{name} responds again")
            return
        if finding.replace and self._rules.respawn:
            self._replace(name, finding)
        elif before is None:
            self._print_line(
                f"{name}: {finding.condition.value}, {finding.text}{self._outlook(finding)}"
            )
            # The process itself holds its robots when it continues.
            self._hold(name, f"{name} is {finding.condition.value}", itself=True)

    def _outlook(self, finding: HealthFinding) -> str:
        if not self._rules.respawn:
            return "; not replaced: respawn is off"
        if finding.condition is Condition.UNREACHABLE and self._all_silent:
            return ", like all others; not replaced: check the network"
        return f"; replaced after {self._rules.health.overload:g} s"

    def _replace(self, name: str, finding: HealthFinding) -> None:
        why = f"{finding.condition.value}, {finding.text}"
        if finding.condition is not Condition.STOPPED:
            self._print_line(f"{name}: {why}; stacks of its threads:")
            self.group.print_stacks(name)
        if not self.group.kill(name):
            self._print_line(f"{name}: {why}; it cannot be killed: blocked in the kernel")
            return
        self._lost(name, f"{why}; killed", -9)

    def _lost(self, name: str, why: str, code: int) -> None:
        """Hold the robots, and schedule the restart of a process that has ended."""
        watched = self._everyone()[name]
        watched.health, watched.finding, watched.last = None, None, why
        watched.lost_at = self._now
        self._streams.forget(name)
        if name == PROBE:
            for each in self._watched.values():
                if each.health is not None:
                    each.health.echo(0.0)
        self._hold(name, f"{name} {why}")
        self._send_targets()
        limits = watched.budget.limits
        delay = watched.budget.take(self._now) if self._rules.respawn else None
        if delay is not None:
            watched.due = self._now + delay
            used = watched.budget.used(self._now)
            self._print_line(
                f"{name} {why}; restart {used} of {limits.burst} within {limits.window:g} s"
            )
            return
        watched.down = why
        if name == PROBE:
            self._print_line(f"{name} {why}; reachability over DDS is no longer supervised")
            return
        self.group.failed[name] = code
        if self._rules.respawn:
            nodes = ", ".join(node.strip("/") for node in self.nodes_of(name))
            self._print_line(
                f"{name} {why}; it stays down after {limits.burst} restarts within "
                f"{limits.window:g} s. Not available: {nodes}"
            )
        else:
            self._print_line(f"{name} {why}")

    def _hold(self, name: str, why: str, *, itself: bool = False) -> None:
        """Make nodes of the same robots in other processes stop these robots."""
        lost = [spec for spec in self._everyone()[name].nodes if spec.moves_robots]
        everywhere = any(spec.is_simulation for spec in lost)
        places = {spec.namespace for spec in lost}
        for other, watched in self._watched.items():
            nodes = [
                spec.full_name
                for spec in watched.nodes
                if spec.moves_robots and (everywhere or spec.namespace in places)
            ]
            if (other != name or itself) and watched.health is not None and nodes:
                self.group.send(other, {"hold": why, "nodes": nodes})

    def _start_due(self) -> None:
        for name, watched in self._everyone().items():
            if watched.due is None or self._now < watched.due:
                continue
            watched.due = None
            watched.unready = {spec.full_name for spec in watched.nodes}
            variables = {
                STOP_VARIABLE: stop_text(self._stop),
                REPLACED_VARIABLE: f"{name} was replaced ({watched.last})",
            }
            try:
                self.group.start(name, variables)
            except OSError as error:
                self._lost(name, f"cannot be started: {error.strerror}", 1)
                continue
            self._note_start(name)
            self._send_targets()

    def _note_start(self, name: str) -> None:
        watched = self._everyone()[name]
        if watched.health is None and self.group.runs(name):
            watched.health = ProcessHealth(self._rules.health, self._now)

    # ---- the probe

    def _everyone(self) -> dict[str, Watched]:
        return {**self._watched, PROBE: self._probe}

    def _start_probe(self, settled: bool) -> None:
        probe = self._probe
        idle = probe.health is None and probe.due is None and not probe.down
        if idle and (settled or self._now > PROBE_AFTER):
            self.group.add(PROBE, PROBE_COMMAND)
            self._note_start(PROBE)
            self._send_targets()

    def _check_probe(self) -> None:
        """Replace the probe, not the processes, if it reaches no process."""
        running = {n: w.health for n, w in self._watched.items() if w.health is not None}
        findings = [h.finding(self._activity_of(name), self._now) for name, h in running.items()]
        silent = [f is not None and f.condition is Condition.UNREACHABLE for f in findings]
        self._all_silent = bool(silent) and all(silent)
        if self._all_silent and self._probe_trusted and self._probe.health is not None:
            self._probe_trusted = self._all_silent = False
            if self.group.kill(PROBE):
                self._lost(PROBE, "reached no process over DDS", -9)

    def _activity_of(self, name: str) -> Callable[[], Activity]:
        return lambda: self._rules.activity(self.group.pid(name))

    def _send_targets(self) -> None:
        # Before its first heartbeat a process has no DDS endpoints.
        watched = self._watched.items()
        running = [n for n, w in watched if w.health is not None and w.health.responded]
        self.group.send(PROBE, {"targets": {str(self.group.pid(n)): n for n in running}})

    # ---- diagnostics

    def _report(self) -> None:
        if self._probe.health is None:
            return
        entries = [self._entry(name, watched) for name, watched in self._watched.items()]
        for node, why in self._left_out.items():
            ready = {"ready": f"{NEVER}{why}"}
            own = {"level": "ERROR", "name": node[1:], "message": "left out", "values": ready}
            entries.append(dict(own))
        self.group.send(PROBE, {"diagnostics": entries})

    def _entry(self, name: str, watched: Watched) -> dict[str, object]:
        health, values = watched.health, {"restarts": str(watched.budget.total)}
        if watched.last:
            values["last restart"] = watched.last
        if health is not None:
            values["pid"] = str(self.group.pid(name))
            values["time since heartbeat [s]"] = f"{health.silence(self._now):.1f}"
            values["echo over DDS [s]"] = f"{watched.delay:.2f}"
        if watched.down or name in self.group.failed:
            level, message = "ERROR", f"down: {watched.down or 'it could not start'}"
        elif watched.finding is not None:
            level = "ERROR"
            message = f"{watched.finding.condition.value}: {watched.finding.text}"
        elif health is None or watched.unready:
            level, message = "WARN", f"being replaced: {watched.last}"
        else:
            level, message = "OK", "running"
        values["nodes"] = ", ".join(node.strip("/") for node in self.nodes_of(name))
        return {"level": level, "name": f"supervisor: {name}", "message": message, "values": values}
