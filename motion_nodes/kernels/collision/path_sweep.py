# SPDX-License-Identifier: Apache-2.0
"""Continuous collision checking of a path for a robot made of convex pieces.

A path segment is proven collision-free by the configuration at its middle: if two pieces are
farther apart than they can move on either side of it, they do not collide within the segment.
Unproven segments are bisected, with the remaining pairs. The motion of a body is bounded by the
distances of its bounding sphere from the joint axes below it, which in turn change by at most the
motion in between (Schwarzer, Saha and Latombe, Adaptive dynamic collision checking for single and
multiple articulated robots in complex environments, IEEE Trans. Robotics 21 (2005), with local
bounds).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.array_bridge import reader
from motion_nodes.kernels.collision.checker_bridge import address
from motion_nodes.kernels.collision.convex_distance import separation
from motion_nodes.kernels.collision.piece_arrays import (
    BLOCK,
    COLLISION,
    FREE,
    FULL,
    PieceBodies,
    PieceWorld,
    SweepWorkspace,
    example,
)
from motion_nodes.kernels.jit import bare_kernel, bare_part
from motion_nodes.kernels.kinematic_arrays import REVOLUTE
from motion_nodes.typing import Array, IndexArray

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
    lower, upper = separation(
        pieces.kind[one], pieces.size[one], pieces.points, pieces.first[one],
        pieces.first[one + 1], T,
        other.kind[two], other.size[two], other.points, other.first[two],
        other.first[two + 1], P,
        apart, needed, work.gjk,
    )  # fmt: skip
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
