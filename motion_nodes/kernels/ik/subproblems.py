# SPDX-License-Identifier: Apache-2.0
"""Geometric subproblems of closed-form inverse kinematics.

Each computes the angles about an axis that move a point to a given locus. Vectors are tuples of
three numbers, which the compiler keeps in registers; axes ``k`` have unit length.

Sources: R. Murray, Z. Li, S. Sastry, "A Mathematical Introduction to Robotic Manipulation", 1994,
section 3.3 (problems 1 and 3); A. J. Elias, J. T. Wen, "IK-Geo: Unified robot inverse kinematics
using subproblem decomposition", Mechanism and Machine Theory 209, 2025 (problem 4, and the idea to
return least squares solutions where there is no exact one, and to verify solutions at the end).
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.jit import part
from motion_nodes.typing import Array

Vector = tuple[float, float, float]

_TURN = 2.0 * math.pi
NOTHING = 1e-7
"""A circle with a smaller radius [m, or -] counts as a point: the angle is undetermined. Rounding
gives radii of about 1e-8 for a stretched arm."""


@part
def row(a: Array, i: int) -> Vector:
    """Return a row of an array as a vector of shape (3,)."""
    return a[i, 0], a[i, 1], a[i, 2]


@part
def dot(a: Vector, b: Vector) -> float:
    """Return the inner product of two vectors of shape (3,)."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@part
def cross(a: Vector, b: Vector) -> Vector:
    """Return the vector product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@part
def minus(a: Vector, b: Vector) -> Vector:
    """Return the difference."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@part
def along(a: Vector, factor: float, b: Vector) -> Vector:
    """Return ``a + factor b``."""
    return a[0] + factor * b[0], a[1] + factor * b[1], a[2] + factor * b[2]


@part
def length(a: Vector) -> float:
    """Return the length of a vector, in its unit [m, or -]."""
    return math.sqrt(dot(a, a))


@part
def times(R: Array, v: Vector) -> Vector:
    """Return ``R v``, shapes (3, 3) and (3,)."""
    return (
        R[0, 0] * v[0] + R[0, 1] * v[1] + R[0, 2] * v[2],
        R[1, 0] * v[0] + R[1, 1] * v[1] + R[1, 2] * v[2],
        R[2, 0] * v[0] + R[2, 1] * v[1] + R[2, 2] * v[2],
    )


@part
def back(R: Array, v: Vector) -> Vector:
    """Return ``R^T v``, shapes (3, 3) and (3,)."""
    return (
        R[0, 0] * v[0] + R[1, 0] * v[1] + R[2, 0] * v[2],
        R[0, 1] * v[0] + R[1, 1] * v[1] + R[2, 1] * v[2],
        R[0, 2] * v[0] + R[1, 2] * v[1] + R[2, 2] * v[2],
    )


@part
def turned(k: Vector, angle: float, v: Vector) -> Vector:
    """Return a vector rotated about an axis by an angle [rad]."""
    return turned_by(k, math.cos(angle), math.sin(angle), v)


@part
def turned_by(k: Vector, c: float, s: float, v: Vector) -> Vector:
    """Return a vector, shape (3,), rotated by an angle with a given cosine and sine (Rodrigues)."""
    part = (1.0 - c) * dot(k, v)
    side = cross(k, v)
    return (
        c * v[0] + s * side[0] + part * k[0],
        c * v[1] + s * side[1] + part * k[1],
        c * v[2] + s * side[2] + part * k[2],
    )


@part
def across(k: Vector) -> Vector:
    """Return a unit vector perpendicular to another."""
    x, y, z = abs(k[0]), abs(k[1]), abs(k[2])
    if x <= y and x <= z:
        v = cross(k, (1.0, 0.0, 0.0))
    elif y <= z:
        v = cross(k, (0.0, 1.0, 0.0))
    else:
        v = cross(k, (0.0, 0.0, 1.0))
    factor = 1.0 / length(v)
    return factor * v[0], factor * v[1], factor * v[2]


@part
def angle_to(k: Vector, p: Vector, q: Vector, usual: float) -> float:
    """Return the angle about k that moves p closest to q (problem 1) [rad].

    If either is on the axis, the angle is undetermined; the result is ``usual``.
    """
    s = dot(k, cross(p, q))
    c = dot(p, q) - dot(k, p) * dot(k, q)
    if abs(s) + abs(c) < NOTHING * NOTHING:
        return usual
    return math.atan2(s, c)


