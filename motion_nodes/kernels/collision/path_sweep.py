# SPDX-License-Identifier: Apache-2.0
"""Continuous collision checking of a path for a robot made of convex pieces.

A path segment is proven collision-free by the configuration at its middle: if two pieces are
farther apart than they can move on either side of it, they do not collide within the segment.
Unproven segments are bisected, with the remaining pairs. The motion of a body is bounded by the
distances of its bounding sphere from the joint axes below it, which in turn change by at most the
motion in between (Schwarzer, Saha and Latombe, Adaptive dynamic collision checking for single and
multiple articulated robots in complex environments, IEEE Trans. Robotics 21 (2005), with local
bounds).

Lower and upper bounds of the distance between two convex pieces are those of GJK. A piece is a core
(points, a box, a cylinder or a cone) with a rounding radius, in its own frame. Source: Gilbert,
Johnson and Keerthi, A fast procedure for computing the distance between complex objects in
three-dimensional space, IEEE J. Robotics and Automation 4 (1988); regions of a triangle: Ericson,
Real-Time Collision Detection (2005), section 5.1.5. A support point w in direction v gives the
lower bound v w / |v|, so the lower bound never exceeds the true distance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.bridges import address, reader
from motion_nodes.kernels.collision.piece_arrays import (
    BLOCK,
    BOX,
    COLLISION,
    CONE,
    CYLINDER,
    FREE,
    FULL,
    HALF_SPACE,
    POINTS,
    PieceBodies,
    Pieces,
    PieceWorld,
    SweepWorkspace,
    example,
)
from motion_nodes.kernels.jit import bare_kernel, bare_part, inlined, kernel
from motion_nodes.kernels.kinematic_arrays import REVOLUTE
from motion_nodes.typing import Array, IndexArray

_ITERATIONS = 100
_CONVERGED = 1e-9
"""Relative difference below which the bounds count as converged."""
_OVERLAP = 1e-20
"""Squared distance of cores below which they overlap [m^2]."""


class PlacedPiece(NamedTuple):
    """One piece in the common frame."""

    kind: int
    """Kind of its core."""
    size: Array
    """Three sizes and the rounding radius [m], shape (4,)."""
    points: Array
    """Points [m], shape (p, 3); rows ``first`` to ``last`` belong to the piece."""
    first: int
    """First row."""
    last: int
    """Row after the last one."""
    X: Array
    """Pose, shape (3, 4)."""


@inlined
def _piece(pieces: Pieces, k: int, X: Array) -> PlacedPiece:
    return PlacedPiece(
        pieces.kind[k], pieces.size[k], pieces.points, pieces.first[k], pieces.first[k + 1], X
    )


@bare_part
def _support(piece: PlacedPiece, dx: float, dy: float, dz: float) -> tuple[float, float, float]:
    """Return the support point of a core: the farthest point in a direction."""
    kind, size, points, first, last, X = piece
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
    a: PlacedPiece, b: PlacedPiece, touch: float, clear: float, work: Array
) -> tuple[float, float]:
    """Return lower and upper bounds of the distance between two pieces [m].

    Terminates as soon as the distance is known to be above ``clear``, below ``touch``, or in
    between; with an infinite ``clear`` the bounds converge to the distance. Both are negative
    infinity if the cores overlap, except for a half space: there both are the signed distance.

    Args:
        a: first piece.
        b: second piece; only this one may be a half space.
        touch: distance below which the pieces are in collision [m].
        clear: distance above which the exact value does not matter [m].
        work: scratch, shape (6, 3).
    """
    X_a, X_b = a.X, b.X
    radii = a.size[3] + b.size[3]
    if b.kind == HALF_SPACE:
        nx, ny, nz = X_b[0, 2], X_b[1, 2], X_b[2, 2]
        x, y, z = _support(a, -nx, -ny, -nz)
        height = nx * (x - X_b[0, 3]) + ny * (y - X_b[1, 3]) + nz * (z - X_b[2, 3]) - radii
        return height, height
    S, v, best = work[:4], work[4], work[5]
    v[0], v[1], v[2] = X_a[0, 3] - X_b[0, 3], X_a[1, 3] - X_b[1, 3], X_a[2, 3] - X_b[2, 3]
    square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
    if square < _OVERLAP:
        v[0], square = 1.0, 1.0
    count, lower, upper = 0, -math.inf, math.inf
    for _ in range(_ITERATIONS):
        ax, ay, az = _support(a, -v[0], -v[1], -v[2])
        bx, by, bz = _support(b, v[0], v[1], v[2])
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
def separations(pieces: Pieces, pairs: IndexArray, work: Array, out: Array) -> None:
    """Write the bounds of the distances of many pairs of pieces.

    Args:
        pieces: with their poses in the common frame.
        pairs: indices of pieces, shape (m, 2).
        work: scratch, shape (6, 3).
        out: lower and upper bounds, negative infinity where cores overlap [m], shape (m, 2).
    """
    for m in range(pairs.shape[0]):
        a, b = pairs[m, 0], pairs[m, 1]
        one, other = _piece(pieces, a, pieces.X[a]), _piece(pieces, b, pieces.X[b])
        out[m, 0], out[m, 1] = separation(one, other, -np.inf, np.inf, work)


_read = reader(example())


@bare_part
def _poses(bodies: PieceBodies, q: Array, X: Array) -> None:
    """Write the pose of each row; Rodrigues' formula as in ``kernels/numpy_kinematics.py``."""
    for row in range(bodies.parent.shape[0]):
        P = bodies.X_PJ[row]
        a, b, c = bodies.axis[row, 0], bodies.axis[row, 1], bodies.axis[row, 2]
        value, s, v = 0.0, 0.0, 0.0
        if bodies.kind[row] != 0:
            value = bodies.multiplier[row] * q[bodies.joint[row]] + bodies.offset[row]
        if bodies.kind[row] == REVOLUTE:
            s, v, value = math.sin(value), 1.0 - math.cos(value), 0.0
        up = bodies.parent[row]
        for i in range(3):
            x, y, z, t = P[i, 0], P[i, 1], P[i, 2], P[i, 3]
            if up >= 0:
                U = X[up, i]
                x = U[0] * P[0, 0] + U[1] * P[1, 0] + U[2] * P[2, 0]
                y = U[0] * P[0, 1] + U[1] * P[1, 1] + U[2] * P[2, 1]
                z = U[0] * P[0, 2] + U[1] * P[1, 2] + U[2] * P[2, 2]
                t = U[0] * P[0, 3] + U[1] * P[1, 3] + U[2] * P[2, 3] + U[3]
            along = x * a + y * b + z * c
            X[row, i, 0] = x + s * (y * c - z * b) + v * (along * a - x)
            X[row, i, 1] = y + s * (z * a - x * c) + v * (along * b - y)
            X[row, i, 2] = z + s * (x * b - y * a) + v * (along * c - z)
            X[row, i, 3] = t + value * along


