# SPDX-License-Identifier: Apache-2.0
"""Runs nodes in this process: one executor, signal handling, clean exit.

Transitions, services and timers of all nodes run in the executor's thread; each active node has a
loop in its own thread; the main thread only waits for a signal. So a signal brakes the robots at
once, even while the executor compiles kernels.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rclpy
from rclpy.exceptions import InvalidNamespaceException, InvalidNodeNameException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from motion_nodes.errors import MotionError
from motion_nodes.ros import signals
from motion_nodes.ros.concurrency.rclpy_internals import GuardedExecutor, RCLError
from motion_nodes.ros.environment import init_arguments
from motion_nodes.ros.heartbeat import HeartbeatThread, supervised
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.process_reports import FAILED, report_state
from motion_nodes.ros.startup_memory import release_memory
from motion_nodes.ros.transports import check_security, choose_transports, explained
from motion_nodes.ros.watchdog import watchdog_time

SWITCH_INTERVAL = 0.0005
"""[s] Interval at which threads release the GIL to waiting ones. The default of 5 ms would delay
control loops by that much while a service is busy."""

EXIT_DEADLINE = 5.0
"""[s] A process that has not exited this long after a signal is terminated."""

EXECUTOR_GRACE = 1.5
"""[s] Timeout of the running service or compilation at shutdown."""

USER_ERRORS = (MotionError, RCLError, InvalidNamespaceException, InvalidNodeNameException)
"""Errors caused by wrong arguments: printed as one line, without a traceback."""


Manager = Callable[[SingleThreadedExecutor, list[MotionNode[Any]], Callable[[], None]], Node]
"""Creates a node that adds and removes nodes of the process: for the executor that spins them, the
list of them, and what ends the process."""


def run_nodes(
    make: Sequence[Callable[[], MotionNode[Any]]],
    args: list[str] | None = None,
    manager: Manager | None = None,
) -> int:
    """Create and start nodes, spin until a signal arrives, brake the robots, and stop the nodes.

    A node whose cycle raises is restarted (``fault_recovery.py``); the others continue.

    Args:
        make: factories of the nodes, called after ``rclpy.init``.
        args: ROS arguments of the process; None for ``sys.argv``.
        manager: creates a node that adds and removes others at run time; None: none does.

    Returns:
        Exit code: 0 after a signal, 1 if a node could not start or memory ran out.
    """
    signals.stop_quietly()
    faulthandler.register(signal.SIGUSR1)  # of the supervisor, before it kills a process
    sys.setswitchinterval(SWITCH_INTERVAL)
    threading.Thread(target=_end_if_stuck, name="exit deadline", daemon=True).start()
    failed = threading.Event()
    nodes: list[MotionNode[Any]] = []
    try:
        check_security()
        watchdog_time()
        types = [getattr(create, "func", create) for create in make]
        choose_transports(images=any(getattr(kind, "handles_images", bool)() for kind in types))
        rclpy.init(args=init_arguments(args), signal_handler_options=SignalHandlerOptions.NO)
        signals.nodes_exist()
        for create in make:
            if signals.STOP.is_set():
                break
            nodes.append(create())
            nodes[-1].on_crash = functools.partial(_fail, failed)
    except USER_ERRORS as error:
        text = explained(re.sub(r",? at /\S+:\d+", "", " ".join(str(error).split())))
        print(f"cannot start: {text}", file=sys.stderr, flush=True)
        report_state(FAILED, _full_name(make, len(nodes)), text)
        _fail(failed)
    except Exception as error:
        traceback.print_exc()
        report_state(FAILED, _full_name(make, len(nodes)), f"{type(error).__name__}: {error}")
        _fail(failed)
    executor = GuardedExecutor() if rclpy.ok() else None
    if executor is not None:
        managers = []
        if manager is not None and not failed.is_set():
            managers.append(manager(executor, nodes, functools.partial(_fail, failed)))
        _serve_until_stopped(executor, nodes, managers, failed)
    return 1 if failed.is_set() else 0


def _full_name(make: Sequence[Callable[[], Any]], number: int) -> str:
    """Return the full name in the ROS arguments of the factory of a node; empty if unknown."""
    if not number < len(make):
        return ""
    arguments = getattr(make[number], "keywords", {}).get("ros_args") or ()
    found = {}
    for word in arguments:
        key, sign, value = word.partition(":=")
        if sign and key in ("__node", "__ns"):
            found[key] = value
    name = found.get("__node")
    return f"{found.get('__ns', '').rstrip('/')}/{name}" if name else ""


def _serve_until_stopped(
    executor: SingleThreadedExecutor,
    nodes: list[MotionNode[Any]],
    managers: Sequence[Node],
    failed: threading.Event,
) -> None:
    for served in (*nodes, *managers):
        executor.add_node(served)
    spinner = threading.Thread(
        target=_serve, args=(executor, nodes, failed), name="executor", daemon=True
    )
    heartbeat = HeartbeatThread(nodes, executor) if supervised() else None
    spinner.start()
    signals.STOP.wait()
    # DDS may deadlock while entities are destroyed, with the GIL: only a C thread can end it then.
    faulthandler.dump_traceback_later(EXIT_DEADLINE + 1.0, exit=True)
    # At the same time: each may have a robot to brake.
    with ThreadPoolExecutor(max(len(nodes), 1)) as pool:
        list(pool.map(lambda node: node.stop(), nodes))
    if heartbeat is not None:
        heartbeat.end()
    executor.shutdown(timeout_sec=EXECUTOR_GRACE)
    spinner.join(EXECUTOR_GRACE)
    if spinner.is_alive():
        # Kernels compile, or a service is blocked. All robots are halted: the process may exit.
        return
    for served in (*nodes, *managers):
        served.destroy_node()
    rclpy.try_shutdown()


def _fail(failed: threading.Event) -> None:
    failed.set()
    signals.STOP.set()


def _serve(
    executor: SingleThreadedExecutor, nodes: list[MotionNode[Any]], failed: threading.Event
) -> None:
    """Start the nodes with autostart, then spin.

    All are configured before the first is activated: an active node reports that it is ready, and
    its services and actions respond when the executor spins.
    """
    starting = [node for node in nodes if node.autostart]
    for node, trigger in (
        *((node, node.trigger_configure) for node in starting),
        *((node, node.trigger_activate) for node in starting),
    ):
        if signals.STOP.is_set():
            return
        trigger()
        if node.failure is not None and not signals.STOP.is_set():
            report_state(FAILED, node.get_fully_qualified_name(), node.failure)
            _fail(failed)
            return
    release_memory()
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
                # Shutdown destroys handles that spin still uses.
                return
            # The node keeps its services and diagnostics after a failed callback.
            get_logger("motion_nodes").error(f"a callback failed:\n{traceback.format_exc()}")


def _end_if_stuck() -> None:
    signals.STOP.wait()
    time.sleep(EXIT_DEADLINE)
    print(f"did not stop within {EXIT_DEADLINE:g} s; terminated", file=sys.stderr, flush=True)
    os._exit(1)


def run_node(node_type: Callable[[], MotionNode[Any]]) -> None:
    """Run one node in this process, and exit."""
    code = run_nodes([node_type])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
