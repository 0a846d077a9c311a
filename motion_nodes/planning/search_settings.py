# SPDX-License-Identifier: Apache-2.0
"""Settings of RRT-Connect, of shortening paths and of making them better while time lasts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.tree import Array
from motion_nodes.planning.tree_search import check_number

NO_BOUND = 2**31 - 1
"""More iterations than any search makes in its time."""


@dataclass(frozen=True)
class RrtConnectSettings:
    """How two trees grow towards each other; the defaults suit arms of six and seven joints."""

    step_size: float = 0.0
    """Greatest length of an edge, in the weighted metric; 0: a thirteenth of the space's diagonal.

    Edges are checked all along, so long ones are as safe as short ones."""
    max_iterations: int = 0
    """Max number of extensions towards samples; 0: only the time allowed for planning counts."""
    max_sampling: int = 10_000
    """Samples that may be out of reach of the trees before one is tried all the same."""
    distance_metric_weights: tuple[float, ...] = ()
    """Of the joints in distances; none given: 1 each."""
    exploration_fraction: float = 0.5
    """Share of the steps that go to samples; the others go from one tree to the other. Below 0.5
    further steps start at random nodes; above it not each new node is tried."""
    focus: float = 0.8
    """Share of the samples from the box around start and goals, 0..1."""
    focus_margin: float = 0.25
    """How far that box goes beyond them, as a part of the joints' ranges."""
    dynamic_domain: bool = True
    """Whether nodes at obstacles are extended only towards samples near to them."""
    threads: int = 1
    """Searches with different seeds side by side, of which the first to succeed wins. With more
    than one, equal seeds no longer mean equal paths."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_number("step_size", self.step_size, 0.0)
        check_number("max_iterations", self.max_iterations, 0)
        check_number("max_sampling", self.max_sampling, 1)
        check_number("exploration_fraction", self.exploration_fraction, 0.0, 1.0)
        check_number("focus", self.focus, 0.0, 1.0)
        check_number("focus_margin", self.focus_margin, 0.0, 1.0)
        check_number("threads", self.threads, 1, 64)

    @property
    def iteration_bound(self) -> int:
        """The max number of extensions as kernels take it."""
        return int(self.max_iterations) or NO_BOUND


@dataclass(frozen=True)
class ShorteningSettings:
    """How much is done to make a path shorter."""

    rounds: int = 3
    """Each leaves out waypoints, jumps, and cuts corners; one without a gain is the last."""
    jumps: int = 0
    """Random shortcuts that each round tries. Worth it for paths that are followed often."""
    corner_tries: int = 2
    """For the best cut of a corner, by bisection."""
    least_gain: float = 0.0005
    """Cuts and rounds that save a smaller part of the length are not worth it."""
    distance_metric_weights: tuple[float, ...] = ()
    """Of the joints in lengths; none given: 1 each."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_number("rounds", self.rounds, 0)
        check_number("jumps", self.jumps, 0)
        check_number("corner_tries", self.corner_tries, 0, 20)
        check_number("least_gain", self.least_gain, 0.0, 1.0)

    def checked_weights(self, joints: int) -> Array:
        """Return the weights of so many joints, shape (n,).

        Raises:
            InvalidConfig: there are more or fewer, or some are not positive and finite.
        """
        given = self.distance_metric_weights
        weights = np.ones(joints) if not given else np.array(given, dtype=np.float64)
        if weights.shape != (joints,) or not (np.isfinite(weights) & (weights > 0.0)).all():
            raise InvalidConfig(
                f"distance_metric_weights is {given}; it must hold {joints} finite numbers above 0."
            )
        return weights


@dataclass(frozen=True)
class AnytimeSettings:
    """How paths are made shorter while time lasts."""

    optimization_time: float = 0.1
    """So long after the request the best path is returned, and no later than its timeout [s]."""
    least_gain: float = 0.002
    """Paths must be better than the best one by this part of its length."""
    search: RrtConnectSettings = field(default_factory=RrtConnectSettings)
    """How the first path is found; metric, step size and iterations hold for all searches."""
    shortening: ShorteningSettings = field(
        default_factory=lambda: ShorteningSettings(rounds=8, jumps=10, corner_tries=3)
    )
    """How each path that was found is shortened."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_number("optimization_time", self.optimization_time, 0.0)
        check_number("least_gain", self.least_gain, 0.0, 1.0)
