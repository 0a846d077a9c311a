# SPDX-License-Identifier: Apache-2.0
"""Path verification with exact geometry, including the motion between waypoints.

Planners check spheres at discrete steps; here distances between the robot's collision geometry,
attached bodies and the scene's shapes are computed exactly
(:mod:`motion_nodes.core.scene.exact_checks`), and each segment of the path is proven collision-free
by the distances at its middle. Segments that cannot be proven, because the path passes too close,
are checked at a fraction of the planners' steps. During a motion, its remaining path is verified
again as the world changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.planning.planning_problem import in_words
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.typing import Array

FINER = 10
"""Ratio of the planners' steps to the finest steps of verification."""
_ROOT = 40
"""Length of the initial segments, in finest steps."""
AHEAD = 1.0
"""Max time along the path between two checks [s]."""


@dataclass(frozen=True)
class Verification:
    """Result of verifying a path."""

    free: bool
    reason: str
    """Where the path is in collision; empty if collision-free."""
    configurations: int
    """Number of configurations checked."""
    certain: float
    """Fraction of the path's length that is proven collision-free between configurations too."""
    time: float
    """Duration [s]."""
    q: Array | None = None
    """A configuration in collision, if there is one, shape (n,)."""


class PathVerifier:
    """Verifies paths of one checker's robot in its current scene; not thread-safe."""

    def __init__(self, checker: CollisionChecker) -> None:
        """Create the verifier.

        Args:
            checker: robot, scene, clearance and resolution.
        """
        self._checker = checker

    def verify(self, path: ArrayLike) -> Verification:
        """Verify a path, both ends included.

        Args:
            path: waypoints joined by straight lines, shape (k, n); a trajectory's samples too.
        """
        began = compute_time()
        points = np.asarray(path, np.float64)
        limits = self._checker.limits
        outside = ~((points >= limits.lower - 1e-9) & (points <= limits.upper + 1e-9)).all(axis=1)
        if outside.any():
            first = int(np.argmax(outside))
            words = "; ".join(limits.violations(points[first])) or "it is not finite"
            spent = compute_time() - began
            return Verification(False, f"waypoint {first}: {words}", 0, 0.0, spent)
        found = sweep_path(self._checker, points)
        words = f"at {100 * found.share:.0f} % of the path: " if not found.free else ""
        words += in_words(self._checker, found.q) if not found.free else ""
        spent = compute_time() - began
        certain = found.certain if found.free else 0.0
        q = None if found.free else found.q
        return Verification(found.free, words, found.configurations, certain, spent, q)


def is_beyond_spheres(checker: CollisionChecker, q: Array | None) -> bool:
    """Return whether links touch that only the exact checks consider, by ``ignore_spheres``.

    Args:
        checker: robot and scene.
        q: a configuration in collision, shape (n,); None: there is none.
    """
    pairs = checker.robot.description.collision.ignore_spheres
    if q is None or not pairs:
        return False
    return not checker.exact.touching(q).isdisjoint({*pairs, *(pair[::-1] for pair in pairs)})


@dataclass(frozen=True, eq=False)
class SweptPath:
    """Result of checking a path with exact geometry, including the motion between waypoints."""

    free: bool
    configurations: int
    """Number of configurations checked."""
    certain: float
    """Fraction of the length that is proven collision-free in between."""
    share: float
    """Path parameter of ``q``, 0 to 1."""
    q: Array
    """A configuration in collision, if there is one, shape (n,)."""


def sweep_path(checker: CollisionChecker, path: ArrayLike) -> SweptPath:
    """Check a path with exact geometry; joint limits are ignored.

    Args:
        checker: robot, scene, clearance and resolution.
        path: finite waypoints joined by straight lines, shape (k, n).
    """
    points = np.asarray(path, np.float64)
    steps = (points[1:] - points[:-1]) / (checker.resolution / FINER)
    lengths = np.sqrt((steps * steps).sum(axis=1))
    line = np.ascontiguousarray(points[np.append(True, lengths > 0.0)])
    places = np.append(0.0, lengths[lengths > 0.0].cumsum())
    length = float(places[-1])
    found = checker.exact.sweep(line, places, math.ceil(length / _ROOT), 1.0)
    q = np.array([np.interp(found.place, places, column) for column in line.T])
    certain, share = 1.0, 0.0
    if length > 0.0:
        certain, share = 1.0 - found.unproven / length, found.place / length
    return SweptPath(found.free, found.configurations, certain, share, q)


class PathWatch:
    """Tracks a robot along a path and checks the remaining part; not thread-safe."""

    def __init__(self, checker: CollisionChecker, times: ArrayLike, path: ArrayLike) -> None:
        """Monitor one path.

        Args:
            checker: of the path's joints; it is modified, so pass a copy.
            times: time of each waypoint [s], shape (m,), increasing.
            path: joint positions in the checker's order [rad or m], shape (m, n).

        Raises:
            InvalidCommand: no points, or inconsistent shapes.
        """
        self._checker = checker
        self._times = np.asarray(times, dtype=np.float64)
        self._path = np.asarray(path, dtype=np.float64)
        n = len(checker.joint_names)
        if self._path.ndim != 2 or self._path.shape != (len(self._times), n) or not len(self._path):
            raise InvalidCommand(
                f"a monitored path needs points of {n} joints; got {self._path.shape} and "
                f"{len(self._times)} times"
            )
        self._scene: Scene | None = None
        self.index = 0
        """Index of the waypoint that the robot has reached."""
        self.blocked_at = math.inf
        """Time of the waypoint at which the last check found an obstacle [s]; infinite: none."""

    def advance(self, q: ArrayLike) -> None:
        """Update the position of the robot, shape (n,); it never moves backwards."""
        end = int(np.searchsorted(self._times, self._times[self.index] + AHEAD, side="right"))
        ahead = self._path[self.index : max(end, self.index + 1)]
        away = self._checker.limits.turns.distance(ahead, q).max(axis=1)
        self.index += int(np.argmin(away))

    def obstacle(self, scene: Scene) -> str:
        """Return the obstacle on the remaining path in a scene, as text; empty if none.

        An unchanged scene is not checked again.
        """
        if scene is self._scene:
            return ""
        self._scene = scene
        self._checker.set_scene(scene)
        self.blocked_at = math.inf
        found = sweep_path(self._checker, self._path[self.index :])
        if found.free:
            return ""
        away = np.abs(self._path[self.index :] - found.q).max(axis=1)
        self.blocked_at = float(self._times[self.index + int(np.argmin(away))])
        contacts = [c for c in self._checker.exact.explain(found.q) if c.kind != "limit"]
        if not contacts:
            return "the path ahead is blocked"
        a, b = contacts[0].pair
        return f"{a} would touch {b}"
