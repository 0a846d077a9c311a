# SPDX-License-Identifier: Apache-2.0
"""Runs nodes in this process: one executor for all slow parts, signals, clean exit."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from motion_nodes.errors import MotionError
from motion_nodes.ros import signals
from motion_nodes.ros.node import MotionNode

SWITCH_INTERVAL = 0.0005
"""[s] How long a thread may keep Python's lock while another waits; the default of 5 ms would
make a control loop wait that long for a busy service."""

EXIT_DEADLINE = 5.0
"""[s] A process that has not left this long after a stop is ended."""


def run_nodes(make: Sequence[Callable[[], MotionNode[Any]]], args: list[str] | None = None) -> int:
    """Create nodes, start them, serve until a signal comes or one crashes, and stop them.

    Args:
        make: one call per node, made after ``rclpy.init``.
        args: ROS arguments of the process; None takes ``sys.argv``.

    Returns:
        Exit code: 0 after a stop that was asked for, 1 when a node could not start or crashed.
    """
    signals.stop_quietly()
    sys.setswitchinterval(SWITCH_INTERVAL)
    os.environ.setdefault("HOME", "/")
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    signals.nodes_exist()
    failed = threading.Event()
    nodes: list[MotionNode[Any]] = []
    executor = SingleThreadedExecutor()
    spinner = threading.Thread(target=_spin, args=(executor,), name="executor", daemon=True)
    try:
        for create in make:
            if signals.STOP.is_set():
                break
            node = create()
            node.on_crash = functools.partial(_fail, failed)
            nodes.append(node)
            executor.add_node(node)
        spinner.start()
        for node in nodes:
            if not signals.STOP.is_set() and not _autostart(node):
                failed.set()
                signals.STOP.set()
        signals.STOP.wait()
    except MotionError as error:
        rclpy.logging.get_logger("motion_nodes").fatal(str(error))
        failed.set()
    finally:
        _leave(executor, nodes, spinner)
    return 1 if failed.is_set() else 0


def _fail(failed: threading.Event) -> None:
    failed.set()
    signals.STOP.set()


def _spin(executor: SingleThreadedExecutor) -> None:
    try:
        executor.spin()
    except ExternalShutdownException:
        pass


def _autostart(node: MotionNode[Any]) -> bool:
    if not node.get_parameter("autostart").value:
        return True
    node.trigger_configure()
    if node.failure is None:
        node.trigger_activate()
    return node.failure is None


def _leave(
    executor: SingleThreadedExecutor, nodes: list[MotionNode[Any]], spinner: threading.Thread
) -> None:
    watchdog = threading.Timer(EXIT_DEADLINE, os._exit, (1,))
    watchdog.daemon = True
    watchdog.start()
    for node in nodes:
        if node.state_label == "active":
            node.trigger_deactivate()
    executor.shutdown(timeout_sec=2.0)
    if spinner.is_alive():
        spinner.join(2.0)
    for node in nodes:
        node.destroy_node()
    rclpy.try_shutdown()
    watchdog.cancel()


def run_node(node_type: Callable[[], MotionNode[Any]]) -> None:
    """Run one node as a process of its own, and exit."""
    code = run_nodes([node_type])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
