# SPDX-License-Identifier: Apache-2.0
"""Values of the redundant joint: the current one first, then others over its range.

An arm with six joints has no redundant joint (index -1); it is solved once, and the value is
ignored.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from motion_nodes.ik.joint_sampling import free_joint_samples, halton
from motion_nodes.model.tree import frozen
from motion_nodes.typing import Array

SWEEP = 25
"""Number of values tried at once."""

_SHARES = (np.arange(SWEEP) - 0.5) / (SWEEP - 1)


def grid(free: int, near: Array, limits: Array) -> Array:
    """Return the current value and 24 more, evenly spaced over the range, shape (m,)."""
    if free < 0:
        return near[:1]
    now, low, high = _range(free, near, limits)
    values = low + (high - low) * _SHARES
    values[0] = now
    return np.asarray(values)


def blocks(free: int, near: Array, limits: Array, attempts: int, patient: bool) -> Iterator[Array]:
    """Yield values to be tried together: the current one, then increasingly fine over the range.

    Values tried together are sorted by their distance from the current one.

    Args:
        free: index of the joint.
        near: current joint positions [rad], shape (n,).
        limits: lower and upper joint limits [rad], shape (2, n).
        attempts: total number of values.
        patient: True to yield all of them at once.
    """
    if free < 0:
        yield near[:1]
        return
    now, low, high = _range(free, near, limits)
    if not patient:
        yield np.array([now])
    more = low + (high - low) * _even(attempts - 1 if high > low else 0)
    if patient:
        yield np.append(now, more)
        return
    for start in range(0, len(more), SWEEP):
        block = more[start : start + SWEEP]
        yield block[np.argsort(np.abs(block - now))]


def samples(
    free: int, near: Array, limits: Array, attempts: int | None, reach: float, seed: int
) -> Iterator[Array]:
    """Yield the current value, shape (1,), then random ones within ``reach`` of it.

    ``attempts`` is the total number; None: unlimited.
    """
    if free < 0:
        yield near[:1]
        return
    now, low, high = _range(free, near, limits)
    yield from free_joint_samples(
        [now], [low], [high], max_distance=reach, max_attempts=attempts, seed=seed
    )


@functools.lru_cache(maxsize=8)
def _even(count: int) -> Array:
    """Return numbers that fill the range from 0 to 1 with increasing density."""
    return frozen(halton(count, 1)[:, 0])


def _range(free: int, near: Array, limits: Array) -> tuple[float, float, float]:
    """Return the current value, and the range of others; one turn without limits."""
    low, high = limits[:, free].tolist()
    now = min(max(float(near[free]), low), high)
    if math.isinf(low):
        low, high = now - math.pi, min(high, now + math.pi)
    return now, low, low + 2.0 * math.pi if math.isinf(high) else high
