# SPDX-License-Identifier: Apache-2.0
"""Tells when nodes are ready: to whoever started the process, and on ``/diagnostics``.

A process that starts others hands them the end of a pipe, its number in ``MOTION_NODES_NEWS_FD``;
each piece of news is a line of JSON. Without the variable nothing is told. No ROS in here, so that
the one who starts processes need not load it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

VARIABLE = "MOTION_NODES_NEWS_FD"
"""Environment variable with the number of the file descriptor that news are written to."""

LOOK = 0.1
"""[s] Between two looks whether a node has become ready."""

READY, WAITING, ASLEEP, FAILED = "ready", "waiting", "asleep", "failed"
"""What a node can be: able to do its work; active, but without what it needs; not active, for it
does not start by itself; not able to start."""

FAULT = "fault"
"""Halted by an exception; it is restarted, or stays inactive as the text says."""


@dataclass(frozen=True)
class News:
    """How far a node is."""

    state: str
    """READY, WAITING, ASLEEP, FAILED or FAULT."""
    node: str = ""
    """Full name; empty where a process failed before it had the node."""
    text: str = ""
    """What it waits for, why it failed, or what is to be known of a ready one."""
    pid: int = 0
    at: float = 0.0
    """[s] Moment of the system's monotonic clock."""


def tell(state: str, node: str = "", text: str = "") -> None:
    """Tell whoever started this process how far a node is, if they want to know."""
    number = os.environ.get(VARIABLE, "")
    if not number.isdecimal():
        return
    news = News(state, node, text[:1000], os.getpid(), time.monotonic())
    # Nobody may read any more; whatever becomes of the news, the node goes on.
    with contextlib.suppress(OSError):
        os.write(int(number), json.dumps(asdict(news)).encode() + b"\n")


def read_news(line: bytes) -> News | None:
    """Return what a line says; None for one that is none."""
    try:
        return News(**json.loads(line))
    except (ValueError, TypeError):
        return None


class Startable(Protocol):
    """What :class:`Readiness` asks of a node."""

    autostart: bool

    @property
    def active(self) -> bool: ...  # noqa: D102

    @property
    def state_label(self) -> str: ...  # noqa: D102

    def get_fully_qualified_name(self) -> str: ...  # noqa: D102

    def lacks(self) -> str: ...  # noqa: D102

    def notice(self) -> str: ...  # noqa: D102


class Readiness:
    """Watches one node until it is ready, for the first time or after a fault."""

    def __init__(self, node: Startable, on_ready: Callable[[], None]) -> None:
        """Watch ``node``; ``on_ready`` is called once."""
        self._node = node
        self._on_ready = on_ready
        self._told: tuple[str, str] | None = None

    def fault(self, text: str) -> None:
        """Tell of a fault; from now on the node has to become ready anew."""
        self._told = FAULT, text
        tell(FAULT, self._node.get_fully_qualified_name(), text)

    def look(self) -> bool:
        """Look once, and tell what is new; True when the node is ready."""
        node = self._node
        if not node.active:
            if node.autostart or (self._told is not None and self._told[0] == FAULT):
                return False
            state, text = ASLEEP, node.state_label
        else:
            text = node.lacks()
            state = WAITING if text else READY
        if (state, text) != self._told:
            self._told = state, text
            tell(state, node.get_fully_qualified_name(), text or node.notice())
        if state == READY:
            self._on_ready()
        return state == READY
