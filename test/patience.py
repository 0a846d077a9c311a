# SPDX-License-Identifier: Apache-2.0
"""Timeouts of tests that suit busy machines."""

import time
from collections.abc import Callable
from typing import Any

LIMIT = 90.0
"""Default timeout of conditions [s]: far more than needed, even on a busy machine."""

ATTEMPTS = 5
"""Max number of runs of a scenario that this process may spoil by a pause."""


class Patience:
    """A timeout that counts pauses of this process only up to a limit."""

    LONGEST_ROUND = 0.2
    """Max counted time between two checks [s]."""

    def __init__(self, seconds: float) -> None:
        self._left, self._seconds, self._last = seconds, seconds, time.monotonic()

    def require(self, what: str) -> None:
        """Raise AssertionError with ``what`` if the timeout is exceeded."""
        now = time.monotonic()
        self._left -= min(now - self._last, self.LONGEST_ROUND)
        self._last = now
        if self._left < 0.0:
            raise AssertionError(f"not within {self._seconds:g} s: {what}")


def wait_until(
    condition: Callable[[], Any], what: str, within: float = LIMIT, pause: float = 0.02
) -> Any:
    """Return the condition's first true value; raise AssertionError after ``within`` [s]."""
    patience = Patience(within)
    while not (value := condition()):
        patience.require(what)
        time.sleep(pause)
    return value
