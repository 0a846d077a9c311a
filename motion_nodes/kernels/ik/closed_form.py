# SPDX-License-Identifier: Apache-2.0
"""All joint angles of a 6R arm for a given displacement, in closed form, and its subproblems.

The arm is a product of exponentials: ``D = e1 e2 e3 e4 e5 e6`` is the displacement of its last link
from the zero configuration, where ``e_i`` rotates about the line through the point ``p_i`` with
direction ``h_i``, as located at zero. Two kinds of arms are supported:

- a *spherical wrist*: the last three axes intersect in a point w, whose position depends on the
  first three joints only; the last three then orient the tip. Source: D. L. Pieper, "The kinematics
  of manipulators under computer control", Stanford, 1968, here coordinate-free.
- *three parallel axes*, the second to the fourth, and the last two intersect in a point w. Source:
  K. P. Hawkins, "Analytic inverse kinematics for the Universal Robots UR-5/UR-10 arms", Georgia
  Tech, 2013, here coordinate-free.

Angles are exact up to rounding if the axes satisfy these conditions exactly. Results are
candidates: they are not verified here.

Each subproblem computes the angles about an axis that move a point to a given locus. Vectors are
tuples of three numbers, which the compiler keeps in registers; axes ``k`` have unit length.
Sources: R. Murray, Z. Li, S. Sastry, "A Mathematical Introduction to Robotic Manipulation", 1994,
section 3.3 (problems 1 and 3); A. J. Elias, J. T. Wen, "IK-Geo: Unified robot inverse kinematics
using subproblem decomposition", Mechanism and Machine Theory 209, 2025 (problem 4, and the idea to
return least squares solutions where there is no exact one, and to verify solutions at the end).
"""

from __future__ import annotations

import math
from typing import NamedTuple

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


MEETING = 1
"""Spherical wrist, and axes 1 and 2 intersect."""
PARALLEL_12 = 2
"""Spherical wrist, and axes 1 and 2 are parallel."""
PARALLEL_23 = 3
"""Spherical wrist, and axes 2 and 3 are parallel."""
GENERAL = 4
"""Spherical wrist, and axes 1 to 3 in general position."""
THREE_PARALLEL = 0
MOST = 8
"""Max number of solutions of any arm."""


class SixJoints(NamedTuple):
    """An arm with six joints, and the rotation to be reached."""

    h: Array
    """Unit directions of the axes, shape (6, 3)."""
    p: Array
    """Points on the axes, shape (6, 3) [m]; intersecting axes: their intersection; parallel axes:
    points in one plane perpendicular to them."""
    R: Array
    """Rotation of the displacement, shape (3, 3)."""
    usual: Array
    """Values of joints that are undetermined (singular configurations) [rad], shape (6,)."""
    room: Array
    """Lower limits and ranges of the joints [rad], shape (2, 6). Most candidates outside are
    omitted; written ones may still be outside."""
    slack: float
    """Tolerance by which a cosine may exceed 1, because of rounding or of axes that satisfy the
    conditions only approximately."""


@part
def spherical_wrist(form: int, joints: SixJoints, t: Vector, out: Array) -> int:
    """Solve an arm with axes 4, 5, 6 intersecting; see ``closed_form`` for the arguments."""
    h, _, R, usual, room, slack = joints
    h1, h2, h3 = row(h, 0), row(h, 1), row(h, 2)
    h4, h5, h6 = row(h, 3), row(h, 4), row(h, 5)
    first = np.empty((4, 3))
    if form == PARALLEL_23:
        found = _place_by_parallel_23(joints, t, first)
    else:
        found = _place_by_normal(form, joints, t, first)
    side = across(h6)
    to_tip, to_side = times(R, h6), times(R, side)
    count = 0
    for i in range(found):
        q1, q2, q3 = first[i, 0], first[i, 1], first[i, 2]
        tip, rim = _two_turned(h1, -q1, to_tip, to_side)
        tip, rim = _two_turned(h2, -q2, tip, rim)
        tip, rim = _two_turned(h3, -q3, tip, rim)
        n5, a5, b5 = angles_to_plane(h4, h5, h6, dot(h4, tip), usual[4], slack)
        for i5 in range(n5):
            q5 = b5 if i5 else a5
            if not within(room, 4, q5):
                continue
            q4 = angle_to(h4, turned(h5, q5, h6), tip, usual[3])
            if not within(room, 3, q4):
                continue
            q6 = angle_to(h6, side, turned(h5, -q5, turned(h4, -q4, rim)), usual[5])
            out[count, 0], out[count, 1], out[count, 2] = q1, q2, q3
            out[count, 3], out[count, 4], out[count, 5] = q4, q5, q6
            count += 1
    return count


