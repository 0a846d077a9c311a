# SPDX-License-Identifier: Apache-2.0
"""Verification of a path before it is given out: by true shapes, and between its points too.

Planners check spheres at steps; here distances of the robot's collision geometry, what it carries
and the scene's shapes are computed exactly (:mod:`motion_nodes.scene.exact_checks`), and each piece
of the path is proven collision-free by how far everything is from touching in its middle. What
cannot be proven, because the path passes close by, is checked at a fraction of the planners' steps.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.model.tree import Array
from motion_nodes.planning.start_state import in_words
from motion_nodes.scene.checker import CollisionChecker

FINER = 10
"""Finest steps of verification are that fraction of the planners' steps."""
_ROOT = 40
"""Steps of verification in the pieces of the path that are checked first."""


@dataclass(frozen=True)
class Verification:
    """The result of verifying a path."""

    free: bool
    reason: str
    """For a person: where the path is in collision; empty if it is not."""
    configurations: int
    """How many were checked."""
    certain: float
    """Share of the path's length that is proven collision-free between configurations too."""
    time: float
    """[s]"""


class PathVerifier:
    """Verifies paths of one checker's robot, in its scene as it is now; for one thread."""

    def __init__(self, checker: CollisionChecker, finer: int = FINER) -> None:
        """Prepare.

        Args:
            checker: whose robot, scene, clearance and resolution count.
            finer: how many times finer than its resolution a path is checked at most.
        """
        self._checker, self._finer = checker, finer

    def verify(self, path: ArrayLike) -> Verification:
        """Verify a path, both ends included.

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
        found = sweep_path(self._checker, points, self._finer)
        words = f"at {100 * found.share:.0f} % of the path: " if not found.free else ""
        words += in_words(self._checker, found.q) if not found.free else ""
        spent = time.perf_counter() - began
        certain = found.certain if found.free else 0.0
        return Verification(found.free, words, found.configurations, certain, spent)


@dataclass(frozen=True, eq=False)
class SweptPath:
    """The result of checking a path by true shapes, between its points too."""

    free: bool
    configurations: int
    """How many were checked."""
    certain: float
    """Share of the length that is proven collision-free between them."""
    share: float
    """How much of the length comes before ``q``, 0 to 1."""
    q: Array
    """A configuration in collision, if there is one, shape (n,)."""


def sweep_path(checker: CollisionChecker, path: ArrayLike, finer: int = FINER) -> SweptPath:
    """Check a path by true shapes; limits do not count.

    Args:
        checker: whose robot, scene, clearance and resolution count.
        path: finite waypoints joined by straight lines, shape (k, n).
        finer: what cannot be proven is checked in steps of that fraction of the resolution.
    """
    points = np.asarray(path, np.float64)
    lengths = np.linalg.norm(np.diff(points, axis=0) / (checker.resolution / finer), axis=1)
    line = np.ascontiguousarray(points[np.append(True, lengths > 0.0)])
    places = np.append(0.0, np.cumsum(lengths[lengths > 0.0]))
    length = float(places[-1])
    found = checker.exact.sweep(line, places, math.ceil(length / _ROOT), 1.0)
    q = np.array([np.interp(found.place, places, column) for column in line.T])
    certain, share = 1.0, 0.0
    if length > 0.0:
        certain, share = 1.0 - found.unproven / length, found.place / length
    return SweptPath(found.free, found.configurations, certain, share, q)
