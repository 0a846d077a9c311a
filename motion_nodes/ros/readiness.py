# SPDX-License-Identifier: Apache-2.0
"""Readiness of nodes, reported to the parent process and on ``/diagnostics``.

A parent process passes its children the write end of a pipe, whose file descriptor is in
``MOTION_NODES_NEWS_FD``; each report is a line of JSON. Without the variable nothing is reported.
This module imports no ROS, so the parent need not load it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motion_nodes.ros.node import MotionNode

VARIABLE = "MOTION_NODES_NEWS_FD"
"""Environment variable with the file descriptor that reports are written to."""

LOOK = 0.1
"""[s] Polling period of a node's readiness."""

READY, WAITING, ASLEEP, FAILED = "ready", "waiting", "asleep", "failed"
"""State of a node: ready; active but waiting for an input; not active, without autostart; start
failed."""

NEVER = "never: "
"""Beginning of the value ``ready`` on ``/diagnostics`` of a node whose robot was left out."""

FAULT = "fault"
"""Halted by an exception; restarted, or left inactive with the reason in the text."""


@dataclass(frozen=True)
class News:
    """A report on the state of a node."""

    state: str
    """READY, WAITING, ASLEEP, FAILED or FAULT."""
    node: str = ""
    """Full name; empty if the process failed before it created the node."""
    text: str = ""
    """Awaited condition, reason of a failure, or status of a ready node."""
    pid: int = 0
    """Process id."""
    at: float = 0.0
    """Time of the report on the system's monotonic clock [s]."""


def report_state(state: str, node: str = "", text: str = "") -> None:
    """Report the state of a node to the parent process, if that passed a pipe.

    Args:
        state: READY, WAITING, ASLEEP, FAILED or FAULT.
        node: full name.
        text: see :class:`News`.
    """
    number = os.environ.get(VARIABLE, "")
    if not number.isdecimal():
        return
    news = News(state, node, text[:1000], os.getpid(), time.monotonic())
    # The parent may have exited; the node continues regardless.
    with contextlib.suppress(OSError):
        os.write(int(number), json.dumps(asdict(news)).encode() + b"\n")


def read_news(line: bytes) -> News | None:
    """Parse a line of the pipe; None if it is not a report."""
    try:
        return News(**json.loads(line))
    except (ValueError, TypeError):
        return None


class Readiness:
    """Reports the state of one node until it is ready, at the start or after a fault."""

    def __init__(self, node: MotionNode[Any], on_ready: Callable[[], None]) -> None:
        """Create the observer of a node.

        Args:
            node: the node.
            on_ready: called once when it is ready.
        """
        self._node = node
        self._on_ready = on_ready
        self._reported: tuple[str, str] | None = None

    def fault(self, text: str) -> None:
        """Report a fault; the node must become ready again."""
        self._reported = FAULT, text
        report_state(FAULT, self._node.get_fully_qualified_name(), text)

    def poll(self) -> bool:
        """Report the state if it changed; return whether the node is ready."""
        node = self._node
        if not node.active:
            if node.autostart or (self._reported is not None and self._reported[0] == FAULT):
                return False
            state, text = ASLEEP, node.state_label
        else:
            text = node.waiting_for() or node.held
            state = WAITING if text else READY
        if (state, text) != self._reported:
            self._reported = state, text
            report_state(state, node.get_fully_qualified_name(), text or node.notice())
        if state == READY:
            self._on_ready()
        return state == READY
