# SPDX-License-Identifier: Apache-2.0
"""Joint space: differences, distances, and samples of intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.limits import JointTurns
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


def difference(q2: ArrayLike, q1: ArrayLike, continuous: ArrayLike | None = None) -> Array:
    """Return ``q2 - q1``, the shorter direction for continuous joints.

    Args:
        q2: joint positions [rad or m], shape (..., n).
        q1: joint positions [rad or m], shape (..., n).
        continuous: which joints are continuous, shape (n,), bool; default: none.

    Returns:
        Shape (..., n); for continuous joints from -pi to pi.
    """
    mask = np.zeros(1, np.bool_) if continuous is None else np.asarray(continuous, np.bool_)
    return JointTurns(mask).difference(q1, q2)


def distance(
    q2: ArrayLike,
    q1: ArrayLike,
    weights: ArrayLike = 1.0,
    norm: float = 2.0,
    continuous: ArrayLike | None = None,
) -> Array:
    """Return the p-norm of the weighted difference.

    Args:
        q2: joint positions [rad or m], shape (..., n).
        q1: joint positions [rad or m], shape (..., n).
        weights: of the joints, shape (n,) or a scalar.
        norm: p, at least 1; ``math.inf`` for the maximum norm.
        continuous: see :func:`difference`.

    Returns:
        Shape (...).

    Raises:
        InvalidConfig: a norm below 1, or a negative weight.
    """
    w = np.asarray(weights, np.float64)
    if not norm >= 1.0:
        raise InvalidConfig(
            f"norm is {norm}; it must be at least 1 (math.inf: the max joint displacement).",
            field="norm",
        )
    if not (w >= 0.0).all():
        raise InvalidConfig(f"weights must not be negative, got {weights!r}.", field="weights")
    d = w * difference(q2, q1, continuous)
    return np.asarray(np.linalg.norm(np.atleast_1d(d), ord=norm, axis=-1))


def halton(count: int, dimensions: int, first: int = 1) -> Array:
    """Return low-discrepancy points in the unit cube, one per row, shape (count, dimensions).

    Args:
        count: number of points.
        dimensions: at most 16.
        first: index of the first; 0 is the origin.

    Raises:
        InvalidConfig: too many dimensions.

    Source: J. H. Halton, "On the efficiency of certain quasi-random sequences of points", 1960.
    """
    if not 0 <= dimensions <= len(_PRIMES):
        raise InvalidConfig(f"halton has 0 to {len(_PRIMES)} dimensions, got {dimensions}.")
    points = np.zeros((count, dimensions))
    for column, base in enumerate(_PRIMES[:dimensions]):
        index = np.arange(first, first + count)
        weight = 1.0 / base
        while index.any():
            points[:, column] += weight * (index % base)
            index //= base
            weight /= base
    return points


def interval_samples(
    lower: ArrayLike, upper: ArrayLike, *, seed: int | Sequence[int] = 0
) -> Iterator[Array]:
    """Yield random points between bounds, without end; a single point if the bounds are equal.

    Args:
        lower: finite lower bounds, shape (n,).
        upper: finite upper bounds, shape (n,).
        seed: of the points.

    Raises:
        InvalidConfig: bounds of different lengths, not finite, or in the wrong order.
    """
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    if low.ndim != 1 or low.shape != high.shape:
        raise InvalidConfig(
            f"bounds must be two lists of one length, got {lower!r} and {upper!r}.", field="bounds"
        )
    if not (np.isfinite(low) & np.isfinite(high) & (low <= high)).all():
        raise InvalidConfig(
            f"bounds must be finite and in order, got {lower!r} and {upper!r}.", field="bounds"
        )
    return _samples(low, high, np.random.default_rng(seed))


def _samples(low: Array, high: Array, rng: np.random.Generator) -> Iterator[Array]:
    if (low == high).all():
        yield low.copy()
        return
    while True:
        shares = rng.uniform(size=(64, len(low)))
        yield from np.clip((1.0 - shares) * low + shares * high, low, high)  # despite rounding


def free_joint_samples(
    current: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    max_distance: float = math.inf,
    max_attempts: int | None = None,
    seed: int = 0,
) -> Iterator[Array]:
    """Yield values of the redundant joints of an analytic solver: the current ones first.

    Further ones are within ``max_distance`` of the current ones and within the limits.

    Args:
        current: positions of the redundant joints [rad or m], shape (n,).
        lower: lower limits [rad or m], shape (n,).
        upper: upper limits [rad or m], shape (n,).
        max_distance: max change of each joint [rad or m].
        max_attempts: number of values; None: unlimited, for callers with a timeout.
        seed: see :func:`interval_samples`.
    """
    now = np.asarray(current, np.float64)
    low = np.minimum(np.maximum(np.asarray(lower, np.float64), now - max_distance), now)
    high = np.maximum(np.minimum(np.asarray(upper, np.float64), now + max_distance), now)
    samples = interval_samples(low, high, seed=seed)
    yield now.copy()
    for count, sample in enumerate(samples, start=1):
        if (max_attempts is not None and count >= max_attempts) or (low == high).all():
            return
        yield sample
