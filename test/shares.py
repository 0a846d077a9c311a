# SPDX-License-Identifier: Apache-2.0
"""How test files are shared out among the workers of pytest-xdist (``pytest -n auto``)."""

from __future__ import annotations

import os
from typing import Any

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    # Simulations and browsers want most of a processor, and come late when they do not get it.
    "test/journeys": "journeys",
    "test/browser": "journeys",
}
"""Folders whose tests run in one worker; other tests are together with their file's."""

FIRST = ("test/journeys", "test/browser", "test/nodes", "test/contracts", "test/bringup")
"""Folders whose tests take longest, mostly waiting; the many short tests fill up the end."""


def share_of(nodeid: str) -> str:
    """Return the name of the share that a test belongs to."""
    file = nodeid.partition("::")[0]
    return next((name for place, name in TOGETHER.items() if file.startswith(place)), file)


def rank(nodeid: str) -> int:
    """Return how early a test's share is begun: 0 first."""
    return next((i for i, folder in enumerate(FIRST) if nodeid.startswith(folder)), len(FIRST))


def workers() -> int:
    """Return how many workers keep this machine busy without making loops late.

    What a test of nodes waits for runs beside it, so each worker wants about one processor.
    """
    return min(max(2, len(os.sched_getaffinity(0))), 8)


class Shares(LoadScopeScheduling):
    """Hands out whole shares, in the order in which their first tests stand."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
