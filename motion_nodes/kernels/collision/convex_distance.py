# SPDX-License-Identifier: Apache-2.0
"""Lower and upper bounds of the distance between two convex pieces; GJK in double precision.

A piece is a core (points, a box, a cylinder or a cone) with a rounding radius, in its own frame.
Source: Gilbert, Johnson and Keerthi, A fast procedure for computing the distance between complex
objects in three-dimensional space, IEEE J. Robotics and Automation 4 (1988); regions of a triangle:
Ericson, Real-Time Collision Detection (2005), section 5.1.5. A support point w in direction v gives
the lower bound v w / |v|, so the lower bound never exceeds the true distance.
"""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.kernels.collision.piece_arrays import BOX, CONE, HALF_SPACE, POINTS
from motion_nodes.kernels.jit import bare_kernel, bare_part
from motion_nodes.typing import Array, IndexArray

_ITERATIONS = 100
_CONVERGED = 1e-9
"""Relative difference below which the bounds count as converged."""
_OVERLAP = 1e-20
"""Squared distance of cores below which they overlap [m^2]."""


@bare_part
def _support(
    kind: int,
    size: Array,
    points: Array,
    first: int,
    last: int,
    X: Array,
    dx: float,
    dy: float,
    dz: float,
) -> tuple[float, float, float]:
    """Return the support point of a core: the farthest point in a direction."""
    x = X[0, 0] * dx + X[1, 0] * dy + X[2, 0] * dz
    y = X[0, 1] * dx + X[1, 1] * dy + X[2, 1] * dz
    z = X[0, 2] * dx + X[1, 2] * dy + X[2, 2] * dz
    if kind == POINTS:
        best, top = first, -math.inf
        for k in range(first, last):
            along = points[k, 0] * x + points[k, 1] * y + points[k, 2] * z
            if along > top:
                best, top = k, along
        x, y, z = points[best, 0], points[best, 1], points[best, 2]
    elif kind == BOX:
        x, y, z = (math.copysign(size[0], x), math.copysign(size[1], y), math.copysign(size[2], z))
    else:
        across = math.sqrt(x * x + y * y)
        scale = size[0] / across if across > 0.0 else 0.0
        if kind == CONE and z * 2.0 * size[1] > across * size[0]:
            x, y, z = 0.0, 0.0, size[1]
        elif kind == CONE:
            x, y, z = x * scale, y * scale, -size[1]
        else:
            x, y, z = x * scale, y * scale, math.copysign(size[1], z)
    return (
        X[0, 0] * x + X[0, 1] * y + X[0, 2] * z + X[0, 3],
        X[1, 0] * x + X[1, 1] * y + X[1, 2] * z + X[1, 3],
        X[2, 0] * x + X[2, 1] * y + X[2, 2] * z + X[2, 3],
    )


@bare_part
def _on_triangle(S: Array, a: int, b: int, c: int, v: Array) -> int:
    """Write the triangle's point closest to the origin; return the bit mask of its corners."""
    ax, ay, az = S[a, 0], S[a, 1], S[a, 2]
    bx, by, bz = S[b, 0], S[b, 1], S[b, 2]
    cx, cy, cz = S[c, 0], S[c, 1], S[c, 2]
    ux, uy, uz = bx - ax, by - ay, bz - az
    wx, wy, wz = cx - ax, cy - ay, cz - az
    d1, d2 = -(ux * ax + uy * ay + uz * az), -(wx * ax + wy * ay + wz * az)
    d3, d4 = -(ux * bx + uy * by + uz * bz), -(wx * bx + wy * by + wz * bz)
    d5, d6 = -(ux * cx + uy * cy + uz * cz), -(wx * cx + wy * cy + wz * cz)
    if d1 <= 0.0 and d2 <= 0.0:
        v[0], v[1], v[2] = ax, ay, az
        return 1 << a
    if d3 >= 0.0 and d4 <= d3:
        v[0], v[1], v[2] = bx, by, bz
        return 1 << b
    if d6 >= 0.0 and d5 <= d6:
        v[0], v[1], v[2] = cx, cy, cz
        return 1 << c
    if d1 * d4 - d3 * d2 <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        t = d1 / (d1 - d3)
        v[0], v[1], v[2] = ax + t * ux, ay + t * uy, az + t * uz
        return 1 << a | 1 << b
    if d5 * d2 - d1 * d6 <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        t = d2 / (d2 - d6)
        v[0], v[1], v[2] = ax + t * wx, ay + t * wy, az + t * wz
        return 1 << a | 1 << c
    if d3 * d6 - d5 * d4 <= 0.0 and d4 >= d3 and d5 >= d6:
        t = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        v[0], v[1], v[2] = bx + t * (cx - bx), by + t * (cy - by), bz + t * (cz - bz)
        return 1 << b | 1 << c
    nx, ny, nz = uy * wz - uz * wy, uz * wx - ux * wz, ux * wy - uy * wx
    t = (ax * nx + ay * ny + az * nz) / (nx * nx + ny * ny + nz * nz)
    v[0], v[1], v[2] = t * nx, t * ny, t * nz
    return 1 << a | 1 << b | 1 << c


