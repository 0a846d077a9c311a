# SPDX-License-Identifier: Apache-2.0
"""Container: several nodes in one process with a common executor, to save memory.

Its option ``--nodes`` is a JSON list of ``{"executable": ..., "ros_args": [...]}``, written by the
bring-up (motion_nodes/bringup/compose.py). Without it nodes are loaded at run time, as into the
containers of rclcpp (motion_nodes/nodes/component_manager.py).
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys

from motion_nodes.errors import InvalidConfig
from motion_nodes.nodes.registry import node_class
from motion_nodes.ros.process_reports import FAILED, report_state
from motion_nodes.ros.run import run_nodes


def read_nodes(arguments: list[str]) -> list[tuple[str, list[str]]]:
    """Return executable and ROS arguments of each node on the command line.

    Raises:
        InvalidConfig: ``--nodes`` is invalid.
    """
    usage = "container needs --nodes with a JSON list of {executable, ros_args}"
    if "--nodes" not in arguments[:-1]:
        raise InvalidConfig(usage)
    try:
        listed = json.loads(arguments[arguments.index("--nodes") + 1])
        nodes = [(str(entry["executable"]), list(entry["ros_args"])) for entry in listed]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidConfig(f"{usage}; it cannot be parsed: {error}") from None
    if not nodes:
        raise InvalidConfig(f"{usage}; the list is empty")
    return nodes


def log_levels(nodes: list[tuple[str, list[str]]]) -> list[str]:
    """Return the nodes' log levels as arguments of the process; rcl reads no others."""
    levels = ["--ros-args"]
    for _, args in nodes:
        for flag, value in itertools.pairwise(args):
            if flag == "--log-level":
                levels += [flag, value]
    return levels


def main() -> None:
    """Run the nodes of the command line, or those that are loaded, until a stop signal."""
    try:
        if "--nodes" in sys.argv:
            nodes = read_nodes(sys.argv[1:])
            make = [functools.partial(node_class(name), ros_args=args) for name, args in nodes]
            run = functools.partial(run_nodes, make, args=log_levels(nodes))
        else:
            from motion_nodes.nodes.component_manager import ComponentManager, interfaces

            interfaces()
            run = functools.partial(run_nodes, (), manager=ComponentManager)
    except Exception as error:
        print(f"container: {error}", file=sys.stderr)
        report_state(FAILED, text=f"{type(error).__name__}: {error}")
        sys.exit(2)
    code = run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
