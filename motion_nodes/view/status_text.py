# SPDX-License-Identifier: Apache-2.0
"""Status lines of the panel."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

STALE_AFTER = 1.0
"""A robot without a message for this time is shown as stale [s]."""
RATE_WINDOW = 1.0
"""Rates are averaged over this time [s]."""
MAX_MESSAGE = 300
"""Max number of characters of a message; longer ones are truncated."""

_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:])")


def shortened(text: str) -> str:
    """Return text on one line, truncated to ``MAX_MESSAGE`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"


def plain(text: str) -> str:
    """Return text escaped for Markdown, on one line, truncated to ``MAX_MESSAGE`` characters."""
    return _MARKS.sub(r"\\\1", shortened(text))


@dataclass
class Freshness:
    """Time and rate of received updates; all times [s] on one clock."""

    count: int = 0
    """Updates that count for the rate."""
    last: float | None = None
    """Time of the last update [s]; None: none received yet."""
    rate: float = 0.0
    """Updates per second over the last window [Hz]."""
    _window_start: float = 0.0
    _window_count: int = 0

    def arrived(self, now: float, counts: bool = True) -> None:
        """Record an update.

        Args:
            now: current time [s].
            counts: whether it counts for the rate; it always resets the age.
        """
        if self.last is None:
            self._window_start = now
        self.count += counts
        self.last = now

    def update_rate(self, now: float) -> None:
        """Update the rate when its window has ended; ``now`` is the current time [s]."""
        elapsed = now - self._window_start
        if self.last is not None and elapsed >= RATE_WINDOW:
            self.rate = (self.count - self._window_count) / elapsed
            self._window_start, self._window_count = now, self.count


def robot_line(state: Freshness, message: str, now: float) -> str:
    """Return the status line of one robot, as Markdown.

    Args:
        state: received joint states and base poses.
        message: status message, such as the reason why no state is received; empty: none, and the
            line itself states what is missing.
        now: current time [s].
    """
    if state.last is None:
        line = "**waiting**" + ("" if message else " for the robot's state")
    elif now - state.last > STALE_AFTER:
        line = "**stale**" + ("" if message else f": no state for {now - state.last:.0f} s")
    else:
        rate = f", {state.rate:.0f} Hz" if state.rate >= 0.5 else ""
        line = f"**connected**{rate}"
    return f"{line}  \n{plain(message)}" if message else line


def steering_line(angles: Sequence[float], degrees: bool = False) -> str:
    """Return the line with the steering angles, as Markdown.

    Args:
        angles: of the left and the right wheel of each steered axle, front to rear, positive to the
            left [rad]; NaN: unknown.
        degrees: show degrees and not radians.
    """
    shown = (
        "?"
        if math.isnan(angle)
        else (f"{math.degrees(angle):+.1f}°" if degrees else f"{angle:+.3f} rad")
        for angle in angles
    )
    words = {
        2: ("left", "right"), 4: ("front left", "front right", "rear left", "rear right"),
    }.get(len(angles), tuple(str(i + 1) for i in range(len(angles))))  # fmt: skip
    return "Wheel angles: " + ", ".join(
        f"{word} **{angle}**" for word, angle in zip(words, shown, strict=True)
    )


def global_line(clients: int, health: str = "") -> str:
    """Return the status line above all robots, as Markdown.

    Args:
        clients: number of open pages.
        health: summary of the nodes' diagnostics; empty: none.
    """
    pages = "1 page open" if clients == 1 else f"{clients} pages open"
    return f"{pages} · {health}" if health else pages
