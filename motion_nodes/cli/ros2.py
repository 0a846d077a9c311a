# SPDX-License-Identifier: Apache-2.0
"""``motion ros``, and the ``ros2`` command that ``motion setup`` installs if there is none.

Commands, options and defaults are those of ros2cli; the output format differs from it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from motion_nodes.errors import MotionError

_CLIENTS, _PROCESSES = "motion_nodes.nodes.clients.ros2.", "motion_nodes.cli.ros2_processes"
COMMANDS = {
    "action": (_CLIENTS + "calls", "list, inspect and use actions"),
    "daemon": (_PROCESSES, "there is no daemon: every command discovers the graph by itself"),
    "interface": (_CLIENTS + "messages", "show message, service and action types"),
    "launch": (_PROCESSES, "run a launch file of motion_nodes"),
    "lifecycle": (_CLIENTS + "nodes", "list and change the states of managed nodes"),
    "node": (_CLIENTS + "nodes", "list and inspect nodes"),
    "param": (_CLIENTS + "nodes", "read and set parameters of nodes"),
    "pkg": (_PROCESSES, "list installed packages"),
    "run": (_PROCESSES, "run an executable of a package"),
    "service": (_CLIENTS + "calls", "list, inspect and call services"),
    "topic": (_CLIENTS + "topic", "list, inspect, print and publish topics"),
}
"""Module of each command, imported on use, and its help text."""
ELSEWHERE = {
    "bag": "`motion record` and `motion play` record to MCAP and play it",
    "control": "call the services of /controller_manager",
    "doctor": "`motion doctor` checks the installation",
    "wtf": "`motion doctor` checks the installation",
}
"""What serves in place of commands that need a ROS installation."""


def parser_of(command: str, prog: str = "ros2") -> argparse.ArgumentParser:
    """Return the parser of one command, such as ``topic``."""
    module, text = COMMANDS[command]
    parser = argparse.ArgumentParser(prog=f"{prog} {command}", description=text)
    getattr(importlib.import_module(module), f"add_{command}")(parser)
    return parser


def usage(prog: str) -> str:
    """Return the list of commands."""
    lines = [f"usage: {prog} COMMAND ...", ""]
    lines += [f"  {name:10} {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [*lines, "", f"{prog} COMMAND --help lists the verbs and options of a command."]
    )


def run(arguments: Sequence[str], prog: str) -> int:
    """Run a command; return the exit code: 0 done, 1 failed, 2 wrong usage.

    Args:
        arguments: of the command line, without the program.
        prog: name of the program, for help and errors.
    """
    command = arguments[0] if arguments else "--help"
    if command in ("-h", "--help"):
        print(usage(prog))
        return 0
    if command not in COMMANDS:
        other = (
            f" It needs a ROS installation; {ELSEWHERE[command]}." if command in ELSEWHERE else ""
        )
        print(f"{prog}: unknown command '{command}'.{other}\n{usage(prog)}", file=sys.stderr)
        return 2
    parser = parser_of(command, prog)
    options, rest = parser.parse_known_args(list(arguments[1:]))
    if rest:
        torn = str(getattr(options, "values", getattr(options, "goal", ""))).startswith("{")
        hint = "; enclose the message in quotes: '{...}'" if torn else ""
        parser.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
    try:
        return int(options.run(options) or 0)
    except MotionError as error:
        print(f"{prog} {command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def real_ros2() -> Path | None:
    """Return the ros2 executable of a ROS installation on the PATH, outside this environment."""
    own = Path(sys.prefix, "bin").resolve()
    folders = os.environ.get("PATH", "").split(os.pathsep)
    others = os.pathsep.join(f for f in folders if f and Path(f).resolve() != own)
    found = shutil.which("ros2", path=others)
    return Path(found) if found else None


def main() -> int:
    """Run ``ros2``: that of a ROS installation if there is one now, else this one."""
    real = real_ros2()
    if real is not None:
        os.execv(real, [str(real), *sys.argv[1:]])
    if importlib.util.find_spec("ros2cli") is not None:
        return int(importlib.import_module("ros2cli.cli").main() or 0)
    from motion_nodes.cli.ros_setup import ensure_ros

    try:
        ensure_ros()
    except MotionError as error:
        print(f"ros2: {error}", file=sys.stderr)
        return 2
    return run(sys.argv[1:], "ros2")
