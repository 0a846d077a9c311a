# SPDX-License-Identifier: Apache-2.0
"""Sampled attractors: stop, direct motions, variations of the plan, and detours."""

from __future__ import annotations

import numpy as np

from motion_nodes.mpc.mpc_settings import MpcSettings
from motion_nodes.typing import Array

BRAKE = 0
"""Index of the sample that brakes to a stop."""
PLAN, MEAN = 1, 2
"""Indices of the plan in use, and of the mean of its best variations."""
DIRECT = 3
"""Index of the first sample that moves straight to a goal; there is one per goal."""
_DETOURS = 0.3
"""Fraction of detours among the samples."""
_QUIET = (0.05, 1.0)
"""Range of a random number per sample, whose square scales the noise."""


class AttractorSampler:
    """Draws the samples of each plan; repeatable for equal seeds."""

    def __init__(self, settings: MpcSettings, lower: Array, upper: Array, lanes: int) -> None:
        """Create.

        Args:
            settings: number of samples and knots, noise, seed.
            lower: lower limits of the joints [rad or m], shape (n,); may be infinite.
            upper: upper limits of the joints [rad or m], shape (n,); may be infinite.
            lanes: the number of samples is rounded up to a multiple of it.
        """
        self.settings = settings
        self.count = -(-settings.samples // lanes) * lanes
        self.range = sampling_range(lower, upper)
        """Limits within which detours are drawn, finite [rad or m], shape (n,) each."""
        self._limits = lower, upper
        self.reset()

    def reset(self) -> None:
        """Reset the random numbers."""
        self._rng = np.random.default_rng(self.settings.seed)

    def draw(
        self, q: Array, goals: Array, posture: Array, plan: Array, mean: Array, branch: int,
        brake: Array,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Return attractors of all samples, shape (s, k, n), and the index of the goal of each.

        Positions are in [rad or m].

        Args:
            q: current positions, shape (n,).
            goals: configurations at which motions may end, shape (b, n).
            posture: target posture, shape (n,).
            plan: knots of the plan in use, shape (k, n).
            mean: mean of its best variations, shape (k, n).
            branch: index of its goal.
            brake: positions at which the joints stop if they brake, shape (n,).
        """
        k, n = plan.shape
        knots = np.empty((self.count, k, n))
        branches = np.full(self.count, branch)
        knots[BRAKE], knots[PLAN], knots[MEAN] = brake, plan, mean
        first = DIRECT + len(goals)
        knots[DIRECT:first] = goals[:, None]
        branches[DIRECT:first] = np.arange(len(goals))
        varied = first + round((1.0 - _DETOURS) * (self.count - first))
        knots[first:varied] = self._variations(varied - first, mean, plan)
        branches[varied:] = self._rng.integers(len(goals), size=self.count - varied)
        knots[varied:] = self._detours(q, goals[branches[varied:]], posture, k)
        return np.clip(knots, *self._limits), branches

    def _variations(self, count: int, mean: Array, plan: Array) -> Array:
        """Return noise around the mean and the plan, shape (count, k, n)."""
        scale = self.settings.noise * self._rng.uniform(*_QUIET, (count, 1, 1)) ** 2
        noise = scale * self._rng.standard_normal((count, *mean.shape))
        centres = np.where(np.arange(count)[:, None, None] % 2, mean, plan)
        return np.asarray(centres + noise)

    def _detours(self, q: Array, goals: Array, posture: Array, k: int) -> Array:
        """Return motions to a random configuration, then to a goal, shape (s, k, n)."""
        rng, (count, n) = self._rng, goals.shape
        anywhere = rng.uniform(*self.range, (count, n))
        share = rng.uniform(0.0, 0.6, (count, 1))
        start = np.where(rng.uniform(size=(count, 1)) < 0.3, posture, q)
        middle = start + rng.uniform(0.0, 1.0, (count, 1)) * (goals - start)
        via = middle + share * (anywhere - middle)
        leave = rng.integers(1, k, size=(count, 1, 1))
        return np.where(np.arange(k)[None, :, None] < leave, via[:, None], goals[:, None])


def sampling_range(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the part of joint limits in which configurations are drawn, finite [rad or m].

    It is within pi of 0, or of the limit that is closest to 0; all arrays have shape (n,).
    """
    middle = np.clip(0.0, lower, upper)
    return np.maximum(lower, middle - np.pi), np.minimum(upper, middle + np.pi)


def braking_attractor(q: Array, qd: Array, acceleration: Array) -> Array:
    """Return the positions at which joints stop if they brake [rad or m], shape (n,)."""
    return np.asarray(q + 0.5 * qd * np.abs(qd) / acceleration)
