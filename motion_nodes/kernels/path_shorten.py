# SPDX-License-Identifier: Apache-2.0
"""Paths made shorter, as one kernel that works in rounds; every new edge is checked.

A round leaves out waypoints, jumps between random places of the path, and cuts corners. A cut adds
a waypoint and needs but one new edge, for the others are parts of edges that were checked; the next
round leaves out what the cuts made needless. So a path becomes a curve of few waypoints.

Parts of an edge are looked at in other places than the edge was, so all edges of a path are to be
checked at the end (``first_blocked``): it may graze something between two of these places.

Source: leaving out and random jumps: R. Geraerts and M. Overmars, "Creating high-quality paths for
motion planning", 2007; cutting corners: G. Chaikin, "An algorithm for high-speed curve generation",
1974, whose limit is a quadratic B-spline.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.checker_calls import Checker, edge_free
from motion_nodes.kernels.jit import kernel, part
from motion_nodes.kernels.packed import Array

_ALL = 24
"""So many later waypoints are all looked at; of more, the farther ones in larger steps."""


@kernel
def shorten(
    checker: Checker,
    weights: Array,
    path: Array,
    count: int,
    jumps: int,
    tries: int,
    least_gain: float,
    random: NDArray[np.uint64],
) -> int:
    """Do one round on a path; its first and last waypoint stay as they are.

    Args:
        checker: what tells whether an edge is free.
        weights: of the joints in lengths, shape (n,).
        path: waypoints, changed in place, shape (room, n). ``jumps`` add one each at most, cuts one
            for each corner; without room nothing is added.
        count: of waypoints.
        jumps: how many random jumps are tried.
        tries: by bisection, for the best cut of each corner.
        least_gain: cuts that save less are not made, in the metric.
        random: state of the random numbers, shape (1,).

    Returns:
        How many waypoints there are now.
    """
    work = np.empty((2, path.shape[1]))
    count = _leave_out(checker, path, count)
    for _ in range(jumps):
        count = _jump(checker, weights, path, count, random, work)
    return _cut_corners(checker, weights, path, count, tries, least_gain, work)


@kernel
def first_blocked(checker: Checker, path: Array, count: int) -> int:
    """Return the first edge of a path that is not free, -1 if all are."""
    for k in range(count - 1):
        if not edge_free(checker, path, k, path, k + 1):
            return k
    return -1


@kernel
def path_length(weights: Array, path: Array) -> float:
    """Return the length of a path in the metric."""
    total = 0.0
    for k in range(path.shape[0] - 1):
        total += _length(weights, path[k], path[k + 1])
    return total


@part
def _leave_out(checker: Checker, path: Array, count: int) -> int:
    """Join each waypoint with the farthest later one that it sees."""
    first = 0
    while first < count - 2:
        last = count - 1
        while last > first + 1:
            if edge_free(checker, path, first, path, last):
                count = _close(path, count, first, last)
                break
            last -= max(1, (last - first) // _ALL)
        first += 1
    return count


@part
def _close(path: Array, count: int, first: int, last: int) -> int:
    """Take out what is between two waypoints."""
    gap = last - first - 1
    for k in range(last, count):
        for d in range(path.shape[1]):
            path[k - gap, d] = path[k, d]
    return count - gap


@part
def _length(weights: Array, a: Array, b: Array) -> float:
    total = 0.0
    for d in range(a.shape[0]):
        total += (weights[d] * (b[d] - a[d])) ** 2
    return math.sqrt(total)


@part
def _jump(
    checker: Checker,
    weights: Array,
    path: Array,
    count: int,
    random: NDArray[np.uint64],
    work: Array,
) -> int:
    """Join two random places of the path, if that is free."""
    if count < 3 or count == path.shape[0]:
        return count
    total = 0.0
    for k in range(count - 1):
        total += _length(weights, path[k], path[k + 1])
    a, b = total * uniform(random), total * uniform(random)
    before = _place(weights, path, count, min(a, b), work[0])
    after = _place(weights, path, count, max(a, b), work[1])
    if before == after or not edge_free(checker, work, 0, work, 1):
        return count
    # The edges to the new places are parts of edges that were checked.
    inside = after - before
    if inside == 1:
        for k in range(count, before + 2, -1):
            for d in range(path.shape[1]):
                path[k, d] = path[k - 1, d]
        count += 1
    else:
        count = _close(path, count, before + 2, after + 1)
    for d in range(path.shape[1]):
        path[before + 1, d] = work[0, d]
        path[before + 2, d] = work[1, d]
    return count


@part
def _place(weights: Array, path: Array, count: int, along: float, out: Array) -> int:
    """Write the place so far along the path; return the waypoint before it."""
    for k in range(count - 1):
        length = _length(weights, path[k], path[k + 1])
        if along <= length or k == count - 2:
            share = min(along / length, 1.0) if length > 0.0 else 0.0
            for d in range(path.shape[1]):
                out[d] = path[k, d] + share * (path[k + 1, d] - path[k, d])
            return k
        along -= length
    return 0


@part
def _cut_corners(
    checker: Checker,
    weights: Array,
    path: Array,
    count: int,
    tries: int,
    least_gain: float,
    work: Array,
) -> int:
    """Cut each corner between places at one and the same part of the ways to its neighbours."""
    k = 1
    while k < count - 1 and count < path.shape[0]:
        share, step = 0.0, 0.5
        for _ in range(tries):
            _corner(path, k, share + step, work)
            if edge_free(checker, work, 0, work, 1):
                share += step
            step *= 0.5
        _corner(path, k, share, work)
        around = _length(weights, work[0], path[k]) + _length(weights, path[k], work[1])
        if around - _length(weights, work[0], work[1]) > least_gain:
            for row in range(count, k + 1, -1):
                for d in range(path.shape[1]):
                    path[row, d] = path[row - 1, d]
            for d in range(path.shape[1]):
                path[k, d] = work[0, d]
                path[k + 1, d] = work[1, d]
            count += 1
            k += 1
        k += 1
    return count


@part
def _corner(path: Array, k: int, share: float, out: Array) -> None:
    """Write the places at a part of the ways from a waypoint to its neighbours."""
    for d in range(path.shape[1]):
        out[0, d] = path[k, d] + share * (path[k - 1, d] - path[k, d])
        out[1, d] = path[k, d] + share * (path[k + 1, d] - path[k, d])


@part
def uniform(random: NDArray[np.uint64]) -> float:
    """Return a random number in [0, 1).

    Source: G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014 (SplitMix64).
    """
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0