@bare_part
def _on_simplex(S: Array, count: int, v: Array, best: Array) -> int:
    """Write the simplex's point closest to the origin; return the bit mask of its corners."""
    if count == 1:
        v[0], v[1], v[2] = S[0, 0], S[0, 1], S[0, 2]
        return 1
    if count == 2:
        ux, uy, uz = S[1, 0] - S[0, 0], S[1, 1] - S[0, 1], S[1, 2] - S[0, 2]
        along = -(S[0, 0] * ux + S[0, 1] * uy + S[0, 2] * uz)
        t = min(1.0, max(0.0, along / (ux * ux + uy * uy + uz * uz)))
        v[0], v[1], v[2] = S[0, 0] + t * ux, S[0, 1] + t * uy, S[0, 2] + t * uz
        return 1 if t == 0.0 else 2 if t == 1.0 else 3
    if count == 3:
        return _on_triangle(S, 0, 1, 2, v)
    least, found = math.inf, 15
    for left in range(4):
        a, b, c = (left + 1) % 4, (left + 2) % 4, (left + 3) % 4
        ux, uy, uz = S[b, 0] - S[a, 0], S[b, 1] - S[a, 1], S[b, 2] - S[a, 2]
        wx, wy, wz = S[c, 0] - S[a, 0], S[c, 1] - S[a, 1], S[c, 2] - S[a, 2]
        nx, ny, nz = uy * wz - uz * wy, uz * wx - ux * wz, ux * wy - uy * wx
        apex = nx * (S[left, 0] - S[a, 0]) + ny * (S[left, 1] - S[a, 1])
        apex += nz * (S[left, 2] - S[a, 2])
        origin = -(nx * S[a, 0] + ny * S[a, 1] + nz * S[a, 2])
        reach = abs(S[left, 0]) + abs(S[left, 1]) + abs(S[left, 2])
        flat = 1e-14 * (abs(nx) + abs(ny) + abs(nz)) * reach
        # The origin is on the inner side, unless the tetrahedron is degenerate.
        if apex * origin > 0.0 and abs(apex) > flat:
            continue
        bits = _on_triangle(S, a, b, c, v)
        square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
        if square < least:
            least, found = square, bits
            best[0], best[1], best[2] = v[0], v[1], v[2]
    if found == 15:
        v[0], v[1], v[2] = 0.0, 0.0, 0.0
    else:
        v[0], v[1], v[2] = best[0], best[1], best[2]
    return found


