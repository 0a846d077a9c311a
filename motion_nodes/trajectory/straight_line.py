# SPDX-License-Identifier: Apache-2.0
"""The fastest motion along a straight line from rest to rest, in closed form.

All joints move in proportion, so limits of velocity, acceleration and jerk bound the distance along
the line as they bound one joint: seven phases of constant jerk, of which some may take no time.

Source: L. Biagiotti, C. Melchiorri, "Trajectory Planning for Automatic Machines and Robots",
Springer 2008, section 3.4 (double S velocity profile, rest to rest).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SIGNS = (1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0)
"""Of the jerk in the phases."""
_PARTS = 8
"""Intervals of a phase of the clock, so that bounds taken from samples are close."""


def phase_times(
    length: float, velocity: float, acceleration: float, jerk: float
) -> tuple[float, float, float]:
    """Return how long the jerk lasts, how long the acceleration stays even, and the velocity [s].

    Args:
        length: of the way, above 0.
        velocity: greatest one; this and the others finite and above 0, in units of the length.
        acceleration: greatest one.
        jerk: greatest one.
    """
    if velocity * jerk < acceleration**2:
        ramp, even = math.sqrt(velocity / jerk), 0.0
    else:
        ramp = acceleration / jerk
        even = velocity / acceleration - ramp
    speed = jerk * ramp * (ramp + even)
    cruise = length / speed - (2.0 * ramp + even)
    if cruise >= 0.0:
        return ramp, even, cruise
    # The velocity's limit is not reached; at first the acceleration's still is.
    ramp = acceleration / jerk
    even = 0.5 * (math.sqrt(ramp**2 + 4.0 * length / acceleration) - 3.0 * ramp)
    if even >= 0.0:
        return ramp, even, 0.0
    return math.cbrt(0.5 * length / jerk), 0.0, 0.0


def straight_clock(
    start: float, length: float, velocity: float, acceleration: float, jerk: float
) -> tuple[Array, Array]:
    """Return durations of intervals [s], shape (N,), and the clock in them, shape (N, 6).

    Args:
        start: distance at which the line begins.
        length: of the line, above 0.
        velocity: greatest one along the line; this and the others finite and above 0.
        acceleration: greatest one.
        jerk: greatest one.
    """
    ramp, even, cruise = phase_times(length, velocity, acceleration, jerk)
    phases = (ramp, even, ramp, cruise, ramp, even, ramp)
    spans: list[float] = []
    rows: list[tuple[float, ...]] = []
    s, v, a = 0.0, 0.0, 0.0
    for sign, duration in zip(_SIGNS, phases, strict=True):
        if duration <= 0.0:
            continue
        h, third = duration / _PARTS, sign * jerk / 6.0
        for _ in range(_PARTS):
            spans.append(h)
            rows.append((start + s, v, 0.5 * a, third, 0.0, 0.0))
            s += h * (v + h * (0.5 * a + h * third))
            v += h * (a + 3.0 * h * third)
            a += 6.0 * h * third
    clock = np.array(rows)
    # What rounding has left is taken up by the scale, so that the end is met.
    clock[:, 0] = start + (clock[:, 0] - start) * (length / s)
    clock[:, 1:] *= length / s
    return np.array(spans), clock
