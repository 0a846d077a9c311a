# SPDX-License-Identifier: Apache-2.0
"""A process with the imports of nodes, which forks a node for each request.

A node of the suite runs in its own process as if started by ``python -m motion_nodes.nodes``, and
a command as if by ``python -m motion_nodes.cli.main``, but its imports, which take more than a
second of processor time, are done once per test worker. Requests are lines of JSON on a socket:
``id``, ``module``, ``words``, ``environment``, ``log``, ``folder``. Replies are ``id`` with
``pid``, and ``id`` with ``code`` when the process has ended.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from motion_nodes.kernels.parent_death import die_with_parent

PRELOADED = (
    *("numpy", "numba", "llvmlite.binding", "rclpy", "rclpy.action", "mujoco"),
    *(
        f"motion_nodes.nodes.{name}"
        for name in (
            *("articulation_controller", "ik_service", "rmpflow_policy", "rrt_planner"),
            *("trajectory_generator", "mujoco_sim", "mock_sim", "robot_state"),
            *("differential_base", "base_navigator", "controller_manager", "container"),
        )
    ),
    "motion_nodes.cli.main",
)
"""Modules without threads or connections of their own."""


def end_with_parent() -> None:
    """Make the kernel end this process with its parent; undo ``nohup``."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    die_with_parent()


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork processes until the connection ends; return, in each of them, its request."""
    children: dict[int, int] = {}
    ended, wake = os.pipe()
    for end in (ended, wake):
        os.set_blocking(end, False)
    before = signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    buffer = b""
    while True:
        select.select([connection, ended], [], [])
        with contextlib.suppress(BlockingIOError):
            os.read(ended, 4096)
        reap(children, connection)
        with contextlib.suppress(BlockingIOError):
            received = connection.recv(1 << 20)
            if not received:
                os._exit(0)
            buffer += received
        while b"\n" in buffer:
            line, buffer = buffer.split(b"\n", 1)
            request = json.loads(line)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, before)
                for end in (ended, wake):
                    os.close(end)
                connection.close()
                become(request)
                return dict(request)
            children[pid] = request["id"]
            send(connection, id=request["id"], pid=pid)


def reap(children: dict[int, int], connection: socket.socket) -> None:
    """Report the exit codes of processes that have ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        send(connection, id=children.pop(pid), code=os.waitstatus_to_exitcode(status))


def send(connection: socket.socket, **fields: int) -> None:
    """Send a reply."""
    connection.setblocking(True)
    connection.sendall(json.dumps(fields).encode() + b"\n")
    connection.setblocking(False)


def become(request: dict[str, Any]) -> None:
    """Give this process its own session, environment, folder and output."""
    os.setsid()
    end_with_parent()
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(str(request["log"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for number, file in ((0, nothing), (1, log), (2, log)):
        os.dup2(file, number)
    os.close(nothing)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environment"])
    if request["folder"]:
        os.chdir(request["folder"])


def main() -> None:
    """Serve on the socket whose number is the argument."""
    # It ends with its connection. The kernel's signal at the end of a parent is one of its thread's
    # end, which may be that of a pool in a test.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    connection = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    connection.setblocking(False)
    request = serve(connection)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, words = request["module"], request["words"]
    if module == "motion_nodes.cli.main":
        from motion_nodes.cli.main import main as motion

        sys.argv = ["motion", *words]
        motion(words)
        return
    from motion_nodes.nodes.__main__ import run

    sys.argv = [module, *words[1:]]
    run(words[0])


if __name__ == "__main__":
    main()
