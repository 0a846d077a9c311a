# SPDX-License-Identifier: Apache-2.0
"""Samples of a stream of references, and the polynomials that connect them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motion_nodes.typing import Array


class StreamSample(NamedTuple):
    """One value per joint and channel, NaN for no value."""

    position: Array
    """Positions [rad or m], shape (n,)."""
    velocity: Array
    """Velocities [rad/s or m/s], shape (n,)."""
    effort: Array
    """Efforts [N m or N], shape (n,)."""


def rests(sample: StreamSample) -> bool:
    """Return whether a sample commands no velocity other than 0."""
    velocity = sample.velocity
    return not (velocity[~np.isnan(velocity)] != 0.0).any()


class Rest(NamedTuple):
    """A constant reference from ``stamp_ns`` on, used instead of a :class:`Piece`."""

    stamp_ns: int
    sample: StreamSample

    def at(self, _t: float) -> StreamSample:
        """Return the sample."""
        return self.sample


@dataclass(frozen=True, eq=False)
class Piece:
    """Polynomials in the time since ``stamp_ns`` [s], lowest coefficient first."""

    stamp_ns: int
    position: tuple[Array, Array, Array, Array]
    velocity: tuple[Array, Array, Array]
    effort: tuple[Array, Array]

    def at(self, t: float) -> StreamSample:
        """Return the values at a time since ``stamp_ns`` [s]."""
        p, v, e = self.position, self.velocity, self.effort
        return StreamSample(
            p[0] + t * (p[1] + t * (p[2] + t * p[3])), v[0] + t * (v[1] + t * v[2]), e[0] + t * e[1]
        )


@dataclass(frozen=True, eq=False)
class Knot:
    """One message of a stream."""

    stamp_ns: int
    sample: StreamSample
    piece: Piece | Rest | None = None
    """Piece from the previous knot to this one; None if they are not connected."""

    @property
    def braking(self) -> Array:
        """Mean accelerations since the previous knot that oppose velocities [rad/s^2], else 0."""
        position, velocity, _ = self.sample
        if self.piece is None or isinstance(self.piece, Rest):
            return np.zeros_like(position)
        duration = (self.stamp_ns - self.piece.stamp_ns) * 1e-9
        rate = np.nan_to_num(velocity - self.piece.velocity[0]) / duration
        opposing = (rate * np.nan_to_num(velocity) < 0.0) & ~np.isnan(position)
        return np.where(opposing, rate, 0.0)


def hermite(last: Knot, sample: StreamSample, h: float) -> Piece:
    """Return the interpolation of two samples ``h`` [s] apart.

    Positions with velocities: cubic; without, or with velocities of 0 (drives that only damp):
    linear. Velocities alone: linear. A channel of only one of them: the value of the first, until
    the stamp of the second.
    """
    (q0, v0, e0), (q1, v1, e1) = last.sample, sample
    zero = np.zeros_like(q0)
    slope = (q1 - q0) / h
    damped = (v0 == 0.0) & (v1 == 0.0)
    cubic = ~np.isnan(slope + v0 + v1) & ~damped
    line = ~np.isnan(slope) & (damped | (np.isnan(v0) & np.isnan(v1)))
    driven = np.isnan(q0) & np.isnan(q1) & ~np.isnan(v0 + v1)
    c1 = np.where(cubic, v0, np.where(line, slope, zero))
    c2 = np.where(cubic, (3.0 * slope - 2.0 * v0 - v1) / h, zero)
    c3 = np.where(cubic, (v0 + v1 - 2.0 * slope) / h**2, zero)
    rate = np.where(cubic, 2.0 * c2, np.where(driven, (v1 - v0) / h, zero))
    e_rate = (e1 - e0) / h
    return Piece(
        last.stamp_ns,
        (q0, c1, c2, c3),
        (v0, rate, 3.0 * c3),
        (e0, np.where(np.isnan(e_rate), zero, e_rate)),
    )
