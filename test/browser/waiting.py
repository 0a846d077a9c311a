# SPDX-License-Identifier: Apache-2.0
"""Waiting for conditions of a page."""

import time
from collections.abc import Callable
from typing import TypeVar

PAGE_LIMIT = 90.0
"""Longest wait for a page to load and draw [s]; WebGL in software is slow on a busy machine."""
LIMIT = 60.0
"""Longest wait for anything else [s]."""
POLL = 0.1

_T = TypeVar("_T")


def wait_for(condition: Callable[[], _T], what: str, limit: float = LIMIT) -> _T:
    """Return the first true value of a condition.

    Args:
        condition: called until it returns a true value; stale elements count as false.
        what: for the error, as in "the panel appears".
        limit: timeout [s].

    Raises:
        AssertionError: at the timeout.
    """
    from selenium.common.exceptions import WebDriverException

    deadline = time.monotonic() + limit
    last: object = None
    while True:
        try:
            last = condition()
        except WebDriverException as error:
            last = error
        else:
            if last:
                return last
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit:.0f} s in vain until {what}; last: {last!r:.300}")
        time.sleep(POLL)
