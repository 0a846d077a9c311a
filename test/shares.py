# SPDX-License-Identifier: Apache-2.0
"""How test files are shared out among the workers of pytest-xdist (``pytest -n auto``).

Most tests of processes wait: for a robot to arrive, for a message. The last worker fills that
time with tests that only compute, at low priority, so that loops do not come late because of it.
"""

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

FIRST = ("test/journeys", "test/browser", "test/nodes", "test/contracts", "test/docs")
"""Folders whose tests take longest, mostly waiting."""

COMPUTING = tuple(
    f"test/{place}"
    for place in (
        *("planning", "rmpflow", "robot_setup", "ik", "sim", "scene", "trajectory", "kernels"),
        *("model", "bases", "base_navigation", "control", "compat"),
        *("view", "api", "learning", "policies", "perception", "tasks"),
        *("mpc", "cli", "packaging", "agent_tools"),
        *("contracts/test_interface_pages.py", "docs/test_notebook.py", "docs/test_pages.py"),
    )
)
"""Places whose tests have no loops to keep: they come last, and the last worker does only them."""

LOW_PRIORITY = 10
"""Niceness of the worker that computes."""


def share_of(nodeid: str) -> str:
    """Return the name of the share that a test belongs to."""
    file = nodeid.partition("::")[0]
    return next((name for place, name in TOGETHER.items() if file.startswith(place)), file)


def rank(nodeid: str) -> int:
    """Return how early a test's share is begun: 0 first."""
    if nodeid.startswith(COMPUTING):
        return len(FIRST) + 1
    return next((i for i, folder in enumerate(FIRST) if nodeid.startswith(folder)), len(FIRST))


def workers() -> int:
    """Return how many workers keep this machine busy without making loops late.

    What a test of nodes waits for runs beside it, so each worker wants about one processor; one
    more computes meanwhile.
    """
    return min(max(2, len(os.sched_getaffinity(0))), 8) + 1


def only_computes(worker: str, count: int) -> bool:
    """Return whether a worker, such as ``gw2``, is the one of ``count`` that only computes."""
    return count > 2 and int(worker[2:]) == count - 1


class Shares(LoadScopeScheduling):
    """Hands out whole shares, in the order in which their first tests stand."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        if only_computes(node.gateway.id, self.numnodes):
            share = next((s for s in self.workqueue if s.startswith(COMPUTING)), None)
            if share is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(share, last=False)
        super()._assign_work_unit(node)
