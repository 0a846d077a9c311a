# SPDX-License-Identifier: Apache-2.0
"""Settings of RRT-Connect, path shortening and anytime optimization."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from motion_nodes.core.planning.tree_search import MAX_COUNT, check_number, check_weights
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array


@dataclass(frozen=True)
class RrtConnectSettings:
    """Growth of two trees towards each other; the defaults suit one arm and two."""

    step_size: float = 0.0
    """Max length of an edge, in the weighted metric; 0: the space's diagonal divided
    by 13, or by 2.4 times the number of joints if that is more.

    Edges are fully checked, so long ones are as safe as short ones.
    """
    max_iterations: int = 0
    """Max number of extensions towards samples; 0: limited by the planning time only."""
    max_sampling: int = 100
    """Max number of samples out of reach of the trees before one is tried anyway."""
    distance_metric_weights: tuple[float, ...] = ()
    """Joint weights in distances; default: how far joints move the robot's spheres."""
    exploration_fraction: float = 0.5
    """Fraction of steps towards samples; the others connect the trees. Below 0.5 further
    connections start at random nodes; above it not every new node is tried."""
    focus: float = 0.25
    """Fraction of the samples from the box around start and goals, 0..1."""
    focus_margin: float = 0.25
    """Margin of that box, as a fraction of the joint ranges."""
    dynamic_domain: bool = True
    """Whether nodes at obstacles are extended only towards samples close to them."""
    threads: int = 1
    """Parallel searches with different seeds, of which the first success wins. With more than one,
    results are not reproducible."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_number("step_size", self.step_size, 0.0)
        check_number("max_iterations", self.max_iterations, 0, MAX_COUNT)
        check_number("max_sampling", self.max_sampling, 1, MAX_COUNT)
        check_weights(self.distance_metric_weights)
        check_number("exploration_fraction", self.exploration_fraction, 0.0, 1.0)
        check_number("focus", self.focus, 0.0, 1.0)
        check_number("focus_margin", self.focus_margin, 0.0, 1.0)
        check_number("threads", self.threads, 1, 64)

    @property
    def iteration_bound(self) -> int:
        """The max number of extensions for kernels."""
        return int(self.max_iterations) or MAX_COUNT


@dataclass(frozen=True)
class ShorteningSettings:
    """Amount of path shortening."""

    rounds: int = 3
    """Max number of rounds: each removes waypoints, adds shortcuts, and cuts corners; it ends
    without improvement."""
    jumps: int = 0
    """Random shortcuts per round; useful for paths that are executed often."""
    corner_tries: int = 2
    """Bisection steps for the best cut of a corner."""
    least_gain: float = 0.0005
    """Min relative reduction of the length by cuts and rounds."""
    distance_metric_weights: tuple[float, ...] = ()
    """Joint weights in lengths; default: 1 each."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        # The rounds of a short path are one kernel call, which cannot be cancelled.
        check_number("rounds", self.rounds, 0, 1000)
        check_number("jumps", self.jumps, 0, 10_000)
        check_weights(self.distance_metric_weights)
        check_number("corner_tries", self.corner_tries, 0, 20)
        check_number("least_gain", self.least_gain, 0.0, 1.0)

    def checked_weights(self, joints: int) -> Array:
        """Return the weights of the joints, shape (n,).

        Raises:
            InvalidConfig: wrong length, or weights that are not positive and finite.
        """
        given = self.distance_metric_weights
        weights = np.ones(joints) if not given else np.array(given, dtype=np.float64)
        if weights.shape != (joints,) or not (np.isfinite(weights) & (weights > 0.0)).all():
            raise InvalidConfig(
                f"distance_metric_weights is {given}; give {joints} finite numbers above 0.",
                field="distance_metric_weights",
            )
        return weights


@dataclass(frozen=True)
class AnytimeSettings:
    """Settings of anytime optimization."""

    optimization_time: float = 0.1
    """Duration after which the best path is returned, at most the request's timeout [s]."""
    least_gain: float = 0.002
    """Min relative improvement over the best path."""
    search: RrtConnectSettings = field(default_factory=RrtConnectSettings)
    """Search for the first path; metric (default: 1 for each joint, because lengths in it are
    minimized), step size and iterations apply to all searches."""
    shortening: ShorteningSettings = field(
        default_factory=lambda: ShorteningSettings(rounds=8, jumps=10, corner_tries=3)
    )
    """Shortening of each path found."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_number("optimization_time", self.optimization_time, 0.0)
        check_number("least_gain", self.least_gain, 0.0, 1.0)
