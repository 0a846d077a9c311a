# SPDX-License-Identifier: Apache-2.0
"""Random solids and worlds for tests, and the same solids for coal."""

import functools

import coal
import numpy as np
from scipy.spatial import ConvexHull

from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.shapes import (
    Capsule,
    Cone,
    HalfSpace,
    Solid,
    TriangleMesh,
    triangle_mesh,
)
from motion_nodes.typing import Array

KINDS = ("sphere", "box", "cylinder", "capsule", "cone", "hull", "mesh")


def random_pose(rng: np.random.Generator, low: float = 0.0, high: float = 1.0) -> Array:
    """Return a pose whose origin is between ``low`` and ``high`` away [m]."""
    direction = rng.normal(size=3)
    position = direction / np.linalg.norm(direction) * rng.uniform(low, high)
    return from_xyz_quat(position, rng.normal(size=4))


def random_solid(rng: np.random.Generator, kind: str, size: float = 0.1) -> Solid:
    """Return a solid of a kind with dimensions of ``size`` to 3 ``size`` [m]."""
    a, b, c = (float(x) for x in rng.uniform(0.5, 1.5, 3) * size)
    if kind == "sphere":
        return Sphere(a)
    if kind == "box":
        return Box((2.0 * a, 2.0 * b, 2.0 * c))
    if kind == "cylinder":
        return Cylinder(a, 2.0 * b)
    if kind == "capsule":
        return Capsule(a, 2.0 * b)
    if kind == "cone":
        return Cone(a, 2.0 * b)
    if kind == "hull":
        points = rng.normal(size=(20, 3)) * size
        return triangle_mesh(points, [[0, 1, 2]], convex=True)
    if kind == "mesh":
        return l_shaped_mesh(2.0 * size)
    assert kind == "ground"
    return HalfSpace()


def l_shaped_mesh(size: float) -> TriangleMesh:
    """Return a closed mesh that is not convex: an L, ``size`` in each direction [m]."""
    half = 0.5 * size
    outline = np.array([[0, 0], [size, 0], [size, half], [half, half], [half, size], [0, size]])
    bottom = np.column_stack((outline, np.zeros(6)))
    top = bottom + np.array([0.0, 0.0, size])
    # The outline from above; all its triangles share the inner corner.
    caps = [(3, 4, 5), (3, 5, 0), (3, 0, 1), (3, 1, 2)]
    faces = [(a, c, b) for a, b, c in caps] + [(a + 6, b + 6, c + 6) for a, b, c in caps]
    for k in range(6):
        n = (k + 1) % 6
        faces += [(k, n, n + 6), (k, n + 6, k + 6)]
    return triangle_mesh(np.concatenate((bottom, top)) - 0.3 * size, faces)


def random_scene(
    rng: np.random.Generator,
    count: int,
    kinds: tuple[str, ...] = KINDS,
    size: float = 0.06,
    low: float = 0.25,
    high: float = 1.0,
) -> Scene:
    """Return a world of random objects around the origin."""
    objects = {}
    for index in range(count):
        kind = kinds[index % len(kinds)]
        name = f"{kind}_{index}"
        objects[name] = world_object(
            name, random_solid(rng, kind, size), random_pose(rng, low, high)
        )
    return Scene(objects)


@functools.cache
def coal_shape(solid: Solid) -> coal.CollisionGeometry:
    """Return the coal geometry of a solid."""
    if isinstance(solid, Sphere):
        return coal.Sphere(solid.radius)
    if isinstance(solid, Box):
        return coal.Box(*solid.size)
    if isinstance(solid, Cylinder):
        return coal.Cylinder(solid.radius, solid.length)
    if isinstance(solid, Capsule):
        return coal.Capsule(solid.radius, solid.length)
    if isinstance(solid, Cone):
        return coal.Cone(solid.radius, solid.height)
    if isinstance(solid, HalfSpace):
        return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
    assert isinstance(solid, TriangleMesh)
    model = coal.BVHModelOBBRSS()
    model.beginModel(len(solid.triangles), len(solid.vertices))
    points = coal.StdVec_Vec3s()
    for vertex in solid.vertices:
        points.append(vertex)
    triangles = coal.StdVec_Triangle()
    for face in solid.triangles:
        triangles.append(coal.Triangle(*(int(i) for i in face)))
    if solid.convex or is_closed_and_convex(solid):
        return coal.Convex.convexHull(points, False, "Qt")
    model.addSubModel(points, triangles)
    model.endModel()
    return model


def is_closed_and_convex(mesh: TriangleMesh) -> bool:
    """Return whether a mesh encloses the volume of its convex hull."""
    a, b, c = (mesh.vertices[mesh.triangles[:, k]] for k in range(3))
    volume = float(np.einsum("ti,ti->", a, np.cross(b, c))) / 6.0
    return abs(abs(volume) / ConvexHull(mesh.vertices).volume - 1.0) < 1e-6


def coal_collides(a: Solid, X_A: Array, b: Solid, X_B: Array) -> bool:
    """Return whether two solids touch, by coal."""
    placed = [coal.Transform3s(X[:3, :3], X[:3, 3]) for X in (X_A, X_B)]
    result = coal.CollisionResult()
    shapes = coal_shape(a), coal_shape(b)
    coal.collide(shapes[0], placed[0], shapes[1], placed[1], coal.CollisionRequest(), result)
    return bool(result.isCollision())


def coal_distance(a: Solid, X_A: Array, b: Solid, X_B: Array) -> float:
    """Return the signed distance of two solids by coal [m]; negative: penetration depth."""
    placed = [coal.Transform3s(X[:3, :3], X[:3, 3]) for X in (X_A, X_B)]
    result = coal.DistanceResult()
    request = coal.DistanceRequest()
    request.enable_signed_distance = True
    return float(coal.distance(coal_shape(a), placed[0], coal_shape(b), placed[1], request, result))
