# SPDX-License-Identifier: Apache-2.0
"""Starts the suite's processes, watches them, and stops them in order."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from motion_nodes.ros.readiness import VARIABLE, News, read_news
from motion_nodes.view.page_token import TOKEN_VARIABLE, page_token

STOP_GRACE = 6.0
"""[s] A process that has not ended this long after SIGINT is killed."""

RESPAWN_PAUSE = 1.0
"""[s] Pause before an ended process is started again."""

_PR_SET_PDEATHSIG = 1


@dataclass
class _Running:
    command: list[str]
    process: subprocess.Popen[bytes]


class ProcessGroup:
    """Processes that belong together; leaving the context stops all of them.

    A process that ends by itself is reported; the others go on, and it is started again where
    ``respawn`` says so.
    """

    def __init__(
        self,
        commands: Mapping[str, list[str]],
        say: Callable[[str], None],
        *,
        respawn: bool = False,
        environment: Mapping[str, str] | None = None,
        hear: Callable[[str, News], None] | None = None,
    ) -> None:
        """Prepare; nothing runs before the context is entered.

        Args:
            commands: a name for each process, and its command line.
            say: takes one line of news.
            respawn: start a process again when it ends by itself.
            environment: of the processes; None: this one's.
            hear: takes news of nodes, with the name of their process; called by :meth:`watch`.
        """
        self._commands = dict(commands)
        self._say = say
        self._respawn = respawn
        self._environment = dict(os.environ if environment is None else environment)
        # A viewer that is restarted keeps the address of its page.
        self._environment.setdefault(TOKEN_VARIABLE, page_token())
        self._hear = hear
        self._news: tuple[int, int] | None = None
        self._unread = b""
        self._names: dict[int, str] = {}
        self._running: dict[str, _Running] = {}
        self._due: dict[str, float] = {}
        self.failed: dict[str, int] = {}
        """Exit code by name, of processes that ended by themselves and were not started again."""

    def __enter__(self) -> ProcessGroup:
        """Start all processes."""
        if self._hear is not None:
            self._news = os.pipe()
            for end in self._news:
                os.set_blocking(end, False)
            self._environment[VARIABLE] = str(self._news[1])
        for name in self._commands:
            self._start(name)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all processes."""
        self.stop()
        for end in self._news or ():
            os.close(end)
        self._news = None

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the processes that run."""
        return tuple(n for n, r in self._running.items() if r.process.poll() is None)

    def pid(self, name: str) -> int:
        """Return the process id of a running process."""
        return self._running[name].process.pid

    def watch(self) -> bool:
        """Look once after all processes; False when none runs and none will."""
        codes = {name: running.process.poll() for name, running in self._running.items()}
        # After the poll, so that the last words of a process come before the news of its end.
        self._read_news()
        for name, code in codes.items():
            if code is None:
                continue
            del self._running[name]
            how = f"signal {-code}" if code < 0 else f"code {code}"
            if self._respawn:
                self._say(f"{name} ended with {how}; starting it again")
                self._due[name] = time.monotonic() + RESPAWN_PAUSE
            else:
                self._say(f"{name} ended with {how}")
                self.failed[name] = code
        for name, due in list(self._due.items()):
            if time.monotonic() >= due:
                del self._due[name]
                self._start(name)
        return bool(self._running or self._due)

    def stop(self) -> None:
        """Ask all to stop, wait for them, and kill what does not."""
        self._due.clear()
        for running in self._running.values():
            _signal(running.process, signal.SIGINT)
        deadline = time.monotonic() + STOP_GRACE
        for name, running in self._running.items():
            try:
                running.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._say(f"{name} did not stop within {STOP_GRACE:.0f} s and was killed")
                _signal(running.process, signal.SIGKILL)
                running.process.wait()
        self._running.clear()

    def _start(self, name: str) -> None:
        command = self._commands[name]
        process = subprocess.Popen(
            command,
            env=self._environment,
            start_new_session=True,
            preexec_fn=_die_with_parent,
            pass_fds=self._news[1:] if self._news else (),
        )
        self._running[name] = _Running(command, process)
        self._names[process.pid] = name

    def _read_news(self) -> None:
        if self._news is None or self._hear is None:
            return
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._news[0], 1 << 16):
                self._unread += part
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            news = read_news(line)
            if news is not None and news.pid in self._names:
                self._hear(self._names[news.pid], news)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _die_with_parent() -> None:
    """Have the kernel send SIGTERM to this child when its parent dies, however it dies."""
    with contextlib.suppress(OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
