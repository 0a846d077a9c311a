# SPDX-License-Identifier: Apache-2.0
"""Values from a slider or its number field, told on when they are meant.

A number field reports each character as a value: who types 0.25 asks for 0 and 0.2 on the way, and
a robot that obeyed would set out for them. So a value far from the one before is held back until it
has rested; those of a hand that moves a slider come in small steps and pass at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

REST = 0.5
"""[s] A far value must stay so long: longer than between two characters."""
FAR = 0.02
"""Of the slider's range; nearer values pass at once."""


class SettledValues:
    """Holds back values that are far from the last ones; all functions run on an event loop.

    Args:
        report: called with a key and its value.
    """

    def __init__(self, report: Callable[[str, float], None]) -> None:
        """Start with nothing held back."""
        self._report = report
        self._last: dict[str, float] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def know(self, key: str, value: float) -> None:
        """Take note of a value that is shown without somebody asking for it."""
        self._last[key] = value

    def take(self, key: str, value: float, span: float) -> None:
        """Take a value that somebody asks for.

        Args:
            key: what it is for; a newer value replaces one that waits.
            value: the value.
            span: range of the slider, in the unit of the value.
        """
        self._forget(key)
        if abs(value - self._last.get(key, value)) <= FAR * span:
            self._tell(key, value)
            return
        loop = asyncio.get_running_loop()
        self._waiting[key] = loop.call_later(REST, self._tell, key, value)

    def forget(self) -> None:
        """Give up all values that wait: something newer was asked for."""
        for key in list(self._waiting):
            self._forget(key)

    def _forget(self, key: str) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.cancel()

    def _tell(self, key: str, value: float) -> None:
        self._waiting.pop(key, None)
        self._last[key] = value
        self._report(key, value)
