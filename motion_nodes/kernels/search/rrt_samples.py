# SPDX-License-Identifier: Apache-2.0
"""Samples of joint space that fill it evenly, for the price of an addition per joint.

Most ways lead past what is between start and goals, so a share of the samples is drawn from the box
around these with some margin, the others from all of the space.

An additive recurrence: each joint's sample moves on by an irrational fraction of its range and is
folded back into it. A random start makes sequences of different seeds differ.

Source: M. Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018: the fractions
are powers of the root of ``x^(n + 1) = x + 1``; the random start is Cranley and Patterson's.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.jit import inlined
from motion_nodes.kernels.kinematic_arrays import Array


class Samples(NamedTuple):
    """Two sequences of samples: in all of the space, and near start and goals."""

    lower: Array
    """Least values of both [rad or m], shape (2, n)."""
    width: Array
    """Ranges of both, shape (2, n)."""
    place: Array
    """Where both are, 0..1, shape (2, n)."""
    steps: Array
    """How they move on, shape (n,)."""
    turn: Array
    """Share of samples near start and goals, and how much of the next one is due, shape (2,)."""
    margin: float
    """Of the box around start and goals, as a part of the joints' ranges."""


def make_samples(lower: Array, upper: Array, margin: float, share: float) -> Samples:
    """Return sequences for one space; :func:`begin` them before the first sample.

    Args:
        lower: least values, shape (n,).
        upper: greatest values, shape (n,).
        margin: of the box around start and goals, as a part of the joints' ranges.
        share: of samples that are drawn from it, 0..1.
    """
    n = len(lower)
    return Samples(
        lower=np.array((lower, lower)),
        width=np.array((upper - lower, upper - lower)),
        place=np.empty((2, n)),
        steps=_steps(n),
        turn=np.array([share, 0.0]),
        margin=margin,
    )


@functools.cache
def _steps(n: int) -> Array:
    """Return how far samples of n joints move on."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (n + 1))
    return root ** -np.arange(1.0, n + 1)


@inlined
def begin(samples: Samples, random_seed: int) -> None:
    """Put both sequences at their beginning; equal seeds give equal ones.

    Source: G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014 (SplitMix64).
    """
    n, state = samples.place.shape[1], np.uint64(random_seed) * np.uint64(0xD1342543DE82EF95)
    for k in range(2 * n):
        state += np.uint64(0x9E3779B97F4A7C15)
        z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) >> np.uint64(11)
        samples.place[k // n, k % n] = np.float64(z) / 9007199254740992.0
    samples.turn[1] = 0.0


@inlined
def draw_near(samples: Samples, d: int, least: float, greatest: float) -> None:
    """Set between which values of a joint start and goals are."""
    low, width = samples.lower[0, d], samples.width[0, d]
    room = samples.margin * width
    near = max(low, least - room)
    samples.lower[1, d] = near
    samples.width[1, d] = max(min(low + width, greatest + room) - near, 0.0)


@inlined
def sample(samples: Samples, out: Array) -> None:
    """Write the next sample to ``out``, shape (n,)."""
    due = samples.turn[1] + samples.turn[0]
    which = 1 if due >= 1.0 else 0
    samples.turn[1] = due - which
    for d in range(out.shape[0]):
        x = samples.place[which, d] + samples.steps[d]
        if x >= 1.0:
            x -= 1.0
        samples.place[which, d] = x
        out[d] = samples.lower[which, d] + x * samples.width[which, d]
