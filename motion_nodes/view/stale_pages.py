# SPDX-License-Identifier: Apache-2.0
"""Detection of pages that are connected but unresponsive.

A browser may keep the connection of a page that the user has left, or of a suspended tab. Such a
page must not keep a latched drive active. So pages with a latched drive are polled periodically;
one that does not respond in time is treated as disconnected.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import viser

_log = logging.getLogger(__name__)

POLL_PERIOD = 0.5
"""Time between a response and the next poll [s]."""
RESPONSE_TIMEOUT = 2.0
"""A page without a response for this time is treated as disconnected [s]."""
_KEY = "motion_nodes_alive"


class PageWatch:
    """Polls pages on its own thread, which sleeps while there is no page to monitor.

    Args:
        server: the viser server.
        monitored: returns the client ids of the pages to monitor.
        lost: called with the client id of each page that did not respond.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        monitored: Callable[[], set[int]],
        lost: Callable[[int], None],
    ) -> None:
        """Start the thread."""
        self._server = server
        self._monitored, self._lost = monitored, lost
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="viewer-watch", daemon=True)
        self._thread.start()

    def update(self) -> None:
        """Query the monitored pages again, because they may have changed."""
        self._wake.set()

    def close(self) -> None:
        """End the thread; a pending poll is completed first."""
        self._closed.set()
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        """Poll until closed."""
        while not self._closed.is_set():
            pages = self._monitored()
            if not pages:
                self._wake.wait()
                self._wake.clear()
                continue
            for page in pages:
                if not self._responds(page) and not self._closed.is_set():
                    _log.warning(
                        "A page with a latched drive did not respond within %.1f s: stopping the "
                        "base.",
                        RESPONSE_TIMEOUT,
                    )
                    self._lost(page)
            self._closed.wait(POLL_PERIOD)

    def _responds(self, page: int) -> bool:
        """Poll one page; disconnected pages are reported by viser itself."""
        try:
            client = self._server.get_clients().get(page)
            if client is None:
                return True
            # Reading its local storage is the cheapest request that viser offers.
            client.local_storage.get_item(_KEY, timeout=RESPONSE_TIMEOUT)
        except TimeoutError:
            return False
        except RuntimeError:
            # It responded that its storage is not accessible, or it disconnected.
            return True
        except Exception:  # the thread must go on, and the base must stop
            _log.exception("A page with a latched drive could not be polled.")
            return False
        return True
