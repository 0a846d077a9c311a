# SPDX-License-Identifier: Apache-2.0
"""Lengths of paths against time: AnytimeRRTConnect beside vamp's AORRTC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from harness import Row
from harness.timing import mean

from motion_nodes.planning.anytime_planner import AnytimeRrtConnect
from motion_nodes.planning.planning_problem import PlanRequest, PlanResult
from motion_nodes.planning.search_settings import AnytimeSettings

BUDGETS = (1e-3, 3e-3, 10e-3, 30e-3, 0.1, 0.3, 1.0)  # [s]

Seen = Sequence[tuple[float, float]]
"""Times [s] and lengths [rad] of paths."""


def ours(requests: Sequence[PlanRequest]) -> list[Seen]:
    """Return the improved paths for each request, whose checker has been used before."""
    found: list[Seen] = []
    for request in requests:
        AnytimeRrtConnect(AnytimeSettings(optimization_time=0.1)).plan(request)
        seen: list[tuple[float, float]] = []
        note: Callable[[PlanResult], None] = lambda x, seen=seen: seen.append((x.time, x.cost))  # type: ignore[misc]  # noqa: E731
        AnytimeRrtConnect(AnytimeSettings(optimization_time=BUDGETS[-1]), note).plan(request)
        found.append(seen)
    return found


def best_at(seen: Seen) -> list[float]:
    """Return the length of the best path within each budget, infinite without one."""
    return [min((x for t, x in seen if t <= budget), default=np.inf) for budget in BUDGETS]


def rows_of(mine: Sequence[Seen], peers: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row per budget; means are of the problems that both have solved by then."""
    a = np.array([best_at(seen) for seen in mine])
    b = np.array([best_at(peer["seen"]) for peer in peers])
    best = np.minimum(a, b).min(axis=1)
    rows: list[Row] = []
    for k, budget in enumerate(BUDGETS):
        both = np.isfinite(a[:, k]) & np.isfinite(b[:, k])
        own, peer = a[both, k], b[both, k]
        rows.append({
            "budget [ms]": 1e3 * budget,
            "solved": int(np.isfinite(a[:, k]).sum()), "by AORRTC": int(np.isfinite(b[:, k]).sum()),
            "mean length [rad]": mean(own), "of AORRTC [rad]": mean(peer),
            "ratio": mean(own) / mean(peer),
            "beyond the best [%]": mean(100.0 * (own / best[both] - 1.0)),
            "AORRTC [%]": mean(100.0 * (peer / best[both] - 1.0)),
        })  # fmt: skip
    return rows
