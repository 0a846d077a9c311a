# SPDX-License-Identifier: Apache-2.0
"""A second look at a path before it is given out, by other code than that which found it.

Distances come from plain NumPy and the scene itself, not from the planners' packed memory. Where
two configurations are so far from everything that no sphere can touch anything on the way between
them, the whole way is certainly free; where not, the way is cut in halves, down to a fraction of
the planners' resolution. So most of a path is proven free between its samples too, and is looked at
in few places.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.model.tree import Array
from motion_nodes.planning.path_margins import PathMargins
from motion_nodes.planning.start import in_words
from motion_nodes.scene.checker import CollisionChecker

FINER = 10
"""So many times finer than the planners' resolution is what cannot be proven checked."""
ROUNDING = 5e-5
"""What is deeper than this counts as touching [m]: planners compute with less precision."""
_FIRST = 33
"""Places along a path that are looked at in any case."""
_STILL = 1e-9
"""What moves less does not move [m]."""


@dataclass(frozen=True)
class Verification:
    """What the second look found."""

    free: bool
    reason: str
    """For a person: where the path is not free; empty if it is."""
    configurations: int
    """How many were looked at."""
    certain: float
    """Share of the path's length that is proven free between the samples too."""
    time: float
    """[s]"""


class PathVerifier:
    """Checks paths of one checker's robot, in its scene as it is now; for one thread."""

    def __init__(self, checker: CollisionChecker, finer: int = FINER) -> None:
        """Prepare.

        Args:
            checker: whose robot, scene, clearance and resolution count.
            finer: how many times finer than its resolution a path is checked.
        """
        self._checker, self._finer = checker, finer
        self._margins = PathMargins(checker)

    def verify(self, path: ArrayLike) -> Verification:
        """Check a path, both ends included.

        Args:
            path: waypoints joined by straight lines, shape (k, n); a trajectory's samples too.
        """
        began = time.perf_counter()
        points = np.asarray(path, np.float64)
        limits = self._checker.limits
        outside = ~((points >= limits.lower - 1e-9) & (points <= limits.upper + 1e-9)).all(axis=1)
        if outside.any():
            first = int(np.argmax(outside))
            words = "; ".join(limits.violations(points[first])) or "it is not finite"
            spent = time.perf_counter() - began
            return Verification(False, f"waypoint {first}: {words}", 0, 0.0, spent)
        line = _Line(points, self._margins.travel, self._checker.resolution / self._finer)
        seen, uncertain, place, depth = self._look(line)
        spent = time.perf_counter() - began
        if place is None:
            certain = 1.0 - uncertain / line.length if line.length > 0.0 else 1.0
            return Verification(True, "", seen, certain, spent)
        words = in_words(self._checker, line.at(np.array([place]))[0])
        words = words or f"two are {1e3 * depth:.2f} mm in each other"
        share = place / line.length if line.length > 0.0 else 0.0
        return Verification(False, f"at {100 * share:.0f} % of the way: {words}", seen, 0.0, spent)

    def _look(self, line: _Line) -> tuple[int, float, float | None, float]:
        """Return configurations seen, the uncertain length, where it is not free and how deep."""
        places = np.linspace(0.0, line.length, _FIRST)
        margins = self._margins.margins(line.at(places))
        seen, uncertain = len(places), 0.0
        if margins.min() < -ROUNDING:
            return seen, 0.0, *_worst(places, margins)
        low, high, at_low, at_high = places[:-1], places[1:], margins[:-1], margins[1:]
        while True:
            # Whatever is about to touch between two places must have gone as far as both margins.
            moved = line.travel(low, high)
            safe = ((at_low + at_high > moved) | (moved < _STILL)).all(axis=1)
            tiny = line.steps(low, high) <= 1.0
            uncertain += float((high - low)[~safe & tiny].sum())
            left = ~(safe | tiny)
            if not left.any():
                return seen, uncertain, None, 0.0
            low, high, at_low, at_high = low[left], high[left], at_low[left], at_high[left]
            middle = 0.5 * (low + high)
            margins = self._margins.margins(line.at(middle))
            seen += len(middle)
            if margins.min() < -ROUNDING:
                return seen, 0.0, *_worst(middle, margins)
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
            at_low = np.concatenate([at_low, margins])
            at_high = np.concatenate([margins, at_high])


class _Line:
    """A path as a function of how far the checker's steps have gone along it."""

    def __init__(self, points: Array, travel: Array, steps: Array) -> None:
        ways = np.diff(points, axis=0)
        counts = np.linalg.norm(ways / steps, axis=1)
        moving = counts > 0.0
        self._points = points[np.concatenate([[True], moving])]
        self._places = np.concatenate([[0.0], np.cumsum(counts[moving])])
        moved = np.cumsum(np.abs(ways[moving]) @ travel, axis=0)
        self._travel = np.concatenate([np.zeros((1, travel.shape[1])), moved])
        self.length = float(self._places[-1])

    def at(self, places: Array) -> Array:
        """Return the configurations at places, shape (m, n)."""
        return _interpolated(places, self._places, self._points)

    def steps(self, low: Array, high: Array) -> Array:
        """Return how many of the finest steps lie between places, shape (m,)."""
        return high - low

    def travel(self, low: Array, high: Array) -> Array:
        """Return how far the columns move between places, at most, shape (m, c) [m]."""
        ends = (_interpolated(x, self._places, self._travel) for x in (high, low))
        return np.subtract(*ends)


def _interpolated(x: Array, xp: Array, rows: Array) -> Array:
    """Return rows of a piecewise linear function, shape (m, n)."""
    if len(xp) == 1:
        return np.repeat(rows, len(x), axis=0)
    i = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, len(xp) - 2)
    share = ((x - xp[i]) / (xp[i + 1] - xp[i]))[:, np.newaxis]
    return np.asarray(rows[i] + share * (rows[i + 1] - rows[i]))


def _worst(places: Array, margins: Array) -> tuple[float, float]:
    """Return the first place that is in something, and how deep."""
    i = int(np.argmax(margins.min(axis=1) < -ROUNDING))
    return float(places[i]), -float(margins[i].min())
