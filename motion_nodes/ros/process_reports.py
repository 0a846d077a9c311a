# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON between a process and its parent: readiness of nodes, records of the supervisor.

A parent process passes its children the write end of a pipe, whose file descriptor is in
``MOTION_NODES_NEWS_FD``; each report is a line of JSON. Without the variable nothing is reported.
Each process has its own pipe for orders of the supervisor. The state that a replacement process
needs at its start is in its environment. Nodes report their readiness on ``/diagnostics``, too.
This module imports no ROS, so that the parent need not load it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from motion_nodes.core.control.stop_state import StopState
from motion_nodes.errors import InvalidCommand

if TYPE_CHECKING:
    from motion_nodes.ros.node import MotionNode

NEWS_VARIABLE = "MOTION_NODES_NEWS_FD"
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
    number = os.environ.get(NEWS_VARIABLE, "")
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


CONTROL_VARIABLE = "MOTION_NODES_CONTROL_FD"
"""Environment variable with the file descriptor on which a process receives from its supervisor."""
STOP_VARIABLE = "MOTION_NODES_STOP_STATE"
"""Environment variable with the state of the suite's stop at the start of a process."""
REPLACED_VARIABLE = "MOTION_NODES_REPLACES"
"""Environment variable of a process that replaces another one: why that ended."""
ECHO_VARIABLE = "MOTION_NODES_ECHO"
"""Environment variable with a word that is unique to the supervisor, for topics of echoes."""

HEARTBEAT_PERIOD = 0.4
"""[s] Between two heartbeats of a process, and its max delay of an echo over DDS."""


@dataclass(frozen=True)
class Beat:
    """A heartbeat of a process."""

    pid: int
    overdue: float = 0.0
    """Of the loop that is most overdue [s]."""
    loop: str = ""
    """Full name of that loop's node."""
    executor: float = 0.0
    """Time for which the executor has not served its queue [s]."""
    received: dict[str, float] = field(default_factory=dict)
    """Time of the newest message of each topic that other processes may receive, too [s]."""


@dataclass(frozen=True)
class Echo:
    """The last echo of a process over DDS."""

    pid: int
    """Of the probe."""
    target: int
    """Id of the process that was pinged."""
    silent: float
    """Time since then [s]."""
    delay: float = 0.0
    """Round-trip time of the newest answered ping [s]."""


@dataclass(frozen=True)
class StopReport:
    """A node's copy of the suite's latched stop has changed."""

    pid: int
    stopped_ns: int
    resumed_ns: int
    reason: str = ""

    def state(self) -> StopState | None:
        """Return the state; None for invalid times."""
        with contextlib.suppress(InvalidCommand, TypeError):
            return StopState(self.stopped_ns, self.resumed_ns, self.reason)
        return None


Record = Beat | Echo | StopReport
_KINDS: dict[str, type[Record]] = {"beat": Beat, "echo": Echo, "stop": StopReport}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def report(record: Record) -> None:
    """Send a record to the parent process if it reads them; never blocks."""
    number = os.environ.get(NEWS_VARIABLE, "")
    if not number.isdecimal():
        return
    line = json.dumps({"record": _NAMES[type(record)], **asdict(record)}).encode() + b"\n"
    # The reader may have exited; the process continues without it.
    with contextlib.suppress(OSError):
        os.write(int(number), line)


def read_record(line: bytes) -> Record | None:
    """Return the record of a line; None for an invalid line."""
    try:
        fields: dict[str, Any] = json.loads(line)
        return _KINDS[fields.pop("record")](**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def stop_text(state: StopState) -> str:
    """Return the state of the stop as the value of :data:`STOP_VARIABLE`."""
    return json.dumps([state.stopped_ns, state.resumed_ns, state.reason])


def inherited_stop() -> StopState:
    """Return the state of the stop that this process was started with."""
    try:
        return StopState(*json.loads(os.environ.get(STOP_VARIABLE, "")))
    except (ValueError, TypeError, InvalidCommand):
        return StopState()
