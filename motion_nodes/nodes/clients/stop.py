# SPDX-License-Identifier: Apache-2.0
"""What ``motion stop`` and ``motion resume`` do: for a moment they take part in the stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from rclpy.node import Node

from motion_nodes.ros import signals
from motion_nodes.ros.clients.client_node import client_node
from motion_nodes.ros.names import STOP_STATE_TOPIC
from motion_nodes.ros.stop_latch import (
    AT_REST,
    INACTIVE,
    MOTION,
    RESUMED,
    SECONDS,
    STOPPED,
    StopLatch,
)

Say = Callable[[str], None]

DISCOVERY = 1.0
"""[s] Nodes that run are found in this time."""
LOOK = 0.02
"""[s] Between two looks."""


def stop(timeout: float, say: Say) -> bool:
    """Stop all robots and wait until they rest.

    Args:
        timeout: how long at most [s].
        say: takes a line for each robot, and for each node that did not answer.

    Returns:
        Whether there are robots, and all of them rest.
    """
    with client_node("motion_stop") as node:
        latch = StopLatch(node)
        try:
            # Before anything is found: it is transient local, so each node that is found has it.
            latch.stop("motion stop")
            told: set[str] = set()
            waiting: dict[str, str] = {}
            for _ in _looks(node, latch, timeout):
                waiting = _not_at_rest(node, latch, told, say)
                # Discovery may take long on a busy machine.
                if told and not waiting:
                    break
        finally:
            latch.end()
    for name, why in waiting.items():
        say(f"{name}: {why}")
    if not told and not waiting:
        say("no controller of a robot was found")
    return bool(told) and not waiting


def resume(timeout: float, say: Say) -> bool:
    """Have all nodes take commands again, once; return whether all of them do.

    Args:
        timeout: how long at most to wait for their answers [s].
        say: takes lines for people.
    """
    with client_node("motion_resume") as node:
        latch = StopLatch(node)
        try:
            for _ in _looks(node, latch, timeout):
                # Only a stop that is known can be resumed from.
                if latch.heard.keys() - {_name(node)} and not _unheard(node, latch):
                    break
            if not latch.heard.keys() - {_name(node)}:
                say("no node that could be resumed was found")
                return False
            stopped = latch.resume()
            waiting: dict[str, str] = {}
            for _ in _looks(node, latch, timeout):
                waiting = _still_stopped(node, latch)
                if not waiting:
                    break
        finally:
            latch.end()
    for name, why in waiting.items():
        say(f"{name}: {why}")
    if not waiting:
        say("resumed: commands are taken again" if stopped else "nothing was stopped")
    return not waiting


def _looks(node: Node, latch: StopLatch, timeout: float) -> Iterator[None]:
    """Look again and again, from the time when running nodes have been found."""
    began = time.monotonic()
    while not signals.STOP.wait(LOOK):
        latch.look()
        passed = time.monotonic() - began
        if passed >= min(DISCOVERY, timeout):
            yield
        if passed > timeout:
            return


def _name(node: Node) -> str:
    return str(node.get_fully_qualified_name()).lstrip("/")


def _unheard(node: Node, latch: StopLatch) -> dict[str, str]:
    """Return the nodes that take part in the stop and have not told their state yet."""
    return dict.fromkeys(_present(node) - latch.heard.keys(), "nothing was heard of it")


def _present(node: Node) -> set[str]:
    """Return the names of the nodes that take part in the stop, by the ROS graph."""
    known = node.get_publishers_info_by_topic(STOP_STATE_TOPIC)
    return {f"{info.node_namespace}/{info.node_name}".strip("/") for info in known}


def _values(latch: StopLatch, node: Node) -> Iterator[tuple[str, dict[str, str]]]:
    present = _present(node)
    for name, status in list(latch.heard.items()):
        if name in present and name != _name(node):
            yield name, {pair.key: pair.value for pair in status.values}


def _not_at_rest(node: Node, latch: StopLatch, told: set[str], say: Say) -> dict[str, str]:
    """Return the nodes that are not stopped or whose robots move; tell of those that rest."""
    waiting = _unheard(node, latch)
    for name, values in _values(latch, node):
        if int(values[STOPPED]) <= int(values[RESUMED]):
            waiting[name] = "not stopped"
        elif values.get(MOTION, AT_REST) not in (AT_REST, INACTIVE):
            waiting[name] = values[MOTION]
        elif MOTION in values and name not in told:
            told.add(name)
            after = f" after {values[SECONDS]} s" if SECONDS in values else ""
            say(f"{name}: {values[MOTION]}{after}")
    return waiting


def _still_stopped(node: Node, latch: StopLatch) -> dict[str, str]:
    return _unheard(node, latch) | {
        name: "still stopped"
        for name, values in _values(latch, node)
        if int(values[STOPPED]) > int(values[RESUMED])
    }
