# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of the suite, reads their reports, and stops them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from motion_nodes.bringup.process_template import (
    FORK_TIMEOUT,
    IMPORT_TIMEOUT,
    ForkedProcess,
    ProcessTemplate,
    reap_orphans,
)
from motion_nodes.extras import suite_environment
from motion_nodes.kernels.parent_death import die_with_parent
from motion_nodes.ros.process_reports import (
    CONTROL_VARIABLE,
    NEWS_VARIABLE,
    News,
    Record,
    read_news,
    read_record,
)

STOP_GRACE = 6.0
"""[s] Timeout after SIGINT, after which a process is killed."""

STACKS_SIGNAL, STACKS_TIME = signal.SIGUSR1, 0.1
"""Signal on which nodes print their stacks (ros/run.py), and the time for it [s]."""

KILL_GRACE = 1.0
"""[s] Timeout after SIGKILL; a process that has not ended by then is blocked in the kernel."""

Report = News | Record
Process = subprocess.Popen[bytes] | ForkedProcess


@dataclass
class _Running:
    process: Process
    control: int
    """File descriptor on which the process receives messages."""


def how_it_ended(code: int) -> str:
    """Return an exit code of :mod:`subprocess` as text."""
    return f"ended with signal {-code}" if code < 0 else f"ended with code {code}"


class ProcessEvents(NamedTuple):
    """What :meth:`ProcessGroup.watch` calls."""

    report: Callable[[str, Report], None] | None = None
    """Called with the name of a process and its report."""
    end: Callable[[str, int], None] | None = None
    """Called with the name and the exit code of a process that ended by itself; None: print it and
    add it to :attr:`ProcessGroup.failed`."""


