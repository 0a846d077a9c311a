# SPDX-License-Identifier: Apache-2.0
"""The status lines of the panel."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

STALE_AFTER = 1.0
"""A robot that was silent this long is shown as stale [s]."""
RATE_WINDOW = 1.0
"""Rates are counted over this time [s]."""
LONGEST_MESSAGE = 300

_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:])")


def plain(text: str) -> str:
    """Return text that the page shows as it is: one line, bounded, nothing read as markdown."""
    line = " ".join(text.split())
    if len(line) > LONGEST_MESSAGE:
        line = line[: LONGEST_MESSAGE - 1] + "…"
    return _MARKS.sub(r"\\\1", line)


@dataclass
class Freshness:
    """How often and when something last arrived; times in [s] on one clock."""

    count: int = 0
    last: float | None = None
    rate: float = 0.0
    """Arrivals per second, over the last window [Hz]."""
    _window_start: float = 0.0
    _window_count: int = 0

    def arrived(self, now: float, counts: bool = True) -> None:
        """Note an arrival; one that does not count for the rate is a sign of life all the same."""
        if self.last is None:
            self._window_start = now
        self.count += counts
        self.last = now

    def look(self, now: float) -> None:
        """Renew the rate when its window is over."""
        elapsed = now - self._window_start
        if self.last is not None and elapsed >= RATE_WINDOW:
            self.rate = (self.count - self._window_count) / elapsed
            self._window_start, self._window_count = now, self.count


def robot_line(state: Freshness, message: str, now: float) -> str:
    """Return the markdown of one robot's status.

    Without a message it says itself what is missing; a message knows that better.

    Args:
        state: arrivals of its joint states and base poses.
        message: last message, empty for none.
        now: present time [s].
    """
    if state.last is None:
        line = "○ **waiting**" + ("" if message else " for the robot's state")
    elif now - state.last > STALE_AFTER:
        line = "◐ **stale**" + ("" if message else f": no state for {now - state.last:.0f} s")
    else:
        rate = f", {state.rate:.0f} Hz" if state.rate >= 0.5 else ""
        line = f"● **connected**{rate}"
    return f"{line}  \n{plain(message)}" if message else line


def steering_line(angles: Sequence[float]) -> str:
    """Return the markdown of the steered wheels' angles.

    Args:
        angles: of the left and the right wheel, positive to the left [rad]; NaN: not known yet.
    """
    shown = ("?" if math.isnan(angle) else f"{math.degrees(angle):+.1f}°" for angle in angles)
    words = ("left", "right") if len(angles) == 2 else [str(i + 1) for i in range(len(angles))]
    return "Wheel angles: " + ", ".join(
        f"{word} **{angle}**" for word, angle in zip(words, shown, strict=True)
    )


def global_line(clients: int, message: str, health: str = "") -> str:
    """Return the markdown of the line above all robots; ``health`` is how the nodes are."""
    pages = "1 page open" if clients == 1 else f"{clients} pages open"
    if health:
        pages += f" · {health}"
    return f"{pages}  \n{plain(message)}" if message else pages
