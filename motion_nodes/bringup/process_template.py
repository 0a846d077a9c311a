# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of a suite as forks of a template process that has imported their modules.

The imports of a process of nodes take a second of processor time, and memory. The template process
(``template_main.py``) imports them once; its forks share the memory. They are children of this
process, as with :mod:`subprocess`.

Imports little besides the standard library, so that the template can start first.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from motion_nodes.kernels.parent_death import die_with_parent

TITLE_ROOM = 16384
"""Bytes reserved for the command lines of forks in ``ps``."""

IMPORT_TIMEOUT, FORK_TIMEOUT = 120.0, 2.0
"""[s] Timeouts of a fork: with imports, and with modules that are already imported."""

_PR_SET_CHILD_SUBREAPER = 36


class ForkedProcess:
    """A child process that was forked by the template; as ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # reaped elsewhere; as in subprocess
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end within the timeout [s].
        """
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class ProcessTemplate:
    """The template process; it is killed when the context is left, its forks are not."""

    def __init__(self) -> None:
        """Start it; the imports common to all nodes begin at once."""
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Forks, whose parent (an intermediate process) ends at once, become children of this one.
        _adopt_orphans(True)
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-m", "motion_nodes.bringup.template_main", str(theirs.fileno()),
             " " * TITLE_ROOM],
            start_new_session=True,
            preexec_fn=die_with_parent,
            pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()

    def __enter__(self) -> ProcessTemplate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id of the template; 0 after it was abandoned."""
        return 0 if self._process is None else self._process.pid

    def fork(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        pipes: Mapping[str, int],
        timeout: float = IMPORT_TIMEOUT,
    ) -> ForkedProcess | None:
        """Start a process.

        Args:
            command: its command line.
            environment: its complete environment.
            pipes: file descriptors that it inherits, by the variable that contains their numbers.
            timeout: of the fork [s]; when it expires the template is abandoned.

        Returns:
            The process; None if it must be started without the template: its command is not of the
            form ``python -m motion_nodes...``, or the template was lost.
        """
        if self._process is None or not _is_ours(command):
            return None
        request = {"command": list(command), "environment": dict(environment), "pipes": list(pipes)}
        reader, writer = os.pipe()
        try:
            message = json.dumps(request).encode()
            socket.send_fds(self._connection, [message], [reader, *pipes.values()])
            pid = self._reply(timeout)
            if pid:
                os.write(writer, b"1")  # A fork without this acknowledgement exits.
                return ForkedProcess(pid)
        except OSError:
            pass
        finally:
            os.close(reader)
            os.close(writer)
        self.close()
        return None

    def close(self) -> None:
        """Kill the template; later forks return None."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._connection.close()
            _adopt_orphans(False)

    def _reply(self, timeout: float) -> int:
        """Return the process id of the fork; 0 without one."""
        if not select.select([self._connection], [], [], timeout)[0]:
            return 0
        return int(self._connection.recv(64) or b"0")


def reap_orphans(own: Sequence[int]) -> None:
    """Reap one ended process that became a child of this one when its parent ended.

    Args:
        own: children whose exit codes are read by others.
    """
    with contextlib.suppress(ChildProcessError):
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None and ended.si_pid not in own:
            os.waitpid(ended.si_pid, os.WNOHANG)


def _adopt_orphans(adopt: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def _is_ours(command: Sequence[str]) -> bool:
    return (
        list(command[:2]) == [sys.executable, "-m"]
        and len(command) > 2
        and command[2].split(".")[0] == "motion_nodes"
    )