@part
def angles_to_plane(
    h: Vector, k: Vector, p: Vector, d: float, usual: float, slack: float
) -> tuple[int, float, float]:
    """Return the angles about k for which ``h . turned p = d`` (problem 4).

    Args:
        h: direction along which d is measured.
        k: the axis.
        p: the point [m, or -].
        d: the required height, in the unit of p.
        usual: the result if the angle is undetermined [rad].
        slack: tolerance by which a cosine may exceed 1.

    Returns:
        Number of solutions, 0 to 2, and the angles [rad]. If the plane is tangent to the circle,
        both are equal; if it misses the circle within the tolerance, they are as far apart as if it
        cut the circle by as much; if the angle is undetermined, the only one is ``usual``.
    """
    on_axis = dot(h, k) * dot(k, p)
    a = dot(h, p) - on_axis
    b = dot(h, cross(k, p))
    e = d - on_axis
    r = math.hypot(a, b)
    if r < NOTHING:
        return (1, usual, usual) if abs(e) < slack else (0, usual, usual)
    if abs(e) > r + slack * max(r, 1e-3):
        return 0, usual, usual
    middle = math.atan2(b, a)
    half = math.atan2(math.sqrt(abs((r - e) * (r + e))), e)
    return 2, middle + half, middle - half


@part
def angles_to_distance(
    k: Vector, p: Vector, q: Vector, d: float, usual: float, slack: float
) -> tuple[int, float, float]:
    """Return angles [rad] about k for which the rotated p is at distance d [m] from q (problem 3).

    For the other arguments see :func:`angles_to_plane`.
    """
    return angles_to_plane(q, k, p, 0.5 * (dot(p, p) + dot(q, q) - d * d), usual, slack)


@part
def common_normal(h1: Vector, p1: Vector, h2: Vector, p2: Vector) -> tuple[Vector, Vector]:
    """Return the closest points [m] of two lines.

    For parallel lines the first is the given point.
    """
    d = minus(p2, p1)
    c = dot(h1, h2)
    x, y = dot(h1, d), dot(h2, d)
    sine = 1.0 - c * c
    if sine < NOTHING * NOTHING:
        return p1, along(p2, -y, h2)
    return along(p1, (x - c * y) / sine, h1), along(p2, (c * x - y) / sine, h2)


@part
def within(room: Array, i: int, angle: float) -> bool:
    """Return whether an angle [rad] plus some full turns is within a joint's limits."""
    x = (angle - room[0, i]) / _TURN
    return bool(_TURN * (x - math.floor(x)) <= room[1, i])


@part
def zeros_of_wave(f: Array, out: Array) -> int:
    """Find the approximate zeros of ``f0 + f1 cos x + f2 sin x + f3 cos 2x + f4 sin 2x``.

    With ``z = exp(i x)`` this is a polynomial of degree four, whose zeros on the unit circle are
    required. Nearly double zeros, possibly separated by rounding, are included: the caller verifies
    them.

    Args:
        f: coefficients, shape (5,).
        out: the angles [rad], shape (4,).

    Returns:
        Number of zeros.

    Source: O. Aberth, "Iteration methods for finding all zeros of a polynomial simultaneously",
    Mathematics of Computation 27, 1973.
    """
    scale = 0.0
    for i in range(5):
        scale = max(scale, abs(f[i]))
    if math.hypot(f[3], f[4]) < 1e-12 * scale:
        count, out[0], out[1] = angles_to_plane(
            (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (f[1], -f[2], 0.0), -f[0], 0.0, 1e-6
        )
        return count
    g1, g2 = complex(0.5 * f[1], -0.5 * f[2]), complex(0.5 * f[3], -0.5 * f[4])
    z = np.empty(4, np.complex128)
    for i in range(4):
        z[i] = complex(math.cos(0.4 + 1.6 * i), math.sin(0.4 + 1.6 * i)) * (0.8 + 0.1 * i)
    for _ in range(60):
        moved = 0.0
        for i in range(4):
            u = z[i]
            value = (((g2 * u + g1) * u + f[0]) * u + g1.conjugate()) * u + g2.conjugate()
            slope = ((4.0 * g2 * u + 3.0 * g1) * u + 2.0 * f[0]) * u + g1.conjugate()
            others = 0.0j
            for j in range(4):
                if j != i and z[j] != u:
                    others += 1.0 / (u - z[j])
            below = slope - value * others
            if below == 0.0j:
                below = complex(1e-300, 0.0)
            step = value / below
            z[i] = u - step
            moved = max(moved, abs(step))
        if moved < 1e-15:
            break
    count = 0
    for i in range(4):
        if abs(abs(z[i]) - 1.0) < 1e-3:
            out[count] = math.atan2(z[i].imag, z[i].real)
            count += 1
    return count
