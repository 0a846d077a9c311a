# SPDX-License-Identifier: Apache-2.0
"""Random goal states of the joint sliders, free of collisions."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

MAX_TRIES = 300


class RandomGoals:
    """Draws states of the planned joints within their limits."""

    def __init__(self, viewed: ViewedRobot) -> None:
        """Create for a robot; the first sample may compile its collision checks."""
        self._viewed = viewed
        self._checker: CollisionChecker | None = None
        self._lock = threading.Lock()  # two pages may ask at once
        self._rng = np.random.default_rng()

    def sample(self, scene: Scene, positions: Mapping[str, float]) -> dict[str, float] | None:
        """Return a state [rad or m], by joint; None: all that were tried are in collision.

        Robots without a description of collisions are not checked.

        Args:
            scene: the planning scene.
            positions: of joints that are not planned [rad or m], by joint.
        """
        viewed, names = self._viewed, self._viewed.planned_joints
        assert viewed.limits is not None
        limits = viewed.limits.select(names)
        low = np.where(np.isfinite(limits.lower), limits.lower, -np.pi)
        high = np.where(np.isfinite(limits.upper), limits.upper, np.pi)
        Q = self._rng.uniform(low, high, (MAX_TRIES, len(names)))
        if isinstance(viewed.model, Robot):
            others = {n: x for n, x in positions.items() if n not in names and np.isfinite(x)}
            with self._lock:
                checker = self._checker or CollisionChecker(viewed.model, names)
                self._checker = checker
                checker.set_scene(scene)
                checker.set_positions(others)
                Q = Q[checker.are_free(Q)]
        return dict(zip(names, Q[0].tolist(), strict=True)) if len(Q) else None
