# SPDX-License-Identifier: Apache-2.0
"""Collision-free path shortening, with a preferred clearance where the path can be moved to it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.planning.tree_search import check_number, check_weights
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.kernels.bridges import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search.path_shorten import Effort, shorten
from motion_nodes.typing import Array

_LONG = 60
"""Paths with more waypoints are shortened round by round."""
_REACHES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Distances at which configurations with more clearance are sampled, in steps of the checker."""
_DRAWS, _TRIES = 64, 6
"""Configurations sampled per distance, and how many of them are tried."""
_BATCHES = 60
"""Max number of samplings per path, a few milliseconds in total."""
_DEPTH = 3
"""Max number of divisions of a stretch that is moved."""
_SHORT = 2.0
"""Length of a straight line to a start or goal that is not moved, in steps of the checker."""


@dataclass(frozen=True)
class ShorteningSettings:
    """Amount of path shortening."""

    rounds: int = 3
    """Max number of rounds: each removes waypoints, adds shortcuts, and cuts corners; it ends
    without improvement."""
    jumps: int = 0
    """Random shortcuts per round; useful for paths that are executed often."""
    corner_tries: int = 2
    """Bisection steps for the best cut of a corner."""
    least_gain: float = 0.0005
    """Min relative reduction of the length by cuts and rounds."""
    distance_metric_weights: tuple[float, ...] = ()
    """Joint weights in lengths; default: 1 each."""

    def __post_init__(self) -> None:
        # The rounds of a short path are one kernel call, which cannot be cancelled.
        check_number("rounds", self.rounds, 0, 1000)
        check_number("jumps", self.jumps, 0, 10_000)
        check_weights(self.distance_metric_weights)
        check_number("corner_tries", self.corner_tries, 0, 20)
        check_number("least_gain", self.least_gain, 0.0, 1.0)

    def checked_weights(self, joints: int) -> Array:
        """Return the weights of the joints, shape (n,).

        Raises:
            InvalidConfig: wrong length, or weights that are not positive and finite.
        """
        given = self.distance_metric_weights
        weights = np.ones(joints) if not given else np.array(given, dtype=np.float64)
        if weights.shape != (joints,) or not (np.isfinite(weights) & (weights > 0.0)).all():
            raise InvalidConfig(
                f"distance_metric_weights is {given}; give {joints} finite numbers above 0.",
                field="distance_metric_weights",
            )
        return weights


