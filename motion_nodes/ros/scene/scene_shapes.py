# SPDX-License-Identifier: Apache-2.0
"""Shapes of the scene from and to shape_msgs, with their poses in a CollisionObject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose
from moveit_msgs.msg import CollisionObject
from shape_msgs.msg import Mesh, MeshTriangle, Plane, SolidPrimitive

from motion_nodes.errors import InvalidCommand
from motion_nodes.model import bounds
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.ros.messages.moveit_messages import pose_message, pose_of
from motion_nodes.scene.mesh_cache import shared_mesh
from motion_nodes.scene.scene import Part
from motion_nodes.scene.shapes import (
    Cone,
    HalfSpace,
    Solid,
    TriangleMesh,
    as_primitives,
    check_solid,
    plane_pose,
    triangle_mesh,
)
from motion_nodes.typing import Array


class UnsupportedShape(InvalidCommand):
    """A type of shape that scenes do not support."""


@dataclass(frozen=True)
class _Primitive:
    """Number of dimensions and constructor of a type of SolidPrimitive."""

    sizes: int
    make: Callable[[Sequence[float]], Solid]


PRIMITIVES = {
    SolidPrimitive.BOX: _Primitive(3, lambda d: Box((d[0], d[1], d[2]))),
    SolidPrimitive.SPHERE: _Primitive(1, lambda d: Sphere(d[0])),
    SolidPrimitive.CYLINDER: _Primitive(2, lambda d: Cylinder(radius=d[1], length=d[0])),
    SolidPrimitive.CONE: _Primitive(2, lambda d: Cone(radius=d[1], height=d[0])),
}
"""By type; dimensions are in the order of shape_msgs: heights before radii."""

TYPE_NAMES = {SolidPrimitive.PRISM: "prism"}
"""Names of unsupported types."""

IDENTITY = np.eye(4)


def parts_of(message: CollisionObject, where: str) -> tuple[Part, ...]:
    """Return the shapes of an object with their poses; a missing pose is the identity.

    Args:
        message: the object; primitives, meshes and planes are read in this order.
        where: name of the object, for errors.

    Raises:
        UnsupportedShape: an unsupported type of shape.
        MotionError: invalid dimensions, values that are not finite, or more poses than shapes.
    """
    parts: list[Part] = []
    lists: tuple[tuple[str, Any, Any, Callable[[Any, str], tuple[Solid, Array]]], ...] = (
        ("primitive", message.primitives, message.primitive_poses, _solid),
        ("mesh", message.meshes, message.mesh_poses, _mesh),
        ("plane", message.planes, message.plane_poses, _half_space),
    )
    for kind, shapes, poses, read in lists:
        if len(poses) > len(shapes):
            raise InvalidCommand(
                f"{where} has {len(poses)} {kind}_poses and {len(shapes)} shapes for them; give "
                "at most one pose for each shape (the default is the pose of the object)"
            )
        for index, shape in enumerate(shapes):
            what = f"{kind} {index + 1} of {where}"
            solid, X_PS = read(shape, what)
            X_OP = (
                pose_of(poses[index], f"the pose of {what}")[0] if index < len(poses) else IDENTITY
            )
            parts.append(Part(solid, X_OP @ X_PS))
    return tuple(parts)


def poses_given(message: CollisionObject, where: str) -> list[Array]:
    """Return the poses of shapes in a message, in the order of :func:`parts_of`.

    Args:
        message: the object.
        where: name of the object, for errors.

    Raises:
        MotionError: a pose is invalid.
    """
    given = [*message.primitive_poses, *message.mesh_poses, *message.plane_poses]
    return [
        pose_of(pose, f"pose {index} of the shapes of {where}")[0]
        for index, pose in enumerate(given, start=1)
    ]


def message_order(part: Part) -> int:
    """Return a sort key: primitives before meshes before planes, as in messages."""
    return 2 * isinstance(part.solid, HalfSpace) + isinstance(part.solid, TriangleMesh)


def fill_shapes(message: CollisionObject, parts: Iterable[Part]) -> None:
    """Write shapes to an object's message.

    A capsule, which has no type in shape_msgs, is written as a cylinder and two spheres.
    """
    for part in parts:
        solid, X = part.solid, part.X_OS
        if isinstance(solid, TriangleMesh):
            message.meshes.append(_mesh_message(solid))
            message.mesh_poses.append(pose_message(X))
        elif isinstance(solid, HalfSpace):
            message.planes.append(Plane(coef=[0.0, 0.0, 1.0, 0.0]))
            message.plane_poses.append(pose_message(X))
        else:
            for primitive, X_SP in as_primitives(solid):
                message.primitives.append(_primitive_of(primitive))
                message.primitive_poses.append(pose_message(X @ X_SP))


def is_identity(pose: Pose) -> bool:
    """Return whether a pose is the default of a message."""
    p, r = pose.position, pose.orientation
    return (p.x, p.y, p.z, r.x, r.y, r.z, r.w) == (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def _solid(message: SolidPrimitive, what: str) -> tuple[Solid, Array]:
    kind = PRIMITIVES.get(message.type)
    if kind is None:
        name = TYPE_NAMES.get(message.type, f"type {message.type}")
        raise UnsupportedShape(
            f"{what} is a {name}, which is not supported; allowed are box, sphere, cylinder, cone, "
            "mesh and plane"
        )
    sizes = [float(size) for size in message.dimensions]
    if len(sizes) < kind.sizes:
        raise InvalidCommand(
            f"{what} has {len(sizes)} dimensions; its type needs {kind.sizes}", field=what
        )
    solid = kind.make(sizes)
    check_solid(solid, what)
    return solid, IDENTITY


def _mesh(message: Mesh, what: str) -> tuple[Solid, Array]:
    bounds.check_count(len(message.vertices), bounds.VERTICES, f"vertices of {what}")
    bounds.check_count(len(message.triangles), bounds.VERTICES, f"triangles of {what}")
    vertices = [(v.x, v.y, v.z) for v in message.vertices]
    bounds.check_numbers(vertices, bounds.SIZE, f"vertices of {what}", "xyz")
    triangles = [triangle.vertex_indices for triangle in message.triangles]
    try:
        mesh = triangle_mesh(np.array(vertices), np.array(triangles, dtype=np.int64))
    except InvalidCommand as error:
        raise InvalidCommand(f"{what}: {error}") from None
    return shared_mesh(mesh), IDENTITY


def _half_space(message: Plane, what: str) -> tuple[Solid, Array]:
    return HalfSpace(), plane_pose(message.coef, what)


def _primitive_of(solid: Solid) -> SolidPrimitive:
    if isinstance(solid, Box):
        return _primitive(SolidPrimitive.BOX, *solid.size)
    if isinstance(solid, Sphere):
        return _primitive(SolidPrimitive.SPHERE, solid.radius)
    if isinstance(solid, Cylinder):
        return _primitive(SolidPrimitive.CYLINDER, solid.length, solid.radius)
    assert isinstance(solid, Cone)
    return _primitive(SolidPrimitive.CONE, solid.height, solid.radius)


def _primitive(kind: Any, *sizes: float) -> SolidPrimitive:
    return SolidPrimitive(type=kind, dimensions=[float(size) for size in sizes])


def _mesh_message(mesh: TriangleMesh) -> Mesh:
    return Mesh(
        vertices=[Point(x=x, y=y, z=z) for x, y, z in mesh.vertices.tolist()],
        triangles=[MeshTriangle(vertex_indices=row) for row in mesh.triangles.astype(np.uint32)],
    )
