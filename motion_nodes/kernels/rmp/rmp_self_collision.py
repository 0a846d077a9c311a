# SPDX-License-Identifier: Apache-2.0
"""Self-collision avoidance of links, added to the sums of the generated code.

Spheres a and b of two links have the distance x = |p_a - p_b| - r_a - r_b along the line n through
both centres. Its Jacobian needs no Jacobian of either point: a force along n acts on both with the
same moment p x n, so joints that move both cancel, and x changes by (p x n, n) . S_k for each joint
k between the two links, with S_k the column of the joint (angular, linear about the origin). RMP
and parameters are those of obstacles (:mod:`motion_nodes.rmpflow.rmps`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.jit import kernel, part
from motion_nodes.kernels.kinematic_arrays import Array

Whole = NDArray[np.int64]
_TINY = 1e-9
_RANGE = 40.0
_FAR = 1e5


class SelfTables(NamedTuple):
    """The robot as read by the kernel."""

    places: Whole
    """Offsets in the memory of position, velocity, bias, columns, M, rhs, qdd and min pivot; then
    the numbers of spheres in memory, of moving spheres, and of joints; shape (11,)."""
    spheres: Array
    """Centre and radius [m], shape (s, 4); moving ones first. Centres are used for fixed ones only.
    """
    pairs: Whole
    """Spheres of one link (from, to), of the other (from, to), and their path (from, to), shape (p,
    6)."""
    sizes: Array
    """Reach of the spheres of a pair's links from the first of each [m], shape (p,)."""
    paths: Whole
    """Rows that move one link relative to the other: column, joint, sign; shape (k, 3)."""


@kernel
def self_collision(
    memory: Array,
    places: Whole,
    spheres: Array,
    pairs: Whole,
    sizes: Array,
    paths: Whole,
    parameters: Array,
) -> float:
    """Add all pairs of links to M and rhs of the memory, solve, and return the min distance [m].

    Args:
        memory: after the generated code has run.
        places: see :class:`SelfTables`, like the next four.
        spheres: of all links.
        pairs: of links.
        sizes: of the pairs.
        paths: of the pairs.
        parameters: of ``self_collision_rmp``, then the max norm of the acceleration.
    """
    position, velocity, bias, columns, at_M, at_f = places[:6]
    at_qdd, at_pivot, stride, moving, n = places[6:]
    points = np.zeros((len(spheres), 9))
    for i in range(moving):
        for k in range(3):
            points[i, k] = memory[position + k * stride + i]
            points[i, 3 + k] = memory[velocity + k * stride + i]
            points[i, 6 + k] = memory[bias + k * stride + i]
    for i in range(moving, len(spheres)):
        points[i, :3] = spheres[i, :3]
    radius = parameters[6]
    u = np.zeros(len(paths))
    least = _FAR
    for pair in range(len(pairs)):
        a0, a1, b0, b1, k0, k1 = pairs[pair]
        gap = _distance(points, a0, b0) - sizes[pair]
        if gap > radius and gap > least:
            continue
        for a in range(a0, a1):
            for b in range(b0, b1):
                length = _distance(points, a, b)
                x = length - spheres[a, 3] - spheres[b, 3]
                least = min(least, x)
                if x >= radius or length < _TINY:
                    continue
                p = points[a]
                nx = (p[0] - points[b, 0]) / length
                ny = (p[1] - points[b, 1]) / length
                nz = (p[2] - points[b, 2]) / length
                vx = p[3] - points[b, 3]
                vy = p[4] - points[b, 4]
                vz = p[5] - points[b, 5]
                rate = nx * vx + ny * vy + nz * vz
                bend = (vx * vx + vy * vy + vz * vz - rate * rate) / length
                bend += nx * (p[6] - points[b, 6])
                bend += ny * (p[7] - points[b, 7])
                bend += nz * (p[8] - points[b, 8])
                desired, weight = _leaf(x, rate, parameters)
                mx, my, mz = p[1] * nz - p[2] * ny, p[2] * nx - p[0] * nz, p[0] * ny - p[1] * nx
                for k in range(k0, k1):
                    S = columns + 6 * paths[k, 0]
                    turn = mx * memory[S] + my * memory[S + 1] + mz * memory[S + 2]
                    slide = nx * memory[S + 3] + ny * memory[S + 4] + nz * memory[S + 5]
                    u[k] = paths[k, 2] * (turn + slide)
                for k in range(k0, k1):
                    row = at_M + n * paths[k, 1]
                    memory[at_f + paths[k, 1]] += weight * (desired - bend) * u[k]
                    for other in range(k0, k1):
                        memory[row + paths[other, 1]] += weight * u[k] * u[other]
    memory[at_pivot] = _solve(
        memory[at_M : at_M + n * n].reshape(n, n),
        memory[at_f : at_f + n],
        parameters[10],
        memory[at_qdd : at_qdd + n],
    )
    return least


@part
def _distance(points: Array, a: int, b: int) -> float:
    x = points[a, 0] - points[b, 0]
    y = points[a, 1] - points[b, 1]
    z = points[a, 2] - points[b, 2]
    return math.sqrt(x * x + y * y + z * z)


@part
def _leaf(x: float, rate: float, p: Array) -> tuple[float, float]:
    """Return acceleration and metric; parameters in the order of ``Collision``."""
    damping, damping_length, damping_eps, gate_length, repulsion = p[0], p[1], p[2], p[3], p[4]
    x = max(x, 0.0)
    approach = 1.0 / (1.0 + math.exp(min(max(rate / gate_length, -_RANGE), _RANGE)))
    push = repulsion * math.exp(-min(x / p[5], _RANGE))
    brake = damping * approach * rate / (x / damping_length + damping_eps)
    fade = max(1.0 - x / p[6], 0.0)
    return push - brake, approach * fade * fade * p[7] / (x / p[8] + p[9])


@part
def _solve(M: Array, f: Array, most: float, x: Array) -> float:
    """Write the solution of M x = f, its norm limited to ``most``, to x; return the min pivot.

    Cholesky factorization; the pivot is relative to its diagonal entry.
    """
    n = len(f)
    L = np.zeros((n, n))
    least = 1.0
    for i in range(n):
        for j in range(i + 1):
            total = M[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                least = min(least, total / max(M[i, i], 1e-300))
                L[i, i] = math.sqrt(max(total, 1e-300))
            else:
                L[i, j] = total / L[j, j]
    for i in range(n):
        total = f[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]
    norm = 0.0
    for i in range(n - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, n):
            total -= L[k, i] * x[k]
        x[i] = total / L[i, i]
        norm += x[i] * x[i]
    norm = math.sqrt(norm)
    if norm > most:
        for i in range(n):
            x[i] *= most / norm
    return least
