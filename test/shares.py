# SPDX-License-Identifier: Apache-2.0
"""How test files are shared out among the workers of pytest-xdist (``pytest -n auto``)."""

from __future__ import annotations

import os
from typing import Any

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    # Simulations and browsers want most of a processor: one of each kind at a time, first of all.
    "test/journeys/test_browser_journey.py": "browser",
    "test/journeys/test_drive_pads_journey.py": "browser",
    "test/browser": "browser",
    "test/journeys": "journeys",
    # They compile into a folder of their own, which the worker then keeps: see their conftest.py.
    "test/kernels": "kernels",
}
"""Files and folders whose tests run in one worker; other tests are together with their file's."""

FIRST = ("test/journeys", "test/browser", "test/nodes", "test/contracts", "test/bringup")
"""Folders whose tests take longest, mostly waiting; the many short tests fill up the end."""


def share_of(nodeid: str) -> str:
    """Return the name of the share that a test belongs to."""
    file = nodeid.partition("::")[0]
    found = [name for place, name in TOGETHER.items() if file.startswith(place)]
    return found[0] if found else file


def rank(nodeid: str) -> int:
    """Return how early a test's share is begun: 0 first."""
    return next((i for i, folder in enumerate(FIRST) if nodeid.startswith(folder)), len(FIRST))


def workers() -> int:
    """Return how many workers keep this machine busy without making loops late.

    A test of nodes waits two thirds of its time, and what it waits for runs beside it.
    """
    return min(max(2, 3 * len(os.sched_getaffinity(0)) // 2), 8)


class Shares(LoadScopeScheduling):
    """Hands out whole shares, in the order in which their first tests stand."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
