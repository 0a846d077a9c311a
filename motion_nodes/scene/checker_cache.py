# SPDX-License-Identifier: Apache-2.0
"""Collision checkers of a robot's groups, kept between requests."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from motion_nodes.model.robot import Group, Robot
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.moved_links import scene_for
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array

MAX_GROUPS = 32
"""Max number of groups whose checkers are kept: any list of joints is a group."""


class CheckerCache:
    """Provides checkers to several threads; only changed tables are computed again."""

    def __init__(self, robot: Robot, clearance: Callable[[], float]) -> None:
        """Create an empty cache.

        Args:
            robot: to check.
            clearance: returns the min clearance from obstacles [m].
        """
        self._robot = robot
        self._clearance = clearance
        self._checkers: dict[str, CollisionChecker] = {}
        self._lock = threading.Lock()

    def checker(self, group: Group, scene: Scene, q: Array) -> CollisionChecker:
        """Return a checker of a group for use in one thread.

        Args:
            group: joints of its configurations.
            scene: to check against.
            q: positions of all joints [rad or m], shape (n,).
        """
        moved, clearance = scene_for(self._robot, group.joints, scene), self._clearance()
        others = np.ones(len(q), bool)
        others[group.indices] = False
        with self._lock:
            checker = self._checkers.get(group.name)
            if checker is None:
                checker = CollisionChecker(self._robot, group.joints)
                if len(self._checkers) >= MAX_GROUPS:
                    self._checkers.pop(next(iter(self._checkers)))
                self._checkers[group.name] = checker
            # Setting anything recomputes its tables, which may take longer than a plan.
            if checker.clearance != clearance:
                checker.set_clearance(clearance)
            if (checker.positions[others] != q[others]).any():
                checker.set_positions(q)
            if checker.scene is not moved:
                checker.set_scene(moved)
            checker.kernel()
            return checker.snapshot()
