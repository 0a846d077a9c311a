# SPDX-License-Identifier: Apache-2.0
"""Low-discrepancy samples of joint space, at the cost of one addition per joint.

Most solutions pass near the region between start and goals, so a fraction of the samples is drawn
from the bounding box of start and goals with a margin, the others from the whole space.

Additive recurrence: each joint's sample advances by an irrational fraction of its range and is
wrapped back into it. A random offset makes sequences of different random seeds differ.

Source: M. Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018: the fractions
are powers of the root of ``x^(n + 1) = x + 1``; the random offset is Cranley and Patterson's.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from motion_nodes.kernels.jit import inlined
from motion_nodes.kernels.search.random_numbers import INCREMENT, mixed
from motion_nodes.typing import Array


class Samples(NamedTuple):
    """Two sequences of samples: in the whole space, and near start and goals."""

    lower: Array
    """Lower bounds of both [rad or m], shape (2, n)."""
    width: Array
    """Ranges of both [rad or m], shape (2, n)."""
    place: Array
    """Current values of both, 0..1, shape (2, n)."""
    steps: Array
    """Increments, shape (n,)."""
    turn: Array
    """Fraction of samples near start and goals, and its accumulated remainder, shape (2,)."""
    margin: float
    """Margin of the box around start and goals, as a fraction of the joint ranges."""


def make_samples(lower: Array, upper: Array, margin: float, share: float) -> Samples:
    """Return sequences for one space; call :func:`begin` before the first sample.

    Args:
        lower: lower bounds [rad or m], shape (n,).
        upper: upper bounds [rad or m], shape (n,).
        margin: of the box around start and goals, as a fraction of the joint ranges.
        share: fraction of samples drawn from that box, 0..1.
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
    """Return the increments of samples of n joints."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (n + 1))
    return root ** -np.arange(1.0, n + 1)


@inlined
def begin(samples: Samples, random_seed: int) -> None:
    """Reset both sequences; equal random seeds give equal sequences."""
    n, state = samples.place.shape[1], np.uint64(random_seed) * np.uint64(0xD1342543DE82EF95)
    for k in range(2 * n):
        state += INCREMENT
        samples.place[k // n, k % n] = mixed(state)
    samples.turn[1] = 0.0


@inlined
def draw_near(samples: Samples, d: int, lowest: float, highest: float) -> None:
    """Set the box of a joint from its min and max position [rad or m] in start and goals."""
    low, width = samples.lower[0, d], samples.width[0, d]
    room = samples.margin * width
    near = max(low, lowest - room)
    samples.lower[1, d] = near
    samples.width[1, d] = max(min(low + width, highest + room) - near, 0.0)


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
