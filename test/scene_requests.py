# SPDX-License-Identifier: Apache-2.0
"""Scene messages with exactly the fields that pymoveit2 sets (moveit2.py, b1bcfe3)."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point
from moveit_msgs.msg import (
    AllowedCollisionEntry,
    AttachedCollisionObject,
    CollisionObject,
    PlanningScene,
)
from shape_msgs.msg import Mesh, MeshTriangle, SolidPrimitive

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.ros.messages.moveit_messages import pose_message

BASE = "panda_link0"
CUBE_CORNERS = [(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]
CUBE_FACES = [
    (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
    (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3),
]  # fmt: skip


def _object(
    name: str, xyz: Sequence[float], rpy: Sequence[float], frame: str, operation: Any
) -> Any:
    """Return an object with pose, frame and operation, without poses of shapes."""
    message = CollisionObject(id=name, operation=operation)
    message.header.frame_id = frame
    message.pose = pose_message(from_xyz_rpy(xyz, rpy))
    return message


def primitive(
    name: str,
    kind: int,
    sizes: Sequence[float],
    xyz: Sequence[float] = (0.0, 0.0, 0.0),
    rpy: Sequence[float] = (0.0, 0.0, 0.0),
    frame: str = BASE,
    operation: Any = CollisionObject.ADD,
) -> CollisionObject:
    """Like add_collision_primitive, which add_collision_box, _sphere, _cylinder and _cone call."""
    message = _object(name, xyz, rpy, frame, operation)
    message.primitives.append(SolidPrimitive(type=kind, dimensions=[float(s) for s in sizes]))
    return message


def box(name: str, size: Sequence[float], xyz: Sequence[float], **fields: Any) -> CollisionObject:
    """Like add_collision_box."""
    return primitive(name, SolidPrimitive.BOX, size, xyz, **fields)


def sphere(name: str, radius: float, xyz: Sequence[float], **fields: Any) -> CollisionObject:
    """Like add_collision_sphere."""
    return primitive(name, SolidPrimitive.SPHERE, (radius,), xyz, **fields)


def cylinder(
    name: str, height: float, radius: float, xyz: Sequence[float], **fields: Any
) -> CollisionObject:
    """Like add_collision_cylinder."""
    return primitive(name, SolidPrimitive.CYLINDER, (height, radius), xyz, **fields)


def cone(
    name: str, height: float, radius: float, xyz: Sequence[float], **fields: Any
) -> CollisionObject:
    """Like add_collision_cone."""
    return primitive(name, SolidPrimitive.CONE, (height, radius), xyz, **fields)


def cube_mesh(
    name: str, size: float, xyz: Sequence[float], rpy: Sequence[float] = (0.0, 0.0, 0.0)
) -> CollisionObject:
    """Like add_collision_mesh with the mesh of a cube."""
    message = _object(name, xyz, rpy, BASE, CollisionObject.ADD)
    message.meshes.append(
        Mesh(
            vertices=[Point(x=size * x, y=size * y, z=size * z) for x, y, z in CUBE_CORNERS],
            triangles=[MeshTriangle(vertex_indices=np.uint32(face)) for face in CUBE_FACES],
        )
    )
    return message


def moved(
    name: str, xyz: Sequence[float], rpy: Sequence[float] = (0.0, 0.0, 0.0), frame: str = BASE
) -> CollisionObject:
    """Like move_collision: a pose, no shapes."""
    return _object(name, xyz, rpy, frame, CollisionObject.MOVE)


def removed(name: str) -> CollisionObject:
    """Like remove_collision_object: no frame."""
    return CollisionObject(id=name, operation=CollisionObject.REMOVE)


def attached(name: str, link: str, touch_links: Sequence[str] = ()) -> AttachedCollisionObject:
    """Like attach_collision_object: an id, no shapes."""
    return AttachedCollisionObject(
        object=CollisionObject(id=name, operation=CollisionObject.ADD),
        link_name=link,
        touch_links=list(touch_links),
    )


def detached(name: str = "") -> AttachedCollisionObject:
    """Like detach_collision_object; without a name, like detach_all_collision_objects."""
    return AttachedCollisionObject(
        object=CollisionObject(id=name, operation=CollisionObject.REMOVE)
    )


def with_collisions_allowed(scene: PlanningScene, name: str, allow: bool) -> PlanningScene:
    """Like allow_collisions: the whole received scene, with a row and a column filled in."""
    scene = copy.deepcopy(scene)
    matrix = scene.allowed_collision_matrix
    known = name in matrix.entry_names
    if not known:
        matrix.entry_names = [*matrix.entry_names, name]
    column = list(matrix.entry_names).index(name)
    for row, entry in enumerate(matrix.entry_values):
        if not known:
            entry.enabled = [*entry.enabled, allow]
        elif row != column:
            entry.enabled[column] = allow
    whole = AllowedCollisionEntry(enabled=[allow] * len(matrix.entry_names))
    rows = list(matrix.entry_values)
    matrix.entry_values = [*rows, whole] if not known else [
        whole if row == column else entry for row, entry in enumerate(rows)
    ]  # fmt: skip
    return scene


def emptied(scene: PlanningScene) -> PlanningScene:
    """Like clear_all_collision_objects: the whole received scene, without objects."""
    scene = copy.deepcopy(scene)
    scene.world.collision_objects = []
    scene.robot_state.attached_collision_objects = []
    return scene


def diff(
    *objects: CollisionObject, attached: Sequence[AttachedCollisionObject] = ()
) -> PlanningScene:
    """Return a scene diff like those of MoveIt's PlanningSceneInterface."""
    message = PlanningScene(is_diff=True)
    message.robot_state.is_diff = True
    message.world.collision_objects = list(objects)
    message.robot_state.attached_collision_objects = list(attached)
    return message
