# SPDX-License-Identifier: Apache-2.0
"""Obstacles of a policy: a scene, the motion of its objects, and the pose of the robot's base."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from motion_nodes.model.poses import inverse
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import frozen
from motion_nodes.rmpflow.attached_spheres import carried_spheres
from motion_nodes.rmpflow.compiled_policy import Evaluator
from motion_nodes.rmpflow.obstacle_motion import ObstacleMotion
from motion_nodes.rmpflow.obstacles import ObstaclePacker
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array


class MovingScene:
    """Provides an evaluator with the obstacles of a scene, in the base frame, with twists."""

    def __init__(self, robot: Robot, tool: str, evaluator: Evaluator) -> None:
        self._robot, self._tool, self._evaluator = robot, tool, evaluator
        self.X_WB: Array = frozen(np.eye(4))
        """Pose of the robot's base frame in the world."""
        self.X_BW: Array = self.X_WB
        """Pose of the world in the base frame."""
        self.reset()

    def reset(self) -> None:
        """Clear all objects; the base pose stays."""
        self.scene = Scene()
        self._motion = ObstacleMotion()
        self._given: dict[str, Array] = {}
        self._twists: dict[str, Array] = {}
        self._time = 0.0
        self._packer = ObstaclePacker(self._evaluator.spheres.links)
        self._evaluator.set_carried(np.empty((0, 4)))
        self._refresh()

    def set_scene(self, scene: Scene, now: float | None = None) -> None:
        """Replace the obstacles.

        Args:
            scene: the world.
            now: time on the clock of the objects' stamps [s]; None: poses count as observed now.

        Raises:
            InvalidCommand: an attached body is not supported; the previous scene stays.
        """
        if scene.attached != self.scene.attached:
            self._evaluator.set_carried(carried_spheres(self._robot, self._tool, scene))
        self.scene = scene
        self._motion.update(scene, self._time, now)
        self._refresh()

    def set_base(self, X_WB: Array) -> None:
        """Set the pose of the base in the world, shape (4, 4)."""
        self.X_WB, self.X_BW = X_WB, inverse(X_WB)
        self._refresh()

    def set_twists(self, twists: Mapping[str, Array]) -> None:
        """Set the twists of objects in the world, shape (6,) each, instead of estimating them."""
        self._given = dict(twists)
        self._refresh()

    def elapse(self, duration: float) -> None:
        """Advance the time [s].

        Objects that are observed to move are predicted to continue; others rest where they were
        last observed.
        """
        self._time += duration
        if self._motion.moving:
            self._refresh()

    @property
    def twists(self) -> dict[str, Array]:
        """Twists of objects in the world: linear [m/s], angular [rad/s], shape (6,) each."""
        return dict(self._twists)

    def _refresh(self) -> None:
        self._twists = {**self._motion.twists(self._time), **self._given}
        poses = self._motion.poses(self._time)
        packed = self._packer.packed(self.scene, self.X_BW, self._twists, poses)
        self._evaluator.set_obstacles(packed)
