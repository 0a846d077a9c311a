# SPDX-License-Identifier: Apache-2.0
"""The basic rapidly-exploring random tree (RRT)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.search.rrt import grow
from motion_nodes.planning.planning_problem import PlanRequest, PlanResult
from motion_nodes.planning.tree_search import (
    MAX_COUNT,
    FoundPath,
    TreePlanner,
    TreeSearch,
    check_number,
    check_weights,
)


@dataclass(frozen=True)
class RrtSettings:
    """Settings of the RRT."""

    step_size: float = 0.3
    """Max length of an edge, in the weighted metric."""
    goal_bias: float = 0.1
    """Fraction of the samples that are a goal configuration."""
    near_bias: float = 0.3
    """Fraction of the samples near a goal configuration, on a logarithmic scale of distances; the
    rest is uniform over the joint ranges."""
    max_iterations: int = 50_000
    """Max number of samples."""
    max_sampling: int = 10_000
    """Max number of tries for a collision-free sample."""
    distance_metric_weights: tuple[float, ...] = ()
    """Joint weights in distances; default: 1 each."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_number("step_size", self.step_size, 1e-6)
        check_number("goal_bias", self.goal_bias, 0.0, 1.0)
        check_number("near_bias", self.near_bias, 0.0, 1.0)
        check_number("max_iterations", self.max_iterations, 1, MAX_COUNT)
        check_number("max_sampling", self.max_sampling, 1, MAX_COUNT)
        check_weights(self.distance_metric_weights)


class Rrt(TreePlanner):
    """Returns the first path found; not optimal."""

    name = "RRT"

    def __init__(self, settings: RrtSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or RrtSettings()

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path; every edge of it is checked, including the last one."""
        settings = self.settings
        iterations, tries = settings.max_iterations, settings.max_sampling
        weights = settings.distance_metric_weights
        return self.run(request, weights, iterations, tries, room=2 * iterations + 1)

    def search(self, search: TreeSearch) -> FoundPath:
        """Grow the tree until it reaches a goal."""
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
