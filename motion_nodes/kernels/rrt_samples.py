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

from motion_nodes.kernels.jit import part
from motion_nodes.kernels.packed import Array


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


def make_samples(
    lower: Array, upper: Array, near: Array, margin: float, share: float, random_seed: int
) -> Samples:
    """Return sequences at their beginning.

    Args:
        lower: least values, shape (n,).
        upper: greatest values, shape (n,).
        near: start and goals, shape (m, n).
        margin: of the box around these, as a part of the joints' ranges.
        share: of samples that are drawn from it, 0..1.
        random_seed: equal seeds give equal sequences.
    """
    n = len(lower)
    room = margin * (upper - lower)
    low = np.array((lower, np.maximum(lower, near.min(axis=0) - room)))
    high = np.array((upper, np.minimum(upper, near.max(axis=0) + room)))
    return Samples(
        lower=low,
        width=np.maximum(high - low, 0.0),
        place=_beginnings(random_seed, 2 * n).reshape(2, n).copy(),
        steps=_steps(n),
        turn=np.array([share, 0.0]),
    )


@functools.cache
def _steps(n: int) -> Array:
    """Return how far samples of n joints move on."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (n + 1))
    return root ** -np.arange(1.0, n + 1)


@functools.lru_cache(64)
def _beginnings(random_seed: int, count: int) -> Array:
    """Return random numbers in [0, 1), by SplitMix64; NumPy's generators take longer to make.

    Source: G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014.
    """
    numbers = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = numbers + np.uint64((random_seed * 0xD1342543DE82EF95) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) / 2.0**64 * (1.0 - 2.0**-53)


@part
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
