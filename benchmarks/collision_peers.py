# SPDX-License-Identifier: Apache-2.0
"""The same collision checks by pinocchio with coal, and by vamp where it can be imported."""

from __future__ import annotations

from collections.abc import Callable

import coal
import numpy as np
import pinocchio as pin
from true_geometry import convex

from motion_nodes.model.poses import to_rpy
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Box, Sphere
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.robot_spheres import checked_pairs, link_bodies, link_parts
from motion_nodes.scene.scene import Scene
from motion_nodes.scene.shapes import TriangleMesh

Check = Callable[[np.ndarray], bool]
"""Returns whether a configuration of the arm is free."""


def with_coal(robot: Robot, scene: Scene, spheres: bool = True, depth: float = 0.0) -> Check:
    """Return pinocchio's check of all pairs, one by one, up to the first collision.

    Args:
        robot: the robot.
        scene: spheres, boxes and cylinders.
        spheres: whether the robot is its spheres; else the shapes of its URDF.
        depth: as deep may two shapes be in each other [m].
    """
    model = pin.buildModelFromXML(robot.urdf)
    geometry = pin.GeometryModel()
    owners: list[tuple[int, str]] = []
    bodies = link_bodies(robot)
    for body in bodies:
        frame = model.getFrameId(body.link)
        joint, X_JL = model.frames[frame].parentJoint, model.frames[frame].placement
        if spheres:
            shapes = [
                (coal.Sphere(row[3]), pin.SE3(np.eye(3), np.array(row[:3]))) for row in body.spheres
            ]
        else:
            shapes = [
                (coal_shape(part.solid), pin.SE3(np.array(part.X_OS)))
                for part in link_parts(robot, body.link)
            ]
        for k, (shape, X_LS) in enumerate(shapes):
            name = f"{body.name}_{k}"
            item = pin.GeometryObject(name, joint, frame, X_JL * X_LS, shape)
            owners.append((geometry.addGeometryObject(item), body.name))
    first = len(owners)
    for item in scene.objects.values():
        X = pin.SE3(np.array(item.X_WO @ item.parts[0].X_OS))
        shape = coal_shape(item.parts[0].solid)
        geometry.addGeometryObject(pin.GeometryObject(item.name, 0, 0, X, shape))
    near = {
        frozenset((bodies[i].name, bodies[j].name))
        for i, j in checked_pairs(robot, bodies, scene.allowed)
    }
    for i, (a, name) in enumerate(owners):
        for b, other in owners[i + 1 :]:
            if frozenset((name, other)) in near:
                geometry.addCollisionPair(pin.CollisionPair(a, b))
        for b in range(first, first + len(scene.objects)):
            geometry.addCollisionPair(pin.CollisionPair(a, b))
    data, geometry_data = model.createData(), geometry.createData()
    for request in geometry_data.collisionRequests:
        request.security_margin = -depth
    full = robot.home.copy()

    def free(q: np.ndarray) -> bool:
        full[: len(q)] = q
        return not pin.computeCollisions(model, data, geometry, geometry_data, full, True)

    return free


def coal_shape(solid: object) -> coal.CollisionGeometry:
    """Return a sphere, box, cylinder or mesh as coal has it; a mesh counts as its convex hull."""
    if isinstance(solid, Sphere):
        return coal.Sphere(solid.radius)
    if isinstance(solid, Box):
        return coal.Box(*solid.size)
    if isinstance(solid, TriangleMesh):
        return convex(solid.vertices)
    return coal.Cylinder(solid.radius, solid.length)  # type: ignore[attr-defined]


def with_vamp(scene: Scene) -> Check | None:
    """Return vamp's check of the Panda, or None where vamp is not installed."""
    try:
        import vamp
    except ImportError:
        return None
    environment = vamp.Environment()
    for item in scene.objects.values():
        solid, X = item.parts[0].solid, item.X_WO
        if isinstance(solid, Sphere):
            environment.add_sphere(vamp.Sphere(list(X[:3, 3]), solid.radius))
        elif isinstance(solid, Box):
            half = [0.5 * x for x in solid.size]
            environment.add_cuboid(vamp.Cuboid(list(X[:3, 3]), list(to_rpy(X)), half))
    return lambda q: bool(vamp.panda.validate(list(q), environment))


def disagreements(checker: CollisionChecker, check: Check, Q: np.ndarray) -> int:
    """Return how often a peer says otherwise though no distance is within 10 micrometres of 0."""
    count = 0
    for q, free in zip(Q, checker.are_free(Q), strict=True):
        if check(q) != free and abs(checker.distance(q).value) > 1e-5:
            count += 1
    return count
