# SPDX-License-Identifier: Apache-2.0
"""Style of the panel: viser stacks all elements, and has neither grids nor fixed rows.

The style is an HTML element beside the elements it applies to, which it finds by their ids. In a
browser that does not know the selectors, the elements are stacked.

Only the panel converts the unit of angles: commands, states and the values that panels store are in
radians. Motion buttons have the colour of the theme, stop buttons are red.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import viser

_STICKY = "position: sticky; z-index: 20; background: var(--mantine-color-body)"
BUTTON_HEIGHT = 2.0
"""Height of a button on the bar [em]."""
SECONDARY: Final = "gray"
"""For buttons that cause no motion or are rarely used."""
STALE_AFTER = 1.0
"""A robot without a message for this time is shown as stale [s]."""
RATE_WINDOW = 1.0
"""Rates are averaged over this time [s]."""
MAX_MESSAGE = 300
"""Max number of characters of a message; longer ones are truncated."""
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:])")
TYPING_PAUSE = 1.0
"""Time without a change after which a number is no longer being typed [s]."""
OFF = "(off)"
"""Option of a list of which nothing is shown."""
RAD, DEG = "rad", "deg"
"""Units of angles."""


def selector(handle: viser.GuiInputHandle[bool] | viser.GuiInputHandle[float]) -> str:
    """Return the CSS selector of an element."""
    return f'[id="{handle._impl.uuid}"]'


def bar_style(stop: viser.GuiInputHandle[bool], resume: viser.GuiInputHandle[bool]) -> str:
    """Return the style that keeps two buttons visible while the panel is scrolled."""
    both = f"div:has(> {selector(stop)}), div:has(> {selector(resume)})"
    return (
        f"<style>{both} {{ {_STICKY}; top: 0; }} "
        f"div:has(> {selector(resume)}) {{ top: {BUTTON_HEIGHT}em; }} "
        f"{_unclipped(stop)} "
        # What follows the buttons on the bar is below them.
        f"div:has(> div > {selector(stop)}) {{ --bar: {BUTTON_HEIGHT}em; }} "
        f"div:has(> div > {selector(resume)}) {{ --bar: {2.0 * BUTTON_HEIGHT}em; }}</style>"
    )


def row_style(fields: Sequence[viser.GuiInputHandle[float]]) -> str:
    """Return the style that keeps number fields visible on one row, below the buttons of the bar.

    Args:
        fields: they follow each other in their container.
    """
    boxes = [f"div:has(> .mantine-Flex-root {selector(field)})" for field in fields]
    labels = ", ".join(f"{box} > .mantine-Flex-root > div:first-child" for box in boxes)
    return (
        f"<style>{', '.join(boxes)} {{ {_STICKY}; top: var(--bar, 0); display: inline-block; "
        f"width: {100.0 / len(fields):.4g}%; padding-top: 0.3em; padding-bottom: 0.3em; "
        f"box-sizing: border-box; vertical-align: top; }} {_unclipped(fields[0])} "
        f"{labels} {{ width: auto !important; }}</style>"
    )


def show_text(line: viser.GuiMarkdownHandle, text: str) -> None:
    """Show a text on a line of the panel, which is hidden without one; only changes are sent."""
    if text != line.content:
        line.content, line.visible = text, bool(text)


def by_user(call: Callable[[], object]) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """Return a handler that calls a function for changes made on a page, not for the program's.

    Handlers are coroutines, which run in order on viser's event loop, whatever its threads do.
    """

    async def handle(event: viser.GuiEvent[Any]) -> None:
        if event.client is not None:
            call()

    return handle


def on_loop(call: Callable[[], object]) -> Callable[[object], Coroutine[Any, Any, None]]:
    """Return a handler that calls a function for all changes, on viser's event loop."""

    async def handle(_: object) -> None:
        call()

    return handle


def keep_in_range(*fields: viser.GuiInputHandle[Any]) -> None:
    """Show on all pages the nearest allowed number once an other one is no longer being typed.

    The page on which it is typed bounds it when the field is left; meanwhile it sends what the
    field contains, such as the first digits, and other pages show that.

    Args:
        fields: number fields with ``min`` or ``max``; readers bound their values themselves.
    """

    def bound(field: Any, typed: float) -> None:
        low, high = (typed if limit is None else limit for limit in (field.min, field.max))
        allowed = min(max(typed, low), high)
        if field.value == typed != allowed:
            field.value = allowed

    async def later(event: viser.GuiEvent[Any]) -> None:
        # Not awaited: viser would process nothing else of this page.
        asyncio.get_running_loop().call_later(TYPING_PAUSE, bound, event.target, event.target.value)

    for field in fields:
        field.on_update(later)


def _unclipped(handle: viser.GuiInputHandle[bool] | viser.GuiInputHandle[float]) -> str:
    """Return the style with which an element of the bar does not scroll with the panel."""
    # It would with the elements around it that hide their overflow.
    around = f".mantine-ScrollArea-content div:has({selector(handle)})"
    return f"{around} {{ overflow: clip !important; }}"


def grid_style(rows: Sequence[Sequence[viser.GuiButtonHandle | None]]) -> str:
    """Return the style that arranges buttons of a container in a grid.

    Args:
        rows: rows of the same length; None: empty. The buttons were added in this order.
    """
    buttons = [button for row in rows for button in row if button is not None]
    box = f"div:has(> div > {selector(buttons[0])})"
    lines = [
        f"{box} {{ display: grid; grid-template-columns: repeat({len(rows[0])}, 1fr); }}",
        f"{box} > * {{ grid-column: 1 / -1; min-width: 0; }}",
    ]
    for row in rows:
        for column, button in enumerate(row, start=1):
            if button is not None:
                name = selector(button)
                lines.append(f"{box} > div:has(> {name}) {{ grid-column: {column}; }}")
                lines.append(f"{box} > div > {name} {{ padding: 0; }}")
    return f"<style>{' '.join(lines)}</style>"


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


class AngleUnit:
    """Unit that all panels share."""

    def __init__(self) -> None:
        """Start with radians, the unit of ROS."""
        self.name = RAD
        """``rad`` or ``deg``."""
        self.on_change: list[Callable[[], None]] = []
        """Called when the unit has changed."""

    @property
    def per_radian(self) -> float:
        """Size of a radian in this unit."""
        return math.degrees(1.0) if self.name == DEG else 1.0

    def pick(self, in_rad: float, in_deg: float) -> float:
        """Return the value for the unit, such as a step, which is round in each of them."""
        return in_deg if self.name == DEG else in_rad

    def set(self, name: str) -> None:
        """Change the unit.

        Args:
            name: ``rad`` or ``deg``.
        """
        if name not in (RAD, DEG) or name == self.name:
            return
        self.name = name
        for call in self.on_change:
            call()
