# SPDX-License-Identifier: Apache-2.0
"""Distribution of test files among the workers of pytest-xdist (``pytest -n auto``).

Most tests of processes wait: for a robot to arrive, for a message. The last worker fills that
time with tests that only compute, at low priority, so that they do not delay loops.
"""

import os
from typing import Any

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    # Simulations and browsers need most of a processor, or else they are late.
    "test/journeys": "journeys",
    "test/browser": "journeys",
}
"""Folders whose tests run in one worker; other tests are grouped by file."""

FIRST = ("test/journeys", "test/browser", "test/nodes", "test/contracts", "test/docs")
"""Folders with the longest tests, which mostly wait."""

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
"""Folders and files without real-time loops: they come last, and the last worker runs no others."""

LOW_PRIORITY = 10
"""Niceness of the worker that computes."""


def share_of(nodeid: str) -> str:
    """Return the name of the share of a test."""
    file = nodeid.partition("::")[0]
    return next((name for place, name in TOGETHER.items() if file.startswith(place)), file)


def rank(nodeid: str) -> int:
    """Return the rank of a test's share; 0 starts first."""
    if nodeid.startswith(COMPUTING):
        return len(FIRST) + 1
    return next((i for i, folder in enumerate(FIRST) if nodeid.startswith(folder)), len(FIRST))


def workers() -> int:
    """Return the number of workers that use this machine without delaying loops.

    The nodes of a test run in parallel with it, so each worker needs about one processor; one more
    worker only computes.
    """
    return min(max(2, len(os.sched_getaffinity(0))), 8) + 1


def only_computes(worker: str, count: int) -> bool:
    """Return whether a worker, such as ``gw2``, of ``count`` workers only computes."""
    return count > 2 and int(worker[2:]) == count - 1


class Shares(LoadScopeScheduling):
    """Assigns whole shares, in the order of their first tests."""

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
