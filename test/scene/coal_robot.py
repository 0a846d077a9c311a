# SPDX-License-Identifier: Apache-2.0
"""How far a robot's true shapes are from what they must not touch, by coal."""

from __future__ import annotations

import itertools

import numpy as np
from scene.random_scenes import coal_distance

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.tree import Array, Sphere
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.robot_spheres import CollisionBody, link_parts
from motion_nodes.scene.shapes import Solid
from motion_nodes.scene.solid_types import bounding_radius

NEAR = 0.05
"""Greater distances are not told from this one [m]."""


class CoalRobot:
    """The shapes of a checker's robot, pair by pair."""

    def __init__(self, checker: CollisionChecker) -> None:
        robot = checker.robot
        self._checker = checker
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame)
        self._columns = robot.indices(checker.joint_names)
        self._shapes = [self._of(body) for body in checker.bodies]
        rows = {name: k for k, name in enumerate(self._kinematics.frame_names)}
        self._rows = [rows[body.link] for body in checker.bodies]

    def _of(self, body: CollisionBody) -> list[tuple[Solid, Array]]:
        item = body.carried
        if item is not None:
            return [(part.solid, item.X_LO @ part.X_OS) for part in item.parts]
        parts = [(part.solid, part.X_OS) for part in link_parts(self._checker.robot, body.link)]
        spheres = [
            (Sphere(float(row[3])), from_xyz_quat(row[:3], (0.0, 0.0, 0.0, 1.0)))
            for row in body.spheres
        ]
        return parts or spheres

    def distance(self, q: Array) -> float:
        """Return the signed distance of the nearest pair, at most ``NEAR`` [m].

        The checker's clearance is subtracted from distances to the world.
        """
        checker, full = self._checker, self._checker.positions.copy()
        full[self._columns] = q
        X = checker.base_pose @ self._kinematics.frames(full)
        placed = [
            [(solid, X[row] @ X_LS) for solid, X_LS in shapes]
            for row, shapes in zip(self._rows, self._shapes, strict=True)
        ]
        pairs = [(0.0, placed[i], placed[j]) for i, j in checker.pairs]
        for body, shapes in zip(checker.bodies, placed, strict=True):
            for item in checker.scene.objects.values():
                if not checker.scene.allowed.allows(body.name, item.name):
                    parts = [(part.solid, item.X_WO @ part.X_OS) for part in item.parts]
                    pairs.append((checker.clearance, shapes, parts))
        least = NEAR
        for clearance, one, other in pairs:
            for (a, X_A), (b, X_B) in itertools.product(one, other):
                apart = float(np.linalg.norm(X_A[:3, 3] - X_B[:3, 3]))
                if apart - bounding_radius(a) - bounding_radius(b) < least + clearance:
                    least = min(least, coal_distance(a, X_A, b, X_B) - clearance)
        return least
