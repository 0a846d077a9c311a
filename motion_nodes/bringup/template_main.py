# SPDX-License-Identifier: Apache-2.0
"""The template process of a suite: imports modules of nodes once, and forks the suite's processes.

Its protocol and purpose are described in ``process_template.py``. The modules of a requested
process are imported here first, for later forks and restarts. Imported modules must not start
threads, open connections or read process-specific environment variables.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from motion_nodes import kernels
from motion_nodes.bringup.forked_call import fork
from motion_nodes.kernels.parent_death import die_with_parent
from motion_nodes.ros.startup_memory import release_memory

SHARED = ("numpy", "rclpy", "rclpy.action", "rosidl_generator_py", "motion_nodes.ros.run")
LATER = {
    "motion_nodes.core.reactive.policy_motion": (
        "motion_nodes.kernels.collision.path_sweep",
        "motion_nodes.core.scene.mesh_file",
    ),
}
"""Modules that a module imports on first use; imported here to be shared."""
REQUEST_ROOM = 1 << 18
_ARG_START, _ARG_END = 47, 48  # fields of /proc/PID/stat, from 0


class ProcessTitle:
    """Command line of this process as visible to other processes."""

    def __init__(self) -> None:
        text = Path("/proc/self/stat").read_text()
        fields = ["", "", *text[text.rindex(")") + 2 :].split()]
        self._begin = int(fields[_ARG_START])
        self._room = int(fields[_ARG_END]) - self._begin

    def set(self, words: Sequence[str]) -> None:
        """Replace the command line, truncated to the available size."""
        text = "\0".join(words).encode()[: self._room - 1]
        ctypes.memmove(self._begin, text.ljust(self._room, b"\0"), self._room)


def modules_of(command: Sequence[str]) -> list[str]:
    """Return the modules imported by a process of nodes; empty for other processes.

    Args:
        command: ``python -m MODULE ARGUMENTS``.
    """
    if command[2] != "motion_nodes.nodes" or len(command) < 4:
        return []
    executables = [command[3]]
    if command[3] == "container":
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
            executables += [entry["executable"] for entry in json.loads(command[5])]
    return [f"motion_nodes.nodes.{name}" for name in executables]


def import_modules(names: Sequence[str]) -> None:
    """Import modules; errors are left to the processes that need them, which report them."""
    before = len(sys.modules)
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if len(sys.modules) == before:
        return  # restarts must not be delayed
    for name in [late for known, lates in LATER.items() if known in sys.modules for late in lates]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    for package in [
        name.removesuffix(".msg") for name in sys.modules if name.endswith("_msgs.msg")
    ]:
        with contextlib.suppress(Exception):  # libraries with the C types of messages
            importlib.import_module(f"{package}.{package}_s__rosidl_typesupport_c")
    if jit := sys.modules.get("motion_nodes.kernels.jit"):
        with contextlib.suppress(Exception):
            jit.prepare_to_load()
    gc.collect()
    gc.freeze()  # Pages of these objects stay shared.
    release_memory()


def fork_for(parent: int) -> int:
    """Fork a child of the template's parent.

    The child is forked by an intermediate process that ends at once, so that it is adopted by the
    parent, which is a subreaper.

    Args:
        parent: process id of the template's parent.

    Returns:
        0 in the child; in the template the child's process id, -1 where it could not be forked.
    """
    reader, writer = os.pipe()
    between = fork()
    if between:
        os.close(writer)
        os.waitpid(between, 0)
        pid = int(os.read(reader, 32) or b"-1")
        os.close(reader)
        return pid
    between = os.getpid()
    with contextlib.suppress(OSError):
        if child := fork():
            os.write(writer, str(child).encode())
    if os.getpid() == between:
        os._exit(0)
    os.close(reader)
    os.close(writer)
    while os.getppid() == between:
        time.sleep(0.0002)
    die_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    os.setsid()
    return 0


def become(
    command: Sequence[str], environment: Mapping[str, str], pipes: Mapping[str, int]
) -> None:
    """Run a command line in a fork."""
    os.environ.clear()
    os.environ.update(environment)
    os.environ.update({name: str(number) for name, number in pipes.items()})
    # As in stop_quietly, which the module calls: until then Ctrl-C ends it without a traceback.
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    sys.argv = [command[2], *command[3:]]
    runpy.run_module(command[2], run_name="__main__", alter_sys=True)


def main() -> None:
    """Serve requests until the connection ends."""
    parent = os.getppid()
    # Blocked instead of ignored, so that a stop that meets a new fork waits for its handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    connection = socket.socket(fileno=int(sys.argv[1]))
    title = ProcessTitle()
    title.set([sys.executable, "-m", "motion_nodes.bringup.template_main"])
    kernels.uses_blas = False
    import_modules(SHARED)
    while True:
        data, received, _, _ = socket.recv_fds(connection, REQUEST_ROOM, 4)
        if not data:
            return
        request = json.loads(data)
        command = request["command"]
        import_modules(modules_of(command))
        pid = fork_for(parent)
        if pid == 0:
            connection.close()
            title.set(command)
            consent, *descriptors = received
            if not os.read(consent, 1):
                os._exit(0)
            os.close(consent)
            pipes = dict(zip(request["pipes"], descriptors, strict=True))
            become(command, request["environment"], pipes)
            return
        for number in received:
            os.close(number)
        connection.send(str(max(pid, 0)).encode())


if __name__ == "__main__":
    main()
