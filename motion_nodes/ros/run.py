# SPDX-License-Identifier: Apache-2.0
"""Runs nodes in this process: one executor for all slow parts, signals, clean exit.

All transitions, services and timers run in one thread, the executor's; each active node has a loop
of its own; the main thread only waits for a signal. So a signal stops what moves at once, even
while the executor compiles kernels.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.exceptions import InvalidNamespaceException, InvalidNodeNameException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.logging import get_logger
from rclpy.signals import SignalHandlerOptions

from motion_nodes.errors import MotionError
from motion_nodes.ros import signals
from motion_nodes.ros.concurrency.guarded_executor import GuardedExecutor
from motion_nodes.ros.dds_security import check_security, explained
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.readiness import FAILED, tell

SWITCH_INTERVAL = 0.0005
"""[s] How long a thread may keep Python's lock while another waits; the default of 5 ms would
make a control loop wait that long for a busy service."""

EXIT_DEADLINE = 5.0
"""[s] A process that has not left this long after a stop was asked for is ended."""

EXECUTOR_GRACE = 1.5
"""[s] How long a stop waits for a service or a compilation under way."""

USER_ERRORS = (MotionError, RCLError, InvalidNamespaceException, InvalidNodeNameException)
"""What wrong arguments can cause: told in one line, without a traceback."""


def run_nodes(make: Sequence[Callable[[], MotionNode[Any]]], args: list[str] | None = None) -> int:
    """Create nodes, start them, serve until a signal comes, and stop them.

    A node whose tick raises comes back by itself (``fault_recovery.py``); the others go on.

    Args:
        make: one call per node, made after ``rclpy.init``.
        args: ROS arguments of the process; None takes ``sys.argv``.

    Returns:
        Exit code: 0 after a stop that was asked for, 1 when a node could not start or memory
        ran out.
    """
    signals.stop_quietly()
    sys.setswitchinterval(SWITCH_INTERVAL)
    os.environ.setdefault("HOME", "/")
    threading.Thread(target=_end_if_stuck, name="exit deadline", daemon=True).start()
    failed = threading.Event()
    nodes: list[MotionNode[Any]] = []
    try:
        check_security()
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        signals.nodes_exist()
        for create in make:
            if signals.STOP.is_set():
                break
            nodes.append(create())
            nodes[-1].on_crash = functools.partial(_fail, failed)
    except USER_ERRORS as error:
        text = explained(re.sub(r",? at /\S+:\d+", "", " ".join(str(error).split())))
        print(f"cannot start: {text}", file=sys.stderr, flush=True)
        tell(FAILED, text=text)
        _fail(failed)
    except Exception as error:
        traceback.print_exc()
        tell(FAILED, text=f"{type(error).__name__}: {error}")
        _fail(failed)
    executor = GuardedExecutor() if rclpy.ok() else None
    if executor is not None:
        _serve_until_stopped(executor, nodes, failed)
    return 1 if failed.is_set() else 0


def _serve_until_stopped(
    executor: SingleThreadedExecutor, nodes: list[MotionNode[Any]], failed: threading.Event
) -> None:
    for node in nodes:
        executor.add_node(node)
    spinner = threading.Thread(
        target=_serve, args=(executor, nodes, failed), name="executor", daemon=True
    )
    spinner.start()
    signals.STOP.wait()
    for node in nodes:
        node.stop()
    executor.shutdown(timeout_sec=EXECUTOR_GRACE)
    spinner.join(EXECUTOR_GRACE)
    if spinner.is_alive():
        # It compiles, or a service hangs. Nothing moves any more, so the process may just end.
        return
    for node in nodes:
        node.destroy_node()
    rclpy.try_shutdown()


def _fail(failed: threading.Event) -> None:
    failed.set()
    signals.STOP.set()


def _serve(
    executor: SingleThreadedExecutor, nodes: list[MotionNode[Any]], failed: threading.Event
) -> None:
    """Start the nodes that start by themselves, then run what clients ask for."""
    for node in nodes:
        if signals.STOP.is_set():
            return
        if node.autostart and not _start(node):
            tell(FAILED, node.get_fully_qualified_name(), node.failure or "")
            _fail(failed)
            return
    while not signals.STOP.is_set():
        try:
            executor.spin()
            return
        except ExternalShutdownException:
            return
        except MemoryError:
            traceback.print_exc()
            _fail(failed)
            return
        except Exception:
            if signals.STOP.is_set():
                # The executor's shutdown takes away what its spinning still uses.
                return
            # One failed callback must not leave the node without services and diagnostics.
            get_logger("motion_nodes").error(f"a callback failed:\n{traceback.format_exc()}")


def _start(node: MotionNode[Any]) -> bool:
    node.trigger_configure()
    if node.failure is None and not signals.STOP.is_set():
        node.trigger_activate()
    return node.failure is None or signals.STOP.is_set()


def _end_if_stuck() -> None:
    signals.STOP.wait()
    time.sleep(EXIT_DEADLINE)
    print(f"did not stop within {EXIT_DEADLINE:g} s; ended", file=sys.stderr, flush=True)
    os._exit(1)


def run_node(node_type: Callable[[], MotionNode[Any]]) -> None:
    """Run one node as a process of its own, and exit."""
    code = run_nodes([node_type])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