@bare_part
def _place(X_AB: Array, X_BC: Array, X_AC: Array) -> None:
    """Write the product of two poses, shape (3, 4) each."""
    for i in range(3):
        a, b, c = X_AB[i, 0], X_AB[i, 1], X_AB[i, 2]
        for j in range(4):
            X_AC[i, j] = a * X_BC[0, j] + b * X_BC[1, j] + c * X_BC[2, j]
        X_AC[i, 3] += X_AB[i, 3]


@bare_part
def _centre(X: Array, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Return a point x, y, z in the parent frame of a pose X, shape (3, 4)."""
    return (
        X[0, 0] * x + X[0, 1] * y + X[0, 2] * z + X[0, 3],
        X[1, 0] * x + X[1, 1] * y + X[1, 2] * z + X[1, 3],
        X[2, 0] * x + X[2, 1] * y + X[2, 2] * z + X[2, 3],
    )


@bare_part
def _motions(bodies: PieceBodies, X: Array, moved: Array, motion: Array) -> None:
    """Write bounds of each body's motion relative to the rows above it, given joint motions."""
    for b in range(bodies.row.shape[0]):
        ball, total = bodies.ball[b], 0.0
        x, y, z = _centre(X[bodies.row[b]], ball[0], ball[1], ball[2])
        start = bodies.chain_first[b]
        motion[b, 0] = 0.0
        for k in range(start, bodies.chain_first[b + 1]):
            row = bodies.chain[k]
            step = abs(bodies.multiplier[row]) * moved[bodies.joint[row]]
            if step > 0.0 and bodies.kind[row] == REVOLUTE:
                P, a = X[row], bodies.axis[row]
                u = P[0, 0] * a[0] + P[0, 1] * a[1] + P[0, 2] * a[2]
                v = P[1, 0] * a[0] + P[1, 1] * a[1] + P[1, 2] * a[2]
                w = P[2, 0] * a[0] + P[2, 1] * a[1] + P[2, 2] * a[2]
                dx, dy, dz = x - P[0, 3], y - P[1, 3], z - P[2, 3]
                cx, cy, cz = v * dz - w * dy, w * dx - u * dz, u * dy - v * dx
                step *= math.sqrt(cx * cx + cy * cy + cz * cz) + ball[3] + total
            total += step
            motion[b, k - start + 1] = total


@bare_part
def _beyond(box: Array, x: float, y: float, z: float) -> float:
    """Return the squared distance of a point from a box."""
    dx = max(box[0] - x, x - box[3], 0.0)
    dy = max(box[1] - y, y - box[4], 0.0)
    dz = max(box[2] - z, z - box[5], 0.0)
    square: float = dx * dx + dy * dy + dz * dz
    return square


@bare_part
def _gather(bodies: PieceBodies, world: PieceWorld, work: SweepWorkspace, clearance: float) -> int:
    """Write the pairs of pieces that may collide; -1 if the memory is too small."""
    count, room, X = 0, work.candidates.shape[0], work.X
    pieces, centres, found = bodies.pieces, work.centres, work.candidates
    for b in range(bodies.row.shape[0]):
        P = X[bodies.row[b]]
        for a in range(bodies.first[b], bodies.first[b + 1]):
            T = pieces.X[a]
            x, y, z = _centre(P, T[0, 3], T[1, 3], T[2, 3])
            centres[a, 0], centres[a, 1], centres[a, 2] = x, y, z
    for p in range(bodies.pairs.shape[0]):
        i, j = bodies.pairs[p, 0], bodies.pairs[p, 1]
        near = work.motion[i, bodies.pairs[p, 2]] + work.motion[j, bodies.pairs[p, 3]]
        near += bodies.apart[p]
        one, two = bodies.ball[i], bodies.ball[j]
        x, y, z = _centre(X[bodies.row[i]], one[0], one[1], one[2])
        u, v, w = _centre(X[bodies.row[j]], two[0], two[1], two[2])
        reach = near + one[3] + two[3]
        if (x - u) ** 2 + (y - v) ** 2 + (z - w) ** 2 > reach * reach:
            continue
        for a in range(bodies.first[i], bodies.first[i + 1]):
            for b in range(bodies.first[j], bodies.first[j + 1]):
                dx, dy = centres[a, 0] - centres[b, 0], centres[a, 1] - centres[b, 1]
                dz, reach = centres[a, 2] - centres[b, 2], near + pieces.reach[a] + pieces.reach[b]
                if dx * dx + dy * dy + dz * dz <= reach * reach:
                    if count == room:
                        return -1
                    found[count, 0], found[count, 1], found[count, 2] = a, b, p
                    count += 1
    for i in range(bodies.row.shape[0]):
        rows = bodies.chain_first[i + 1] - bodies.chain_first[i]
        near, ball = work.motion[i, rows] + clearance, bodies.ball[i]
        x, y, z = _centre(X[bodies.row[i]], ball[0], ball[1], ball[2])
        reach = (near + ball[3]) ** 2
        for branch in range(world.branches.shape[0]):
            if _beyond(world.branches[branch], x, y, z) > reach:
                continue
            last_block = min((branch + 1) * BLOCK, world.blocks.shape[0])
            for block in range(branch * BLOCK, last_block):
                if _beyond(world.blocks[block], x, y, z) > reach:
                    continue
                last = min((block + 1) * BLOCK, world.boxes.shape[0])
                for b in range(block * BLOCK, last):
                    box = world.boxes[b]
                    if _beyond(box, x, y, z) > reach or not world.checked[world.owner[b], i]:
                        continue
                    for a in range(bodies.first[i], bodies.first[i + 1]):
                        away = _beyond(box, centres[a, 0], centres[a, 1], centres[a, 2])
                        if away <= (near + pieces.reach[a]) ** 2:
                            if count == room:
                                return -1
                            found[count, 0], found[count, 1], found[count, 2] = a, b, -1 - i
                            count += 1
    return count


@bare_part
def _bounds(
    bodies: PieceBodies,
    world: PieceWorld,
    work: SweepWorkspace,
    candidate: IndexArray,
    clearance: float,
) -> tuple[float, float, float]:
    """Return bounds of a pair's distance minus its min allowed one, and of its motion [m]."""
    one, two, key = candidate[0], candidate[1], candidate[2]
    apart = bodies.apart[key] if key >= 0 else clearance
    pieces, other = bodies.pieces, bodies.pieces
    if key >= 0:
        i, j = bodies.pairs[key, 0], bodies.pairs[key, 1]
        clear = work.motion[i, bodies.pairs[key, 2]] + work.motion[j, bodies.pairs[key, 3]]
        _place(work.X[bodies.row[j]], other.X[two], work.pose[1])
        P = work.pose[1]
    else:
        i, other = -1 - key, world.pieces
        clear = work.motion[i, bodies.chain_first[i + 1] - bodies.chain_first[i]]
        P = other.X[two]
    needed = clear + apart
    _place(work.X[bodies.row[i]], pieces.X[one], work.pose[0])
    T = work.pose[0]
    dx, dy, dz = T[0, 3] - P[0, 3], T[1, 3] - P[1, 3], T[2, 3] - P[2, 3]
    reach = needed + pieces.reach[one] + other.reach[two]
    if dx * dx + dy * dy + dz * dz > reach * reach:
        return np.inf, np.inf, clear
    a, b = _piece(pieces, one, T), _piece(other, two, P)
    lower, upper = separation(a, b, apart, needed, work.gjk)
    return lower - apart, upper - apart, clear


@bare_part
def _row_at(places: Array, place: float) -> int:
    """Return the row at which the interval that contains a path parameter begins."""
    low, high = 0, places.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if places[middle] <= place:
            low = middle
        else:
            high = middle
    return low


@bare_part
def _value(places: Array, rows: Array, place: float, row: int, j: int) -> float:
    """Return column j of a piecewise linear function at a path parameter."""
    value: float = rows[row, j]
    if places.shape[0] > 1:
        share = (place - places[row]) / (places[row + 1] - places[row])
        value += share * (rows[row + 1, j] - value)
    return value


@bare_kernel
def sweep(
    table: NDArray[np.int64],
    path: Array,
    places: Array,
    variation: Array,
    roots: int,
    finest: float,
    contacts: IndexArray,
    out: Array,
) -> int:
    """Check a path until it is proven collision-free, up to ``finest``, or ``contacts`` is full.

    Args:
        table: a ``Table``.
        path: waypoints joined by straight segments [rad or m], shape (k, n).
        places: increasing path parameters of the waypoints, from 0, shape (k,).
        variation: accumulated motion of each joint up to each waypoint [rad or m], shape (k, n).
        roots: number of initial segments, of equal length; 0 for the end points only.
        finest: segments up to this length are not bisected: if they are not in collision at their
            middle, they count as free, and as unproven.
        contacts: result: two pieces in collision, and their pair of bodies, or -1 - body for the
            world; shape (c, 3).
        out: result: number of configurations checked, unproven length, path parameter of the last
            contact, number of contacts; shape (4,).

    Returns:
        ``FREE``, ``COLLISION`` or ``FULL``.
    """
    bodies, world, work, clearance = _read(address(table))
    length, n = places[-1], path.shape[1]
    q, moved, found = work.q[0], work.q[1], work.candidates
    out[:] = 0.0
    for root in range(roots + 2):
        low = high = length if root == 1 else 0.0
        if root >= 2:
            low, high = length * (root - 2) / roots, length * (root - 1) / roots
        if root == 1 and length == 0.0:
            break
        top = 1
        work.ends[0, 0], work.ends[0, 1] = low, high
        work.lists[0, 0], work.lists[0, 1] = 0, -1
        while top > 0:
            top -= 1
            low, high = work.ends[top, 0], work.ends[top, 1]
            begin, end = work.lists[top, 0], work.lists[top, 1]
            middle = 0.5 * (low + high)
            at, before, after = _row_at(places, middle), _row_at(places, low), _row_at(places, high)
            for j in range(n):
                q[j] = _value(places, path, middle, at, j)
                so_far = _value(places, variation, middle, at, j)
                back = so_far - _value(places, variation, low, before, j)
                on = _value(places, variation, high, after, j) - so_far
                moved[j] = max(back, on)
            _poses(bodies, q, work.X)
            _motions(bodies, work.X, moved, work.motion)
            out[0] += 1.0
            if end < 0:
                end = _gather(bodies, world, work, clearance)
                if end < 0:
                    return FULL
            write = end
            for c in range(begin, end):
                lower, upper, clear = _bounds(bodies, world, work, found[c], clearance)
                if lower > clear:
                    continue
                if upper < 0.0:
                    k = int(out[3])
                    contacts[k, 0], contacts[k, 1] = found[c, 0], found[c, 1]
                    contacts[k, 2] = found[c, 2]
                    out[2], out[3] = middle, k + 1.0
                    if k + 1 == contacts.shape[0]:
                        return COLLISION
                elif high > low:
                    if write == found.shape[0]:
                        return FULL
                    found[write, 0], found[write, 1] = found[c, 0], found[c, 1]
                    found[write, 2] = found[c, 2]
                    write += 1
            if write == end:
                continue
            if high - low <= finest:
                out[1] += high - low
                continue
            if top + 2 > work.ends.shape[0]:
                return FULL
            work.ends[top, 0], work.ends[top, 1] = middle, high
            work.ends[top + 1, 0], work.ends[top + 1, 1] = low, middle
            for k in range(top, top + 2):
                work.lists[k, 0], work.lists[k, 1] = end, write
            top += 2
    return COLLISION if out[3] > 0.0 else FREE


@kernel
def piece_boxes(
    kind: IndexArray, size: Array, X: Array, first: IndexArray, points: Array, boxes: Array
) -> None:
    """Write the box of each piece: min and max x y z [m], shape (k, 6).

    Args:
        kind: and further arguments as those of :class:`~.piece_arrays.Pieces`.
        size: of each core, and its rounding radius.
        X: poses.
        first: first point of each piece, and the total.
        points: in the frames of their pieces.
        boxes: result.
    """
    for k in range(len(kind)):
        for axis in range(3):
            x, y, z, t = X[k, axis, 0], X[k, axis, 1], X[k, axis, 2], X[k, axis, 3]
            low = high = 0.0
            if kind[k] == POINTS:
                low, high = math.inf, -math.inf
                for i in range(first[k], first[k + 1]):
                    reach = x * points[i, 0] + y * points[i, 1] + z * points[i, 2]
                    low, high = min(low, reach), max(high, reach)
            elif kind[k] == BOX:
                high = abs(x) * size[k, 0] + abs(y) * size[k, 1] + abs(z) * size[k, 2]
                low = -high
            elif kind[k] == CYLINDER or kind[k] == CONE:
                # A disc with normal z reaches r sqrt(1 - z_i^2) along axis i.
                disc = size[k, 0] * math.sqrt(max(0.0, 1.0 - z * z))
                half = size[k, 1] * z
                top = 0.0 if kind[k] == CONE else disc  # an apex instead of a disc
                low, high = min(-half - disc, half - top), max(-half + disc, half + top)
            elif kind[k] == HALF_SPACE:
                low, high = -math.inf, math.inf
            boxes[k, axis] = t + low - size[k, 3]
            boxes[k, 3 + axis] = t + high + size[k, 3]
