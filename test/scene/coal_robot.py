# SPDX-License-Identifier: Apache-2.0
"""Distances of a robot's exact shapes from each other and from obstacles, by coal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import coal
import numpy as np
from scene.random_scenes import coal_shape

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.robot_spheres import CollisionBody, link_parts
from motion_nodes.typing import Array

NEAR = 0.05
"""Greater distances are reported as this one [m]."""
Shapes = list[tuple[coal.CollisionGeometry, Array]]
"""Shapes of a link, with their poses in it."""


class Touch(NamedTuple):
    """A link in contact with another link or an object."""

    first: str
    second: str
    depth: float
    """Penetration depth [m]."""


class Placed(NamedTuple):
    """A shape at a pose, with its bounding sphere."""

    name: str
    shape: coal.CollisionGeometry
    X: coal.Transform3s
    centre: Array
    radius: float

    @classmethod
    def at(cls, name: str, shape: coal.CollisionGeometry, X: Array) -> Placed:
        if not shape.aabb_radius > 0.0:
            shape.computeLocalAABB()
        radius = shape.aabb_radius  # inf for a half space, whose centre is none
        centre = X[:3, :3] @ shape.aabb_center if math.isfinite(radius) else np.zeros(3)
        return cls(name, shape, coal.Transform3s(X[:3, :3], X[:3, 3]), centre + X[:3, 3], radius)

    def gap(self, other: Placed) -> float:
        """Return a lower bound of the distance [m]."""
        return float(np.linalg.norm(self.centre - other.centre)) - self.radius - other.radius

    def distance(self, other: Placed) -> float:
        """Return the signed distance [m]; negative: penetration depth."""
        request, result = coal.DistanceRequest(), coal.DistanceResult()
        request.enable_signed_distance = True
        return float(coal.distance(self.shape, self.X, other.shape, other.X, request, result))

    def touches(self, other: Placed) -> bool:
        """Return whether both touch."""
        request, result = coal.CollisionRequest(), coal.CollisionResult()
        return self.gap(other) < 0.0 and bool(
            coal.collide(self.shape, self.X, other.shape, other.X, request, result)
        )


class CoalRobot:
    """The shapes of a checker's robot, pair by pair."""

    def __init__(
        self,
        checker: CollisionChecker,
        shapes: Mapping[str, Shapes] | None = None,
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Read the shapes.

        Args:
            checker: provides robot and pairs, and its present scene at each check.
            shapes: shapes by link instead of the robot's; links without an entry have none.
            pairs: pairs of links instead of the checker's.
        """
        robot = checker.robot
        self._checker, self._pairs = checker, checker.pairs if pairs is None else pairs
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame)
        self._columns = robot.indices(checker.joint_names)
        self._shapes = [
            self._of(body) if shapes is None else shapes.get(body.link, [])
            for body in checker.bodies
        ]
        rows = {name: k for k, name in enumerate(self._kinematics.frame_names)}
        self._rows = [rows[body.link] for body in checker.bodies]

    def _of(self, body: CollisionBody) -> Shapes:
        item = body.carried
        if item is not None:
            return [(coal_shape(part.solid), item.X_LO @ part.X_OS) for part in item.parts]
        parts = link_parts(self._checker.robot, body.link)
        return [(coal_shape(part.solid), part.X_OS) for part in parts] or [
            (coal_shape(Sphere(float(row[3]))), from_xyz_quat(row[:3], (0.0, 0.0, 0.0, 1.0)))
            for row in body.spheres
        ]

    def _all_pairs(self, q: Array) -> Iterator[tuple[float, Placed, Placed]]:
        """Yield pairs of shapes, with the clearance that they must keep [m]."""
        checker, full = self._checker, self._checker.positions.copy()
        full[self._columns] = q
        X = checker.base_pose @ self._kinematics.frames(full)
        links = [
            [Placed.at(body.name, shape, X[row] @ X_LS) for shape, X_LS in shapes]
            for body, row, shapes in zip(checker.bodies, self._rows, self._shapes, strict=True)
        ]
        for i, j in self._pairs:
            yield from ((0.0, a, b) for a, b in itertools.product(links[i], links[j]))
        allowed = checker.scene.allowed
        for item in checker.scene.objects.values():
            parts = [Placed.at(item.name, coal_shape(p.solid), item.X_WO @ p.X_OS)
                     for p in item.parts]  # fmt: skip
            for body, shapes in zip(checker.bodies, links, strict=True):
                if not allowed.allows(body.name, item.name):
                    pairs = itertools.product(shapes, parts)
                    yield from ((checker.clearance, a, b) for a, b in pairs)

    def distance(self, q: Array) -> float:
        """Return the signed distance of the nearest pair, at most ``NEAR`` [m].

        The checker's clearance is subtracted from distances to the world.
        """
        least = NEAR
        for clearance, a, b in self._all_pairs(q):
            if a.gap(b) < least + clearance:
                least = min(least, a.distance(b) - clearance)
        return least

    def touches(self, q: Array) -> bool:
        """Return whether any pair touches."""
        return any(a.touches(b) for _, a, b in self._all_pairs(q))

    def deepest(self, q: Array) -> Touch:
        """Return the pair with the max penetration depth; depth -inf without contact."""
        best = Touch("", "", -math.inf)
        for _, a, b in self._all_pairs(q):
            if a.touches(b) and -a.distance(b) > best.depth:
                best = Touch(a.name, b.name, -a.distance(b))
        return best
