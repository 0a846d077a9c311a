# SPDX-License-Identifier: Apache-2.0
"""Node processes forked from a template (node_template.py), with the methods of ``Popen``."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("node_template.py")
MODULES = ("motion_nodes.nodes", "motion_nodes.cli.main")
"""Modules that can be forked."""
AS_THEY_ARE = ("up", "demo")
"""Commands of ``motion`` that start a template themselves; they are not forked."""
REPLY_TIMEOUT = 120.0
"""Timeout of replies, with imports on a busy machine [s]."""


class NodeTemplate:
    """The template process of this test worker."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._connection, theirs = socket.socketpair()
        os.set_inheritable(theirs.fileno(), True)
        self.process = subprocess.Popen(
            [sys.executable, str(TEMPLATE), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=self.environment,
            start_new_session=True,
        )
        theirs.close()
        self._lock = threading.RLock()
        """Tests may run commands in several threads."""
        self._buffer = b""
        self._count = 0
        self.pids: dict[int, int] = {}
        self.codes: dict[int, int] = {}

    def fork(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path | None
    ) -> int:
        """Start ``python -m MODULE WORDS``; return its number in the template."""
        request = {
            "module": command[2],
            "words": list(command[3:]),
            "log": str(log),
            "environment": dict(environment),
            "folder": "" if folder is None else str(folder),
        }
        with self._lock:
            self._count += 1
            self._wait_for_fork(request | {"id": self._count})
            return self._count

    def _wait_for_fork(self, request: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        end = time.monotonic() + REPLY_TIMEOUT
        while request["id"] not in self.pids:
            assert self.process.poll() is None, "the template of nodes has ended"
            assert time.monotonic() < end, "the template of nodes does not answer"
            self.receive(0.1)

    def receive(self, timeout: float = 0.0) -> None:
        """Read replies that arrive within a time [s]."""
        with self._lock:
            self._receive(timeout)

    def _receive(self, timeout: float) -> None:
        while select.select([self._connection], [], [], timeout)[0]:
            received = self._connection.recv(1 << 16)
            if not received:
                return
            self._buffer += received
            while b"\n" in self._buffer:
                line, self._buffer = self._buffer.split(b"\n", 1)
                reply = json.loads(line)
                into, value = ("pids", "pid") if "pid" in reply else ("codes", "code")
                getattr(self, into)[reply["id"]] = reply[value]
            timeout = 0.0


class ForkedProcess:
    """One process of a template."""

    def __init__(
        self,
        template: NodeTemplate,
        command: Sequence[str],
        log: Path,
        environment: dict[str, str],
        folder: Path | None,
    ) -> None:
        self._template = template
        log.touch()
        self._number = template.fork(command, log, environment, folder)
        self.pid = template.pids[self._number]

    def poll(self) -> int | None:
        self._template.receive()
        return self._template.codes.get(self._number)

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = end - time.monotonic()
            if left <= 0.0:
                raise subprocess.TimeoutExpired("node", timeout)
            self._template.receive(min(left, 0.1))
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


_TEMPLATES: list[NodeTemplate] = []
_MAKING = threading.Lock()


def template_pids() -> set[int]:
    """Return the process ids of this worker's templates."""
    return {template.process.pid for template in _TEMPLATES}


def node_template(environment: Mapping[str, str]) -> NodeTemplate | None:
    """Return this worker's template for an environment; None if it has another one."""
    with _MAKING:
        if not _TEMPLATES:
            _TEMPLATES.append(NodeTemplate(environment))
    template = _TEMPLATES[0]
    return template if template.environment == dict(environment) else None


def forked(
    command: Sequence[str], log: Path, environment: dict[str, str], folder: Path | None
) -> Any:
    """Return a process forked for the command of a node, or for ``motion``.

    Args:
        command: command line.
        log: file of its output.
        environment: all of its variables.
        folder: working directory; None: that of this process.

    Returns:
        The process; None if it cannot be forked.
    """
    if list(command[:2]) != [sys.executable, "-m"] or len(command) < 4:
        return None
    if command[3] in AS_THEY_ARE:
        return None
    template = node_template(environment) if command[2] in MODULES else None
    if template is None:
        return None
    return ForkedProcess(template, command, log, environment, folder)
