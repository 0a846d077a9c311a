# SPDX-License-Identifier: Apache-2.0
"""Waits of tests with a time limit that holds on a busy machine, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LIMIT = 90.0
"""[s] How long a condition may take to come true: far more than it needs on a busy machine."""


class Patience:
    """A time limit in which a pause of a starved process counts little: others starve, too."""

    LONGEST_ROUND = 0.2
    """[s] What counts at most of the time between two looks at it."""

    def __init__(self, seconds: float) -> None:
        self._left, self._seconds, self._last = seconds, seconds, time.monotonic()

    def require(self, what: str) -> None:
        """Fail if the time is over, saying ``what`` was waited for."""
        now = time.monotonic()
        self._left -= min(now - self._last, self.LONGEST_ROUND)
        self._last = now
        if self._left < 0.0:
            raise AssertionError(f"not within {self._seconds:g} s: {what}")


def wait_until(
    condition: Callable[[], Any], what: str, within: float = LIMIT, pause: float = 0.02
) -> Any:
    """Return the condition's first true value; fail after ``within`` [s], saying ``what``."""
    patience = Patience(within)
    while not (value := condition()):
        patience.require(what)
        time.sleep(pause)
    return value
