# SPDX-License-Identifier: Apache-2.0
"""Straight-line planner in joint space."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.planning.planning_problem import PlanRequest, PlanResult, PlanStatus
from motion_nodes.planning.start_state import in_words
from motion_nodes.planning.tree_search import find_ends, space_of


class DirectMotion:
    """Returns the straight line to the nearest reachable goal."""

    name = "Direct"

    def plan(self, request: PlanRequest) -> PlanResult:
        """Try the straight line to each goal, nearest first."""
        began = compute_time()
        space = space_of(request, None)
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return replace(ends, planner=self.name)
        started = compute_time()
        goals, checker = ends.goals.Q, request.checker
        order = np.argsort(space.distance(goals, ends.start), kind="stable")
        for i in order:
            path = space.unwrapped([ends.start, goals[i]])
            if checker.edge_free(path[0], path[1]):
                now = compute_time()
                cost, index = space.length(path), ends.goals.index[i]
                status, times = PlanStatus.SOLVED, (now - started, now - began)
                return PlanResult(
                    status, path, "", self.name, 1, (1, 1), cost, *times, goal_index=index
                )
        path = space.unwrapped([ends.start, goals[order[0]]])
        now = compute_time()
        return PlanResult(
            PlanStatus.BLOCKED,
            None,
            f"the straight line is blocked: {self._where(request, path[0], path[1])}",
            self.name,
            len(goals),
            search_time=now - started,
            time=now - began,
        )

    def _where(self, request: PlanRequest, a: np.ndarray, b: np.ndarray) -> str:  # type: ignore[type-arg]
        """Return where on the line the first collision is, and with what."""
        steps = max(2, math.ceil(float(np.linalg.norm((b - a) / request.checker.resolution))))
        shares = np.linspace(0.0, 1.0, steps + 1)[:, np.newaxis]
        free = request.checker.are_free(a + shares * (b - a))
        first = int(np.argmin(free))
        words = in_words(request.checker, a + shares[first] * (b - a))
        return f"at {100.0 * float(shares[first, 0]):.0f} % of it {words}"