@bare_part
def separation(
    kind_a: int,
    size_a: Array,
    points_a: Array,
    first_a: int,
    last_a: int,
    X_a: Array,
    kind_b: int,
    size_b: Array,
    points_b: Array,
    first_b: int,
    last_b: int,
    X_b: Array,
    touch: float,
    clear: float,
    work: Array,
) -> tuple[float, float]:
    """Return lower and upper bounds of the distance between two pieces [m].

    Terminates as soon as the distance is known to be above ``clear``, below ``touch``, or in
    between; with an infinite ``clear`` the bounds converge to the distance. Both are negative
    infinity if the cores overlap, except for a half space: there both are the signed distance.

    Args:
        kind_a: kind of the core of the first piece.
        size_a: its three sizes and its rounding radius [m], shape (4,).
        points_a: points, shape (p, 3) [m]; rows ``first_a`` to ``last_a`` belong to the piece.
        first_a: first row.
        last_a: row after the last one.
        X_a: its pose in the common frame, shape (3, 4).
        kind_b: kind of the core of the second piece; only this one may be a half space.
        size_b: see ``size_a``.
        points_b: see ``points_a``.
        first_b: see ``first_a``.
        last_b: see ``last_a``.
        X_b: see ``X_a``.
        touch: distance below which the pieces are in collision [m].
        clear: distance above which the exact value does not matter [m].
        work: scratch, shape (6, 3).
    """
    radii = size_a[3] + size_b[3]
    if kind_b == HALF_SPACE:
        nx, ny, nz = X_b[0, 2], X_b[1, 2], X_b[2, 2]
        x, y, z = _support(kind_a, size_a, points_a, first_a, last_a, X_a, -nx, -ny, -nz)
        height = nx * (x - X_b[0, 3]) + ny * (y - X_b[1, 3]) + nz * (z - X_b[2, 3]) - radii
        return height, height
    S, v, best = work[:4], work[4], work[5]
    v[0], v[1], v[2] = X_a[0, 3] - X_b[0, 3], X_a[1, 3] - X_b[1, 3], X_a[2, 3] - X_b[2, 3]
    square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
    if square < _OVERLAP:
        v[0], square = 1.0, 1.0
    count, lower, upper = 0, -math.inf, math.inf
    for _ in range(_ITERATIONS):
        ax, ay, az = _support(kind_a, size_a, points_a, first_a, last_a, X_a, -v[0], -v[1], -v[2])
        bx, by, bz = _support(kind_b, size_b, points_b, first_b, last_b, X_b, v[0], v[1], v[2])
        wx, wy, wz = ax - bx, ay - by, az - bz
        along = v[0] * wx + v[1] * wy + v[2] * wz
        lower = max(lower, along / math.sqrt(square) - radii)
        if lower > clear or (touch <= lower and upper <= clear < math.inf):
            break
        if count > 0 and square - along <= _CONVERGED * square:
            break
        known = False
        for k in range(count):
            known = known or (S[k, 0] == wx and S[k, 1] == wy and S[k, 2] == wz)
        if known:
            break
        S[count, 0], S[count, 1], S[count, 2] = wx, wy, wz
        before = square if count > 0 else math.inf
        bits = _on_simplex(S, count + 1, v, best)
        square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
        if bits == 15 or square < _OVERLAP:
            return -math.inf, -math.inf
        upper = min(upper, math.sqrt(square) - radii)
        if upper < touch or square >= before:
            break
        kept = 0
        for k in range(count + 1):
            if bits >> k & 1:
                S[kept, 0], S[kept, 1], S[kept, 2] = S[k, 0], S[k, 1], S[k, 2]
                kept += 1
        count = kept
    return lower, upper


@bare_kernel
def separations(
    kind: IndexArray,
    size: Array,
    first: IndexArray,
    points: Array,
    X: Array,
    pairs: IndexArray,
    work: Array,
    out: Array,
) -> None:
    """Write the bounds of the distances of many pairs of pieces.

    Args:
        kind: kind of each core, shape (k,).
        size: three sizes and the rounding radius [m], shape (k, 4).
        first: first point of each piece, and the total, shape (k + 1,).
        points: in the frames of the pieces [m], shape (p, 3).
        X: poses of the pieces in the common frame, shape (k, 3, 4).
        pairs: indices of pieces, shape (m, 2).
        work: scratch, shape (6, 3).
        out: lower and upper bounds, negative infinity where cores overlap [m], shape (m, 2).
    """
    for m in range(pairs.shape[0]):
        a, b = pairs[m, 0], pairs[m, 1]
        out[m, 0], out[m, 1] = separation(
            kind[a], size[a], points, first[a], first[a + 1], X[a],
            kind[b], size[b], points, first[b], first[b + 1], X[b],
            -np.inf, np.inf, work,
        )  # fmt: skip
