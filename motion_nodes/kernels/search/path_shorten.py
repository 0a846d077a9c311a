# SPDX-License-Identifier: Apache-2.0
"""Path shortening as one kernel that works in rounds; every new edge is checked.

A round removes waypoints, adds shortcuts between random points of the path, and cuts corners. A cut
adds a waypoint and needs only one new edge, because the others are parts of checked edges; the next
round removes waypoints that the cuts made redundant. The path thus becomes a curve of few
waypoints.

Parts of an edge are checked at other configurations than the edge itself, so their check may find a
collision that the edge's did not. At the end of each round these parts are therefore checked as
edges of their own; if one is in collision, the round is discarded and the path of the previous
round is the result.

Source: removal and random shortcuts: R. Geraerts and M. Overmars, "Creating high-quality paths for
motion planning", 2007; corner cutting: G. Chaikin, "An algorithm for high-speed curve generation",
1974, whose limit is a quadratic B-spline.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.bridges import Checker, edge_free
from motion_nodes.kernels.jit import bare_kernel, bare_part, inlined
from motion_nodes.kernels.search.classic_trees import uniform
from motion_nodes.typing import Array

_ALL = 24
"""Number of later waypoints up to which all are tried; beyond, larger steps are taken."""


class Effort(NamedTuple):
    """Work limits of shortening."""

    rounds: int
    """Max number of rounds; shortening ends after one without improvement."""
    jumps: int
    """Number of random shortcuts per round."""
    tries: int
    """Number of bisection steps for the largest cut of each corner."""
    least_gain: float
    """Min relative reduction of length for which cuts and rounds are continued."""


class MarkedPath(NamedTuple):
    """The path of a round."""

    weights: Array
    """Of the joints in lengths, shape (n,)."""
    rows: Array
    """Waypoints, shape (room, n)."""
    marks: NDArray[np.int8]
    """Whether the edge after a waypoint was checked as a whole, shape (room,)."""


@bare_kernel
def shorten(
    checker: Checker,
    memory: tuple[Array, Array, NDArray[np.int8]],
    count: int,
    effort: Effort,
    random: NDArray[np.uint64],
) -> int:
    """Shorten a path with collision-free edges; its ends stay fixed.

    Args:
        checker: collision checker.
        memory: weights of the joints in lengths, shape (n,); two copies of a path and two scratch
            rows, shape (2 room + 2, n), the first ``count`` of which are the input, and the result;
            a flag per edge of both copies, shape (2, room). Waypoints are only added while there is
            room.
        count: number of waypoints.
        effort: work limits.
        random: state of the random number generator, shape (1,).

    Returns:
        New number of waypoints; negative if another round may improve the path.
    """
    weights, rows, checked = memory
    room = checked.shape[1]
    path, marks, work = rows[room : 2 * room], checked[1], rows[2 * room :]
    line = MarkedPath(weights, path, marks)
    for k in range(count):
        checked[0, k] = 1
    length = _total(weights, rows, count)
    for _ in range(effort.rounds):
        for k in range(count):
            _copy(rows, k, path, k)
            marks[k] = checked[0, k]
        now = _leave_out(checker, path, marks, count)
        for _ in range(effort.jumps):
            now = _jump(checker, line, now, random, work)
        worth = effort.least_gain * length
        now = _cut_corners(checker, line, now, effort.tries, worth, work)
        if not _all_free(checker, path, marks, now):
            return count
        count, before = now, length
        for k in range(count):
            _copy(path, k, rows, k)
            checked[0, k] = 1
        length = _total(weights, rows, count)
        if length > before * (1.0 - effort.least_gain):
            return count
    return -count


@bare_part
def _all_free(checker: Checker, path: Array, marks: NDArray[np.int8], count: int) -> bool:
    """Return whether edges checked only as parts of others are collision-free."""
    for k in range(count - 1):
        if marks[k] == 0 and not edge_free(checker, path, k, path, k + 1):
            return False
    return True


@inlined
def _copy(source: Array, k: int, target: Array, row: int) -> None:
    for d in range(source.shape[1]):
        target[row, d] = source[k, d]


@inlined
def _total(weights: Array, path: Array, count: int) -> float:
    total = 0.0
    for k in range(count - 1):
        total += _length(weights, path[k], path[k + 1])
    return total


@bare_part
def _leave_out(checker: Checker, path: Array, marks: NDArray[np.int8], count: int) -> int:
    """Connect each waypoint with the last waypoint reachable by a collision-free edge."""
    first = 0
    while first < count - 2:
        last = count - 1
        while last > first + 1:
            if edge_free(checker, path, first, path, last):
                count = _close(path, marks, count, first, last)
                marks[first] = 1
                break
            last -= max(1, (last - first) // _ALL)
        first += 1
    return count


@inlined
def _close(path: Array, marks: NDArray[np.int8], count: int, first: int, last: int) -> int:
    """Remove the waypoints between two waypoints."""
    gap = last - first - 1
    for k in range(last, count):
        _copy(path, k, path, k - gap)
        marks[k - gap] = marks[k]
    return count - gap


@inlined
def _open(path: Array, marks: NDArray[np.int8], count: int, after: int) -> int:
    """Make room for a waypoint after another; return the new number of waypoints."""
    for k in range(count, after + 1, -1):
        _copy(path, k - 1, path, k)
        marks[k] = marks[k - 1]
    return count + 1


@inlined
def _length(weights: Array, a: Array, b: Array) -> float:
    total = 0.0
    for d in range(a.shape[0]):
        total += (weights[d] * (b[d] - a[d])) ** 2
    return math.sqrt(total)


@bare_part
def _jump(
    checker: Checker, line: MarkedPath, count: int, random: NDArray[np.uint64], work: Array
) -> int:
    """Connect two random points of the path, if the edge is collision-free."""
    weights, path, marks = line
    if count < 3 or count == path.shape[0]:
        return count
    total = _total(weights, path, count)
    a, b = total * uniform(random), total * uniform(random)
    before = _place(weights, path, count, min(a, b), work[0])
    after = _place(weights, path, count, max(a, b), work[1])
    if before == after or not edge_free(checker, work, 0, work, 1):
        return count
    inside = after - before
    if inside == 1:
        count = _open(path, marks, count, before + 1)
    else:
        count = _close(path, marks, count, before + 2, after + 1)
    _copy(work, 0, path, before + 1)
    _copy(work, 1, path, before + 2)
    # The edges to the new waypoints are parts of others.
    marks[before], marks[before + 1], marks[before + 2] = 0, 1, 0
    return count


@bare_part
def _place(weights: Array, path: Array, count: int, along: float, out: Array) -> int:
    """Write the point at a distance along the path; return the waypoint before it."""
    for k in range(count - 1):
        length = _length(weights, path[k], path[k + 1])
        if along <= length or k == count - 2:
            share = min(along / length, 1.0) if length > 0.0 else 0.0
            for d in range(path.shape[1]):
                out[d] = path[k, d] + share * (path[k + 1, d] - path[k, d])
            return k
        along -= length
    return 0


@bare_part
def _cut_corners(
    checker: Checker, line: MarkedPath, count: int, tries: int, least_gain: float, work: Array
) -> int:
    """Cut each corner at the same fraction of the edges to its neighbours."""
    weights, path, marks = line
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
            count = _open(path, marks, count, k)
            _copy(work, 0, path, k)
            _copy(work, 1, path, k + 1)
            marks[k - 1], marks[k], marks[k + 1] = 0, 1, 0
            k += 1
        k += 1
    return count


@inlined
def _corner(path: Array, k: int, share: float, out: Array) -> None:
    """Write the points at a fraction of the edges from a waypoint to its neighbours."""
    for d in range(path.shape[1]):
        out[0, d] = path[k, d] + share * (path[k - 1, d] - path[k, d])
        out[1, d] = path[k, d] + share * (path[k + 1, d] - path[k, d])
