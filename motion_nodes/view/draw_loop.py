# SPDX-License-Identifier: Apache-2.0
"""The thread that draws the scene after changes, at a bounded rate."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

PANEL_PERIOD = 0.2
"""Period of status lines, sliders and trails [s]."""


class DrawLoop:
    """Calls a drawing function on its own thread, which sleeps while no page is open.

    Args:
        period: min time between two calls [s].
        draw: draws the scene; its argument is whether the panels are due, too.
        page_open: returns whether any page is open.
        animated: returns whether anything moves between updates.
    """

    def __init__(
        self,
        period: float,
        draw: Callable[[bool], None],
        page_open: Callable[[], bool],
        animated: Callable[[], bool],
    ) -> None:
        """Create the loop; :meth:`start` starts its thread."""
        self._period, self._draw = period, draw
        self._page_open, self._animated = page_open, animated
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="viewer-draw", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def request(self) -> None:
        """Draw soon, even if nothing has changed."""
        self._wake.set()

    def request_if_watched(self) -> None:
        """Draw soon if a page is open."""
        if self._page_open():
            self._wake.set()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        panel_due = 0.0
        while not self._closed.is_set():
            pause = self._period if self._animated() else PANEL_PERIOD
            self._wake.wait(pause if self._page_open() else None)
            self._wake.clear()
            if self._closed.is_set() or not self._page_open():
                continue
            now = time.monotonic()
            try:
                self._draw(now >= panel_due)
            except Exception:
                _log.exception("Drawing failed; the viewer continues.")
            if now >= panel_due:
                panel_due = now + PANEL_PERIOD
            self._closed.wait(max(0.0, self._period - (time.monotonic() - now)))
