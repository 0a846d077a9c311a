# SPDX-License-Identifier: Apache-2.0
"""Time-optimal motion along a straight line from rest to rest, in closed form.

All joints move in proportion, so limits of velocity, acceleration and jerk apply to the distance
along the line as to one joint: seven phases of constant jerk, some of which may be empty.

Source: L. Biagiotti, C. Melchiorri, "Trajectory Planning for Automatic Machines and Robots",
Springer 2008, section 3.4 (double S velocity profile, rest to rest).
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.typing import Array

_SIGNS = (1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0)
"""Signs of the jerk in the phases."""
_PARTS = 8
"""Clock intervals per phase, so that sampled bounds are tight."""


def phase_times(
    length: float, velocity: float, acceleration: float, jerk: float
) -> tuple[float, float, float]:
    """Return durations of jerk and of constant acceleration [s], and the max velocity.

    Args:
        length: of the line, above 0.
        velocity: limit; this and the others finite and above 0, in units of the length.
        acceleration: limit.
        jerk: limit.
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
    # The velocity limit is not reached; assume that the acceleration limit is.
    ramp = acceleration / jerk
    even = 0.5 * (math.sqrt(ramp**2 + 4.0 * length / acceleration) - 3.0 * ramp)
    if even >= 0.0:
        return ramp, even, 0.0
    return math.cbrt(0.5 * length / jerk), 0.0, 0.0


def straight_clock(
    start: float, length: float, velocity: float, acceleration: float, jerk: float
) -> tuple[Array, Array]:
    """Return durations of intervals [s], shape (N,), and their clock, shape (N, 6).

    Args:
        start: distance at which the line begins.
        length: of the line, above 0.
        velocity: limit along the line; this and the others finite and above 0.
        acceleration: limit.
        jerk: limit.
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
    # Scaled to compensate rounding, so that the end is met exactly.
    clock[:, 0] = start + (clock[:, 0] - start) * (length / s)
    clock[:, 1:] *= length / s
    return np.array(spans), clock