class ProcessGroup:
    """Group of processes; leaving the context stops all of them.

    Each has two pipes: a shared one, on which nodes report to this process, and its own, on which
    it receives messages (:mod:`motion_nodes.ros.process_reports`).
    """

    def __init__(
        self,
        commands: Mapping[str, list[str]],
        print_line: Callable[[str], None],
        *,
        environment: Mapping[str, str] | None = None,
        events: ProcessEvents | None = None,
        template: ProcessTemplate | None = None,
        drivers: Collection[str] = (),
    ) -> None:
        """Create the group; processes start when the context is entered.

        Args:
            commands: a name for each process, and its command line.
            print_line: prints one line.
            environment: of the processes; None: that of this process.
            events: what :meth:`watch` calls; None: nothing but the defaults.
            template: forks the processes; None: each is started by its command line.
            drivers: names of the processes that are stopped after all others, so that
                controllers can brake the robots.
        """
        self._drivers = frozenset(drivers)
        self._commands = dict(commands)
        self._print_line = print_line
        self._environment = dict(os.environ if environment is None else environment)
        # Restarted processes keep what is chosen once, such as the address of a page.
        self._environment = suite_environment() | self._environment
        self._template, self._fork_timeout = template, IMPORT_TIMEOUT
        events = events or ProcessEvents()
        self._on_report = events.report
        self._on_end = events.end or self._note_end
        self._reports: tuple[int, int] | None = None
        self._unread = b""
        self._names: dict[int, str] = {}
        self._running: dict[str, _Running] = {}
        self.failed: dict[str, int] = {}
        """Exit code by name, of processes that ended by themselves and were not restarted."""

    def __enter__(self) -> ProcessGroup:
        reader, writer = self._reports = os.pipe()
        for end in (reader, writer):
            os.set_blocking(end, False)
        for name in self._commands:
            self.start(name)
        self._fork_timeout = FORK_TIMEOUT
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for end in self._reports or ():
            os.close(end)
        self._reports = None

    def pid(self, name: str) -> int:
        """Return the process id of a running process."""
        return self._running[name].process.pid

    def runs(self, name: str) -> bool:
        """Return whether a process was started and has not been seen to end."""
        return name in self._running

    def add(self, name: str, command: list[str]) -> None:
        """Add a process, and start it."""
        self._commands[name] = command
        self.start(name)

    def end(self, name: str) -> None:
        """Stop a process, if it is running; its end is not reported to ``on_end``."""
        if self.runs(name):
            self._stop([name])

    def start(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a process that is not running.

        Args:
            name: of the process.
            environment: variables in addition to those of all processes.

        Raises:
            OSError: it cannot be started, for example without memory.
        """
        assert self._reports is not None, "the context was not entered"
        control, writer = os.pipe()
        os.set_blocking(writer, False)
        variables = {**self._environment, **(environment or {})}
        try:
            process = self._create(
                self._commands[name],
                variables,
                {NEWS_VARIABLE: self._reports[1], CONTROL_VARIABLE: control},
            )
        except OSError:
            os.close(writer)
            raise
        finally:
            os.close(control)
        self._running[name] = _Running(process, writer)
        self._names[process.pid] = name

    def _create(
        self, command: list[str], environment: Mapping[str, str], pipes: Mapping[str, int]
    ) -> Process:
        forked = self._template and self._template.fork(
            command, environment, pipes, self._fork_timeout
        )
        return forked or subprocess.Popen(
            command,
            env={**environment, **{name: str(number) for name, number in pipes.items()}},
            start_new_session=True,
            preexec_fn=die_with_parent,
            pass_fds=list(pipes.values()),
        )

    def send(self, name: str, content: Mapping[str, Any]) -> None:
        """Send a line of JSON to a process; never blocks, even if the process does not read."""
        running = self._running.get(name)
        if running is not None:
            with contextlib.suppress(OSError):
                os.write(running.control, json.dumps(content).encode() + b"\n")

    def watch(self) -> bool:
        """Process reports and ended processes; return False if none is running."""
        codes = {name: running.process.poll() for name, running in self._running.items()}
        # After the poll, so that the last report of a process comes before its end.
        self._read_reports()
        for name, code in codes.items():
            if code is not None:
                self._forget(name)
                self._on_end(name, code)
        if self._template is not None:
            reap_orphans([running.process.pid for running in self._running.values()])
        return bool(self._running)

    def print_stacks(self, name: str) -> None:
        """Make a process print the Python stacks of its threads to stderr, for bug reports."""
        _signal(self._running[name].process, STACKS_SIGNAL)
        time.sleep(STACKS_TIME)

    def kill(self, name: str) -> bool:
        """Kill a process; return False if it is blocked in the kernel.

        Its end is not reported to ``on_end``.
        """
        running = self._running[name]
        _signal(running.process, signal.SIGKILL)
        try:
            running.process.wait(KILL_GRACE)
        except subprocess.TimeoutExpired:
            return False
        self._forget(name)
        return True

    def stop(self) -> None:
        """Stop all processes, drivers last; after a timeout kill those that remain."""
        self._stop(self._running.keys() - self._drivers)
        self._stop(self._running.keys() & self._drivers)

    def _stop(self, names: Collection[str]) -> None:
        for name in names:
            _signal(self._running[name].process, signal.SIGINT)
        deadline = time.monotonic() + STOP_GRACE
        for name in names:
            running = self._running[name]
            try:
                running.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._print_line(f"{name} did not stop within {STOP_GRACE:.0f} s and was killed")
                if self.kill(name):
                    continue
                self._print_line(f"{name} cannot be killed: blocked in the kernel")
            self._forget(name)

    def _forget(self, name: str) -> None:
        os.close(self._running.pop(name).control)

    def _note_end(self, name: str, code: int) -> None:
        self._print_line(f"{name} {how_it_ended(code)}")
        self.failed[name] = code

    def _read_reports(self) -> None:
        assert self._reports is not None, "the context was not entered"
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._reports[0], 1 << 16):
                self._unread += part
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._dispatch(line)

    def _dispatch(self, line: bytes) -> None:
        report: Report | None = read_news(line) or read_record(line)
        name = None if report is None else self._names.get(report.pid)
        # Reports of a killed process do not apply to its replacement.
        current = name in self._running and self._running[name].process.pid
        if report is None or name is None or current != report.pid or self._on_report is None:
            return
        self._on_report(name, report)


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
