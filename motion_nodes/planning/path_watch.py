# SPDX-License-Identifier: Apache-2.0
"""Monitors the remaining path of an active motion for collisions as the world changes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.planning.path_verification import sweep_path
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene

AHEAD = 1.0
"""Max time along the path between two checks [s]."""


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