def shorten_path(
    checker: CollisionChecker,
    path: ArrayLike,
    settings: ShorteningSettings | None = None,
    *,
    random_seed: int = 123456,
    timeout: float = float("inf"),
) -> Array:
    """Return a path that is not longer, with exactly the same ends.

    Args:
        checker: robot and scene.
        path: waypoints joined by collision-free straight lines, shape (k, n) [rad or m].
        settings: amount of shortening.
        random_seed: equal seeds give equal paths, unless the timeout expires.
        timeout: no further round begins after it [s].

    Returns:
        A new array, shape (m, n), m >= 2 unless there was only one waypoint.

    Raises:
        InvalidCommand: the path is not an array (k, n) of finite numbers.
        InvalidConfig: wrong number of weights.
    """
    settings = settings or ShorteningSettings()
    n = len(checker.joint_names)
    points = np.asarray(path, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != n or not len(points):
        raise InvalidCommand(f"a path must be waypoints of {n} joint values, got {points.shape}.")
    if not np.isfinite(points).all():
        raise InvalidCommand("the path holds numbers that are not finite.")
    kernel = checker.kernel()
    addresses = Checker(kernel.state, kernel.edge, kernel.memory)
    weights = settings.checked_weights(n)
    shorter = shorten_rows(addresses, weights, points, settings, random_seed, timeout)
    del kernel  # until here it keeps the memory at these addresses alive
    return shorter


def shorten_rows(
    checker: Checker,
    weights: Array,
    path: Array,
    settings: ShorteningSettings,
    random_seed: int,
    timeout: float,
) -> Array:
    """Return a shorter path, as :func:`shorten_path`, for a checker's addresses."""
    end = compute_time() + timeout
    random = np.array([random_seed % 2**64], np.uint64)
    count, n = path.shape
    room = 2 * count + settings.jumps
    rows, checked = np.empty((2 * room + 2, n)), np.empty((2, room), np.int8)
    rows[:count] = path
    memory = weights, rows, checked
    # For a short path all rounds are faster than one check of the timeout.
    at_once = settings.rounds if count <= _LONG else 1
    for done in range(0, settings.rounds, max(1, at_once)):
        rounds = min(at_once, settings.rounds - done)
        effort = Effort(rounds, settings.jumps, settings.corner_tries, settings.least_gain)
        outcome = shorten(checker, memory, count, effort, random)
        count = abs(outcome)
        if outcome > 0 or compute_time() > end:
            break
    return rows[:count].copy()


@dataclass(frozen=True, eq=False)
class ClearedPath:
    """A shortened path, and where it has the preferred clearance."""

    path: Array
    """Waypoints joined by collision-free straight lines, shape (k, n) [rad or m]."""
    clear: NDArray[np.bool_]
    """Whether each line has the clearance, shape (k - 1,)."""
    ends_only: bool
    """Whether at most the lines from the start and to the goal lack it."""

    def near_a_tight_line(self, Q: Array, distance: float) -> NDArray[np.bool_]:
        """Return which configurations are within a distance of a line without the clearance.

        Args:
            Q: shape (m, n) [rad or m].
            distance: Euclidean over the joints [rad or m].
        """
        near = np.zeros(len(Q), np.bool_)
        for k in np.flatnonzero(~self.clear):
            along = self.path[k + 1] - self.path[k]
            share = ((Q - self.path[k]) @ along / max(float(along @ along), 1e-18)).clip(0.0, 1.0)
            away = Q - self.path[k] - share[:, np.newaxis] * along
            near |= np.einsum("ij,ij->i", away, away) <= distance * distance
        return near


def shorten_with_clearance(
    checker: CollisionChecker,
    clear: CollisionChecker,
    path: Array,
    settings: ShorteningSettings | None = None,
    *,
    random_seed: int = 123456,
    timeout: float = float("inf"),
) -> ClearedPath:
    """Return a shortened path that has the clearance of a second checker where it can have it.

    Stretches that are too close are moved by small random displacements, the others are shortened
    with the clearance. What cannot be moved with a fixed number of samples stays, as short as
    :func:`shorten_path` makes it.

    Args:
        checker: robot and scene.
        clear: the same with the preferred clearance.
        path: waypoints joined by straight lines, collision-free for ``checker``, shape (k, n).
        settings: amount of shortening.
        random_seed: equal seeds give equal paths, unless the timeout expires.
        timeout: no further step begins after it [s].

    Raises:
        InvalidCommand, InvalidConfig: as :func:`shorten_path`.
    """
    end = compute_time() + timeout

    def shorter(within: CollisionChecker, points: Array) -> Array:
        if len(points) < 3:
            return points
        left = max(0.0, end - compute_time())
        return shorten_path(within, points, settings, random_seed=random_seed, timeout=left)

    moves = _Moves(checker, clear, random_seed, end)
    found = moves.stretches(path)
    if not _ends_only(found):
        # The path of the search wanders; when shortened, fewer stretches are too close.
        short = shorter(checker, path)
        found = moves.stretches(short) or [_Stretch(short, clear=False)]
    parts = [shorter(clear if x.clear else checker, x.points) for x in found]
    rows = np.concatenate([parts[0][:1], *(part[1:] for part in parts)])
    marks = np.repeat([x.clear for x in found], [len(part) - 1 for part in parts])
    return ClearedPath(rows, marks, _ends_only(found))


@dataclass(frozen=True, eq=False)
class _Stretch:
    """A part of a path, with or without the clearance."""

    points: Array
    clear: bool

    @property
    def back(self) -> _Stretch:
        """The same in the other direction."""
        return _Stretch(self.points[::-1], self.clear)


def _ends_only(found: list[_Stretch]) -> bool:
    tight = [k for k, x in enumerate(found) if not x.clear]
    return len(found) > len(tight) and all(
        k in (0, len(found) - 1) and len(found[k].points) == 2 for k in tight
    )


class _Moves:
    """Moves what is too close to something, by random displacements."""

    def __init__(
        self, checker: CollisionChecker, clear: CollisionChecker, random_seed: int, end: float
    ) -> None:
        """Create.

        Args:
            checker: without the clearance.
            clear: with it.
            random_seed: of the displacements.
            end: time at which no further sampling begins [s].
        """
        self._checker, self._clear, self._end = checker, clear, end
        self._step = checker.resolution
        self._seed = random_seed % 2**64
        self._batches = 0

    @functools.cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self._seed)

    def stretches(self, path: Array) -> list[_Stretch]:
        """Divide a path where its clearance changes; what is too close is moved if possible.

        Returns:
            Stretches that join at their ends, with and without the clearance in turns; empty if
            their lines, which are parts of those of the path, do not pass the checks.
        """
        dense, corner = _dense(path, self._step)
        free = self._clear.are_free(dense)
        cuts = (np.flatnonzero(free[1:] != free[:-1]) + 1).tolist()
        found: list[_Stretch] = []
        for first, last in zip([0, *cuts], [*(k - 1 for k in cuts), len(dense) - 1], strict=True):
            # Adjacent runs share a sample, one that has the clearance.
            if free[first]:
                found.append(_part(dense, corner, first, last, clear=True))
            elif first > 0 and last < len(dense) - 1:
                found += self._inner(dense, corner, first - 1, last + 1)
            elif last < len(dense) - 1:
                found += self._outer(dense[: last + 2], corner)
            elif first > 0:
                back = self._outer(dense[first - 1 :][::-1], corner[first - 1 :][::-1])
                found += [x.back for x in reversed(back)]
            else:
                found += self._whole(dense, corner)
        return self._joined([x for x in found if len(x.points) > 1])

    def _joined(self, found: list[_Stretch]) -> list[_Stretch]:
        """Return stretches, adjacent ones of a kind as one; empty if lines are in collision."""
        joined: list[_Stretch] = []
        for x in found:
            clear = x.clear and self._clear.line_free(x.points)
            if not clear and not self._checker.line_free(x.points):
                return []
            if joined and joined[-1].clear == clear:
                joined[-1] = _Stretch(np.concatenate([joined[-1].points, x.points[1:]]), clear)
            else:
                joined.append(_Stretch(x.points, clear))
        return joined

    def _inner(
        self, dense: Array, corner: NDArray[np.bool_], first: int, last: int
    ) -> list[_Stretch]:
        """Move the stretch between two configurations that have the clearance."""
        via = self._between(dense[first], dense[last], dense[(first + last) // 2])
        if via is None:
            return [_part(dense, corner, first, last, clear=False)]
        return [_Stretch(np.stack([dense[first], *via, dense[last]]), clear=True)]

    def _outer(self, dense: Array, corner: NDArray[np.bool_]) -> list[_Stretch]:
        """Move a stretch from a start without the clearance to a configuration that has it."""
        count = len(dense) - 1
        kept = _part(dense, corner, 0, count, clear=False)
        length = float(np.linalg.norm((dense[-1] - dense[0]) / self._step))
        if len(kept.points) == 2 and length <= _SHORT:
            return [kept]
        beside = self._beside(dense[0], length)
        via = None
        if beside is not None:
            via = self._between(beside, dense[-1], dense[count // 2])
        if beside is None or via is None:
            return [kept]
        return [
            _Stretch(np.stack([dense[0], beside]), clear=False),
            _Stretch(np.stack([beside, *via, dense[-1]]), clear=True),
        ]

    def _whole(self, dense: Array, corner: NDArray[np.bool_]) -> list[_Stretch]:
        """Move a path that lacks the clearance everywhere."""
        last = len(dense) - 1
        begin, goal = (self._beside(dense[k], np.inf) for k in (0, last))
        via = None
        if begin is not None and goal is not None:
            via = self._between(begin, goal, dense[last // 2])
        if begin is None or goal is None or via is None:
            return [_part(dense, corner, 0, last, clear=False)]
        return [
            _Stretch(np.stack([dense[0], begin]), clear=False),
            _Stretch(np.stack([begin, *via, goal]), clear=True),
            _Stretch(np.stack([goal, dense[last]]), clear=False),
        ]

    def _beside(self, q: Array, within: float) -> Array | None:
        """Return a configuration with the clearance to which a line leads, the closest one.

        Args:
            q: start or goal without the clearance, shape (n,).
            within: max distance, in steps of the checker.
        """
        for near in self._nearby(q):
            for other in near[:_TRIES]:
                if np.linalg.norm((other - q) / self._step) > within:
                    return None
                if self._checker.edge_free(q, other):
                    return np.asarray(other)
        return None

    def _between(
        self, a: Array, b: Array, middle: Array, depth: int = _DEPTH
    ) -> list[Array] | None:
        """Return the waypoints of a way from a to b with the clearance; None if none is found."""
        if self._clear.edge_free(a, b):
            return []
        best: Array | None = None
        for near in self._nearby(middle):
            for other in near[:_TRIES]:
                if self._clear.edge_free(a, other):
                    if self._clear.edge_free(other, b):
                        return [np.asarray(other)]
                    best = other
            best = near[0] if best is None and len(near) else best
        if best is None or depth == 0:
            return None
        way: list[Array] = []
        for start, end in ((a, best), (best, b)):
            line, _ = _dense(np.stack([start, end]), self._step)
            close = np.flatnonzero(~self._clear.are_free(line))
            centre = line[close[len(close) // 2]] if len(close) else 0.5 * (start + end)
            part = self._between(start, end, centre, depth - 1)
            if part is None:
                return None
            way += [*part, end]
        return way[:-1]

    def _nearby(self, q: Array) -> Iterator[Array]:
        """Yield configurations with the clearance at growing distances, the closest ones first."""
        for reach in _REACHES:
            if self._batches == _BATCHES or compute_time() > self._end:
                return
            self._batches += 1
            ways = self._rng.normal(size=(_DRAWS, len(q)))
            lengths = np.sort(reach * self._rng.uniform(0.2, 1.0, _DRAWS))
            ways *= (lengths / np.sqrt((ways * ways).sum(axis=1)))[:, np.newaxis]
            drawn = self._clear.limits.clip(q + ways * self._step)
            yield drawn[self._clear.are_free(drawn)]


def _dense(path: Array, step: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return configurations at most a step apart, and which of them are waypoints."""
    change = path[1:] - path[:-1]
    steps = change / step
    counts = np.maximum(1, np.ceil(np.sqrt((steps * steps).sum(axis=1))).astype(np.intp))
    first = counts.cumsum() - counts
    line = np.repeat(np.arange(len(counts)), counts)
    share = (np.arange(len(line)) - first[line]) / counts[line]
    dense, corner = np.empty((len(line) + 1, path.shape[1])), np.zeros(len(line) + 1, np.bool_)
    dense[:-1], dense[-1] = path[line] + share[:, np.newaxis] * change[line], path[-1]
    corner[first] = corner[-1] = True
    return dense, corner


def _part(
    dense: Array, corner: NDArray[np.bool_], first: int, last: int, *, clear: bool
) -> _Stretch:
    """Return the stretch of a path from one sample to another."""
    kept = corner[first : last + 1].copy()
    kept[[0, -1]] = True
    return _Stretch(dense[first : last + 1][kept], clear)
