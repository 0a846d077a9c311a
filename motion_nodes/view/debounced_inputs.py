# SPDX-License-Identifier: Apache-2.0
"""Debouncing of the values of a slider and its number field.

A number field reports a value for every keystroke: typing 0.25 yields 0, 0.2 and 0.25, and the
robot must not start moving to the first two. So a large change is reported only after the value has
been constant for some time. Small changes, and those of a slider that the pointer holds, are
reported immediately.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SETTLING_TIME = 0.5
"""Delay of a large change [s]; longer than the time between two keystrokes."""
SMALL_CHANGE = 0.02
"""Changes up to this fraction of the slider's range are reported immediately."""
HOLD_TIMEOUT = 1.0
"""Timeout of a slider's hold: without a report of its page it is released [s]."""


class SliderHold:
    """Whether the pointer holds a slider on some page; all methods run on viser's event loop."""

    def __init__(self) -> None:
        """Start with no slider held."""
        self._until = 0.0

    def hold(self) -> None:
        """A page reports that a slider is held; repeated meanwhile."""
        self._until = time.monotonic() + HOLD_TIMEOUT

    def release(self) -> None:
        """A page reports that its slider was released."""
        self._until = 0.0

    @property
    def held(self) -> bool:
        """Whether a slider is held."""
        return time.monotonic() < self._until


class DebouncedValues:
    """Delays large changes of values; all methods run on an event loop.

    Args:
        report: called with a key and its value.
        hold: of the pages' sliders.
    """

    def __init__(self, report: Callable[[str, float], None], hold: SliderHold) -> None:
        """Start without pending values."""
        self._report, self._hold = report, hold
        self._last: dict[str, float] = {}
        self._pending: dict[str, asyncio.TimerHandle] = {}

    def set_shown(self, key: str, value: float) -> None:
        """Store a value that the program shows; it is not reported."""
        self._last[key] = value

    def set_input(self, key: str, value: float, span: float) -> None:
        """Process a value that the user entered.

        Args:
            key: identifies the input; a newer value replaces a pending one.
            value: the value.
            span: range of the slider, in the unit of the value.
        """
        self._cancel(key)
        small = abs(value - self._last.get(key, value)) <= SMALL_CHANGE * span
        if small or self._hold.held:
            self._release(key, value)
            return
        loop = asyncio.get_running_loop()
        self._pending[key] = loop.call_later(SETTLING_TIME, self._release, key, value)

    def cancel(self) -> None:
        """Discard all pending values, because a newer command replaces them."""
        for key in list(self._pending):
            self._cancel(key)

    def _cancel(self, key: str) -> None:
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending.cancel()

    def _release(self, key: str, value: float) -> None:
        self._pending.pop(key, None)
        self._last[key] = value
        self._report(key, value)
