# SPDX-License-Identifier: Apache-2.0
"""How even a recorded stream of references is: differences at its period against limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Differences:
    """First and second differences as shares of the velocity and acceleration limits."""

    first_p99: float
    first_max: float
    second_p99: float
    second_max: float

    @classmethod
    def of(cls, q: Array, times: Array, velocity: Array, acceleration: Array) -> Differences:
        """Return those of samples, shape (k, n), at rising times [s], shape (k,)."""
        if len(q) < 3:
            return cls(*[float("nan")] * 4)
        dt = np.diff(times)[:, None]
        v = np.diff(q, axis=0) / dt
        a = np.diff(v, axis=0) / (0.5 * (dt[1:] + dt[:-1]))
        first = (np.abs(v) / velocity).max(axis=1)
        second = (np.abs(a) / acceleration).max(axis=1)
        return cls(*(float(np.percentile(x, p)) for x in (first, second) for p in (99, 100)))


@dataclass(frozen=True)
class Evenness:
    """Figures of one part of a stream."""

    messages: int
    repeated: int
    """Messages with the position of the one before while the reference moves by more than it could
    gain in a period."""
    doubled: int
    """Steps of more than one and a half periods of the reference's velocity, likewise."""
    gaps: int
    """Stamps more than one period after the one before."""
    by_order: Differences
    by_stamp: Differences


def evenness(
    stamps_ns: NDArray[np.int64], q: Array, v: Array, period: float, limits: tuple[Array, Array]
) -> Evenness:
    """Examine the messages of a stream in the order in which they came.

    Their stamps, shape (k,), positions [rad or m] and velocities, shape (k, n); the period of the
    stream [s]; limits of velocity and acceleration, shape (n,) each.
    """
    if len(q) < 3:
        none = Differences.of(q, np.arange(len(q)), *limits)
        return Evenness(len(q), 0, 0, 0, none, none)
    step = np.abs(np.diff(q, axis=0))
    speed = np.maximum(np.abs(v[1:]), np.abs(v[:-1]))
    moving = np.minimum(np.abs(v[1:]), np.abs(v[:-1])) > limits[1] * period
    repeated = (moving & (step < 0.01 * speed * period)).any(axis=1)
    doubled = (moving & (step > 1.5 * speed * period)).any(axis=1)
    apart = np.diff(stamps_ns)
    # The last message of a node is sent twice; it counts once.
    own = np.concatenate(([True], apart > 0))
    return Evenness(
        len(q), int(repeated.sum()), int(doubled.sum()), int((apart > 1.5e9 * period).sum()),
        Differences.of(q, period * np.arange(len(q)), *limits),
        Differences.of(q[own], 1e-9 * (stamps_ns[own] - stamps_ns[0]), *limits),
    )  # fmt: skip
