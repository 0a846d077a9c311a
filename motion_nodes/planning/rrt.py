# SPDX-License-Identifier: Apache-2.0
"""The plain rapidly-exploring random tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.search.rrt import grow
from motion_nodes.planning.planning_problem import PlanRequest, PlanResult
from motion_nodes.planning.tree_search import FoundPath, TreePlanner, TreeSearch, check_number


@dataclass(frozen=True)
class RrtSettings:
    """How a plain tree grows."""

    step_size: float = 0.3
    """Greatest length of an edge, in the weighted metric."""
    goal_bias: float = 0.1
    """Share of the samples that are a goal configuration, any of those known."""
    near_bias: float = 0.3
    """Share of the samples that are drawn near a goal configuration, on a logarithmic scale of
    distances; the rest is uniform over the joints' ranges."""
    max_iterations: int = 50_000
    """Samples that the tree is extended towards."""
    max_sampling: int = 10_000
    """Tries for a sample that is free of collisions."""
    distance_metric_weights: tuple[float, ...] = ()
    """Of the joints in distances; none given: 1 each."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_number("step_size", self.step_size, 1e-6)
        check_number("goal_bias", self.goal_bias, 0.0, 1.0)
        check_number("near_bias", self.near_bias, 0.0, 1.0)
        check_number("max_iterations", self.max_iterations, 1)
        check_number("max_sampling", self.max_sampling, 1)


class Rrt(TreePlanner):
    """Returns the first path that it finds; not the shortest."""

    name = "RRT"

    def __init__(self, settings: RrtSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or RrtSettings()

    def plan(self, request: PlanRequest) -> PlanResult:
        """TreeSearch a path; every edge of it is checked, the last one too."""
        settings = self.settings
        iterations, tries = settings.max_iterations, settings.max_sampling
        weights = settings.distance_metric_weights
        return self.run(request, weights, iterations, tries, room=2 * iterations + 1)

    def search(self, search: TreeSearch) -> FoundPath:
        """Grow the tree until it gets to a goal."""
        settings, found = self.settings, np.zeros(2, np.int64)

        def batch(iterations: int) -> int:
            return grow(
                search.tree,
                search.kernel_space,
                search.checker,
                search.goals,
                settings.step_size,
                settings.goal_bias,
                settings.near_bias,
                settings.max_sampling,
                iterations,
                found,
            )

        outcome = search.growth.run(batch, search.tree)
        if not outcome.found:
            return FoundPath(outcome)
        node, goal = int(found[0]), int(found[1])
        return FoundPath(outcome, search.path_to(node, search.goals[goal]), goal)
