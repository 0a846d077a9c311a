# SPDX-License-Identifier: Apache-2.0
"""Collision checks of a robot by coal and pinocchio, with the meshes that manufacturers publish."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin

from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Box, Sphere
from motion_nodes.scene.robot_spheres import checked_pairs, link_bodies
from motion_nodes.scene.scene import Scene

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from published_meshes import finger_boxes, link_vertices

Parts = list[tuple[coal.CollisionGeometry, np.ndarray]]


def published_parts(robot: str, folder: Path) -> dict[str, Parts]:
    """Return what is published of each link as coal's shapes, with their poses in the link.

    All published meshes are convex, so each is the hull of its vertices.
    """
    parts: dict[str, Parts] = {}
    for link, vertices in link_vertices(robot, folder).items():
        parts[link] = [(convex(vertices), np.eye(4))]
    if robot == "franka":
        for link, boxes in finger_boxes().items():
            parts[link] = [(coal.Box(*box.size), X) for box, X in boxes]
    return parts


def convex(vertices: np.ndarray) -> coal.CollisionGeometry:
    """Return the convex hull of points as coal has it."""
    points = coal.StdVec_Vec3s()
    for vertex in vertices:
        points.append(vertex)
    return coal.Convex.convexHull(points, True, "Qt")


@dataclass(frozen=True)
class Touch:
    """Two shapes that are in each other."""

    first: str
    """A link."""
    second: str
    """A link, or an object of the scene."""
    depth: float
    """[m]"""


class TrueGeometry:
    """A robot as its published meshes, in a scene."""

    def __init__(self, robot: Robot, parts: Mapping[str, Parts], scene: Scene) -> None:
        """Prepare.

        Args:
            robot: whose joints move; pairs of links that it never checks are not checked here.
            parts: of each link, as :func:`published_parts` gives them.
            scene: spheres, boxes and cylinders.
        """
        self.model = pin.buildModelFromXML(robot.urdf)
        self.geometry = pin.GeometryModel()
        self._names: list[str] = []
        for link, shapes in parts.items():
            frame = self.model.getFrameId(link)
            joint, X_JL = self.model.frames[frame].parentJoint, self.model.frames[frame].placement
            for k, (shape, X) in enumerate(shapes):
                placed = X_JL * pin.SE3(np.array(X))
                item = pin.GeometryObject(f"{link}_{k}", joint, frame, placed, shape)
                self.geometry.addGeometryObject(item)
                self._names.append(link)
        links = len(self._names)
        for item in scene.objects.values():
            X_WP = pin.SE3(np.array(item.X_WO @ item.parts[0].X_OS))
            shape = obstacle(item.parts[0].solid)
            self.geometry.addGeometryObject(pin.GeometryObject(item.name, 0, 0, X_WP, shape))
            self._names.append(item.name)
        bodies = link_bodies(robot)
        checked = {
            frozenset((bodies[i].name, bodies[j].name))
            for i, j in checked_pairs(robot, bodies, scene.allowed)
        }
        for i in range(links):
            for j in range(i + 1, len(self._names)):
                if j >= links or frozenset((self._names[i], self._names[j])) in checked:
                    self.geometry.addCollisionPair(pin.CollisionPair(i, j))
        self._data, self._geometry_data = self.model.createData(), self.geometry.createData()
        self._full = robot.home.copy()

    def touches(self, q: np.ndarray) -> bool:
        """Return whether anything touches, the joints of the arm being the robot's first."""
        self._full[: len(q)] = q
        model, data = self.model, self._data
        found = pin.computeCollisions(
            model, data, self.geometry, self._geometry_data, self._full, True
        )
        return bool(found)

    def deepest(self, q: np.ndarray) -> Touch:
        """Return the pair that is deepest in each other; depth -inf where none touches."""
        self._full[: len(q)] = q
        model, data = self.model, self._data
        pin.computeCollisions(model, data, self.geometry, self._geometry_data, self._full, False)
        request = coal.DistanceRequest()
        request.enable_signed_distance = True
        best = Touch("", "", -math.inf)
        results = self._geometry_data.collisionResults
        for found, pair in zip(results, self.geometry.collisionPairs, strict=True):
            if not found.isCollision():
                continue
            shapes = [self.geometry.geometryObjects[k].geometry for k in (pair.first, pair.second)]
            poses = [self._geometry_data.oMg[k] for k in (pair.first, pair.second)]
            placed = [coal.Transform3s(X.rotation, X.translation) for X in poses]
            result = coal.DistanceResult()
            distance = coal.distance(shapes[0], placed[0], shapes[1], placed[1], request, result)
            if -distance > best.depth:
                best = Touch(self._names[pair.first], self._names[pair.second], -distance)
        return best


def obstacle(solid: object) -> coal.CollisionGeometry:
    """Return a sphere, box or cylinder as coal has it."""
    if isinstance(solid, Sphere):
        return coal.Sphere(solid.radius)
    if isinstance(solid, Box):
        return coal.Box(*solid.size)
    return coal.Cylinder(solid.radius, solid.length)  # type: ignore[attr-defined]
