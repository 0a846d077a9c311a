# SPDX-License-Identifier: Apache-2.0
"""Finds pages that are connected but no longer there for a person.

A browser may keep the connection of a page that was left for another one, or of a tab that sleeps.
While a base drives by itself such a page must not count as somebody at the controls. So it is asked
again and again for a word of its own, and only a living page answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import viser

_log = logging.getLogger(__name__)

ASK_PERIOD = 0.5
"""Time between an answer and the next question [s]."""
ANSWER_LIMIT = 2.0
"""A page that has not answered after this time is gone [s]."""
_KEY = "motion_nodes_alive"


class PageWatch:
    """Asks pages on a thread of its own, which sleeps when there is nothing to watch.

    Args:
        server: the viser server.
        watched: returns the pages that hold a drive just now, by client number.
        lost: called with each page that did not answer.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        watched: Callable[[], set[int]],
        lost: Callable[[int], None],
    ) -> None:
        """Start the thread."""
        self._server = server
        self._watched, self._lost = watched, lost
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="viewer-watch", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Have the watched pages looked up, because they may have changed."""
        self._wake.set()

    def close(self) -> None:
        """End the thread; one that waits for an answer ends after that."""
        self._closed.set()
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        """Ask until closed."""
        while not self._closed.is_set():
            pages = self._watched()
            if not pages:
                self._wake.wait()
                self._wake.clear()
                continue
            for page in pages:
                if not self._answers(page) and not self._closed.is_set():
                    _log.warning("A page that drives a base does not answer: the base is stopped.")
                    self._lost(page)
            self._closed.wait(ASK_PERIOD)

    def _answers(self, page: int) -> bool:
        """Ask one page; one that is disconnected is reported by viser itself."""
        client = self._server.get_clients().get(page)
        if client is None:
            return True
        try:
            # The page's own storage is what viser can read of it with the least effort.
            client.local_storage.get_item(_KEY, timeout=ANSWER_LIMIT)
        except TimeoutError:
            return False
        except RuntimeError:
            # It answered that it may not read its storage, or it disconnected.
            return True
        return True