@part
def _two_turned(k: Vector, angle: float, a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Return two vectors rotated about an axis by the same angle [rad]."""
    c, s = math.cos(angle), math.sin(angle)
    return turned_by(k, c, s, a), turned_by(k, c, s, b)


@part
def _place_by_parallel_23(joints: SixJoints, t: Vector, out: Array) -> int:
    """Write angles of joints 1 to 3 that move w to its target, if axes 2 and 3 are parallel."""
    h, p, R, usual, room, slack = joints
    h1, h2, h3 = row(h, 0), row(h, 1), row(h, 2)
    p1, p2, p3, w = row(p, 0), row(p, 1), row(p, 2), row(p, 3)
    goal = minus(along(times(R, w), 1.0, t), p1)
    arm, reach = minus(w, p3), minus(p2, p3)
    n1, a1, b1 = angles_to_plane(h2, h1, goal, dot(h2, minus(w, p1)), -usual[0], slack)
    count = 0
    for i1 in range(n1):
        q1 = -(b1 if i1 else a1)
        if not within(room, 0, q1):
            continue
        y = along(minus(p1, p2), 1.0, turned(h1, -q1, goal))
        n3, a3, b3 = angles_to_distance(h3, arm, reach, length(y), usual[2], slack)
        for i3 in range(n3):
            q3 = b3 if i3 else a3
            if not within(room, 2, q3):
                continue
            q2 = angle_to(h2, minus(turned(h3, q3, arm), reach), y, usual[1])
            out[count, 0], out[count, 1], out[count, 2] = q1, q2, q3
            count += 1
    return count


@part
def _place_by_normal(form: int, joints: SixJoints, t: Vector, out: Array) -> int:
    """Write angles of joints 1 to 3 that move w to its target, by the common normal of axes 1, 2.

    With ``u`` from axis 2 to w after joint 3, and ``d`` the common normal, joints 1 and 2 must map
    ``d + R2 u`` to ``v``. They change neither its length nor its height along axis 1; both depend
    only on ``R2 u`` and so, if axes 1 and 2 intersect or are parallel, on joint 3 alone.
    """
    h, p, R, usual, room, slack = joints
    h1, h2, h3 = row(h, 0), row(h, 1), row(h, 2)
    p3, w = row(p, 2), row(p, 3)
    p1, p2 = common_normal(h1, row(p, 0), h2, row(p, 1))
    d, v = minus(p2, p1), minus(along(times(R, w), 1.0, t), p1)
    a, b = minus(p3, p2), minus(w, p3)
    height = dot(h1, v)
    if form == MEETING and length(cross(h1, h2)) < NOTHING < length(d):
        form = PARALLEL_12  # for this value of the redundant joint they do not intersect
    angles = np.empty(4)
    if form == MEETING:
        # |u| = |v|: the distance of w from p2.
        n3, angles[0], angles[1] = angles_to_distance(
            h3, b, minus(p2, p3), length(v), usual[2], slack
        )
    elif form == PARALLEL_12:
        n3, angles[0], angles[1] = angles_to_plane(h1, h3, b, height - dot(h1, a), usual[2], slack)
    else:
        n3 = _third_angles(h, d, v, a, b, angles)
    count = 0
    for i3 in range(n3):
        q3 = angles[i3]
        if not within(room, 2, q3):
            continue
        u = along(turned(h3, q3, b), 1.0, a)
        if form == MEETING:
            n2, a2, b2 = angles_to_plane(h1, h2, u, height, usual[1], slack)
        elif form == PARALLEL_12:
            back_d = (-d[0], -d[1], -d[2])
            n2, a2, b2 = angles_to_distance(h2, u, back_d, length(v), usual[1], slack)
        else:
            a2 = angle_to(h2, u, _turned_u(h1, h2, d, v, u), usual[1])
            n2, b2 = 1, a2
        for i2 in range(n2):
            q2 = b2 if i2 else a2
            if not within(room, 1, q2):
                continue
            q1 = angle_to(h1, along(turned(h2, q2, u), 1.0, d), v, usual[0])
            out[count, 0], out[count, 1], out[count, 2] = q1, q2, q3
            count += 1
    return count


@part
def _turned_u(h1: Vector, h2: Vector, d: Vector, v: Vector, u: Vector) -> Vector:
    """Return the required ``R2 u``, from the length of v and its height along axis 1."""
    a, c, x = length(d), dot(h1, h2), dot(h2, u)
    e = along(h1, -c, h2)
    sine = length(e)
    along_d = 0.5 * (dot(v, v) - a * a - dot(u, u)) / a
    along_e = (dot(h1, v) - c * x) / sine
    result = along((x * h2[0], x * h2[1], x * h2[2]), along_d / a, d)
    return along(result, along_e / sine, e)


@part
def _third_angles(h: Array, d: Vector, v: Vector, a: Vector, b: Vector, out: Array) -> int:
    """Write the angles of joint 3 for which ``R2 u`` can have its required value.

    Its components along the common normal, along the rest of h1, and along h2 are sinusoids of the
    angle (``x0 + x1 cos + x2 sin``); their squares must add up to ``|u|^2``.
    """
    h1, h2, h3 = row(h, 0), row(h, 1), row(h, 2)
    base = along(a, dot(h3, b), h3)
    swing = along(b, -dot(h3, b), h3)
    side = cross(h3, b)
    normal, c = length(d), dot(h1, h2)
    sine = math.sqrt(max(0.0, 1.0 - c * c))
    square0 = dot(base, base) + dot(swing, swing)
    square1, square2 = 2.0 * dot(base, swing), 2.0 * dot(base, side)
    z0, z1, z2 = dot(h2, base), dot(h2, swing), dot(h2, side)
    x0 = 0.5 * (dot(v, v) - normal * normal - square0) / normal
    x1, x2 = -0.5 * square1 / normal, -0.5 * square2 / normal
    y0, y1, y2 = (dot(h1, v) - c * z0) / sine, -c * z1 / sine, -c * z2 / sine
    f = np.array([-square0, -square1, -square2, 0.0, 0.0])
    _add_square(f, x0, x1, x2)
    _add_square(f, y0, y1, y2)
    _add_square(f, z0, z1, z2)
    return zeros_of_wave(f, out)


@part
def _add_square(f: Array, x0: float, x1: float, x2: float) -> None:
    """Add ``(x0 + x1 cos + x2 sin)^2`` to the coefficients of a trigonometric polynomial."""
    f[0] += x0 * x0 + 0.5 * (x1 * x1 + x2 * x2)
    f[1] += 2.0 * x0 * x1
    f[2] += 2.0 * x0 * x2
    f[3] += 0.5 * (x1 * x1 - x2 * x2)
    f[4] += x1 * x2


@part
def closed_form(form: int, joints: SixJoints, t: Vector, out: Array) -> int:
    """Write all candidate solutions of an arm.

    Args:
        form: ``THREE_PARALLEL``, or another constant of this module.
        joints: of the arm, and the rotation of the displacement.
        t: translation of the displacement [m], shape (3,).
        out: the candidates [rad], shape (MOST, 6).

    Returns:
        Number of candidates written.
    """
    if form == THREE_PARALLEL:
        return _three_parallel(joints, t, out)
    return spherical_wrist(form, joints, t, out)


@part
def _three_parallel(joints: SixJoints, t: Vector, out: Array) -> int:
    """Solve an arm with axes 2, 3, 4 parallel and 5, 6 intersecting."""
    h, p, R, usual, room, slack = joints
    h1, h2, h3, h5, h6 = row(h, 0), row(h, 1), row(h, 2), row(h, 4), row(h, 5)
    p1, p2, p3, p4, w = row(p, 0), row(p, 1), row(p, 2), row(p, 3), row(p, 4)
    way3, way4 = dot(h2, h3), dot(h2, row(h, 3))
    side, arm, reach = across(h2), minus(p4, p3), minus(p2, p3)
    # Joints 2 to 4 preserve the height of w along h2, so joint 1 must establish it.
    W = along(times(R, w), 1.0, t)
    wrist = minus(W, p1)
    n1, a1, b1 = angles_to_plane(h2, h1, wrist, dot(h2, minus(w, p1)), -usual[0], slack)
    count = 0
    for i1 in range(n1):
        q1 = -(b1 if i1 else a1)
        if not within(room, 0, q1):
            continue
        # They also preserve h2: its angle to h6 depends on joint 5 alone.
        height = dot(h2, turned(h1, -q1, times(R, h6)))
        n5, a5, b5 = angles_to_plane(h2, h5, h6, height, usual[4], slack)
        for i5 in range(n5):
            q5 = b5 if i5 else a5
            if not within(room, 4, q5):
                continue
            seen = back(R, turned(h1, q1, h2))
            q6 = angle_to(h6, seen, turned(h5, -q5, h2), usual[5])
            if not within(room, 5, q6):
                continue
            # Total rotation of joints 2 to 4.
            y = times(R, turned(h6, -q6, turned(h5, -q5, side)))
            total = angle_to(h2, side, turned(h1, -q1, y), 0.0)
            # Position of axis 4 after joints 2 and 3: a planar two-link arm.
            g = turned(h6, -q6, turned(h5, -q5, minus(p4, w)))
            g = along(times(R, g), 1.0, wrist)
            g = along(minus(p1, p2), 1.0, turned(h1, -q1, g))
            n3, a3, b3 = angles_to_distance(h3, arm, reach, length(g), usual[2], slack)
            for i3 in range(n3):
                q3 = b3 if i3 else a3
                if not within(room, 2, q3):
                    continue
                q2 = angle_to(h2, minus(turned(h3, q3, arm), reach), g, usual[1])
                out[count, 0], out[count, 1], out[count, 2] = q1, q2, q3
                out[count, 3] = way4 * (total - q2 - way3 * q3)
                out[count, 4], out[count, 5] = q5, q6
                count += 1
    return count
