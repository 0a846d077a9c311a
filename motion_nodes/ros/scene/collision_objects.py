# SPDX-License-Identifier: Apache-2.0
"""CollisionObject and AttachedCollisionObject to and from scenes.

Each message is applied as a whole or not at all. Omitted fields have MoveIt's meaning: no frame is
the planning frame, no pose the identity, REMOVE without an id applies to all objects. Shapes are
converted from and to shape_msgs, with their poses in a CollisionObject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from geometry_msgs.msg import Point, Pose
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject
from shape_msgs.msg import Mesh, MeshTriangle, Plane, SolidPrimitive

from motion_nodes.core.robot import bounds
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.core.scene.mesh_cache import shared_mesh
from motion_nodes.core.scene.scene import AttachedBody, Part, Subframe, WorldObject, attached_body
from motion_nodes.core.scene.shapes import (
    Cone,
    HalfSpace,
    Solid,
    TriangleMesh,
    as_primitives,
    check_solid,
    hull_meshes,
    is_registered,
    plane_pose,
    triangle_mesh,
)
from motion_nodes.core.scene.voxels import OCTOMAP
from motion_nodes.errors import InvalidCommand, UnknownFrame, did_you_mean
from motion_nodes.ros.joint_topics import set_stamp, stamp_ns
from motion_nodes.ros.messages.message_bounds import check_bounds
from motion_nodes.ros.messages.moveit_messages import pose_message, pose_of
from motion_nodes.ros.scene.scene_update import SceneDraft, SceneFrames
from motion_nodes.typing import Array

TYPE_NAMES = {SolidPrimitive.PRISM: "prism"}
"""Names of unsupported types."""
IDENTITY = np.eye(4)
Item = TypeVar("Item", WorldObject, AttachedBody)
RESERVED = OCTOMAP
"""Id that MoveIt reserves for its octomap."""


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
        elif is_registered(solid):
            for mesh in hull_meshes(solid):
                message.meshes.append(_mesh_message(mesh))
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
    bounds.SIZE.check(vertices, f"vertices of {what}", "xyz")
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


# Constants of a byte field are bytes in Python.
ADD, REMOVE, APPEND, MOVE = (
    getattr(CollisionObject, name) for name in ("ADD", "REMOVE", "APPEND", "MOVE")
)


def change_object(draft: SceneDraft, message: CollisionObject, frames: SceneFrames) -> list[str]:
    """Apply a message to the objects of the world.

    Args:
        draft: the scene to change.
        message: adds, appends to, moves or removes an object.
        frames: frames of scene messages.

    Returns:
        Warnings.

    Raises:
        MotionError: the message is invalid; nothing is changed.
    """
    check_bounds(message, f"object '{message.id[:40]}'")
    name = message.id
    if message.operation == REMOVE:
        return _remove(draft, name)
    if message.operation == MOVE:
        return _move(draft, message, frames)
    _check_new(message)
    if name in draft.attached:
        link = draft.attached[name].link
        raise InvalidCommand(f"object '{name}' is attached to {link}; detach it first")
    X_WO, parts = _geometry(draft, message, frames)
    old = draft.objects.get(name)
    if message.operation == APPEND and old is not None:
        # The new shapes are converted to the frame of the existing object.
        X_ON = inverse(old.X_WO) @ X_WO
        draft.put(_appended(old, X_ON, parts, message))
    else:
        item = WorldObject(name, X_WO, parts, kind=_kind(message), observed_at=_stamp(message))
        draft.put(replace(item, subframes=subframes_of(message)))
    return []


def change_attached(
    draft: SceneDraft, message: AttachedCollisionObject, frames: SceneFrames
) -> list[str]:
    """Apply a message to the objects attached to the robot; see :func:`change_object`."""
    item = message.object
    check_bounds(message, f"attached object '{item.id[:40]}'")
    if item.operation == REMOVE:
        return _detach(draft, item.id, message.link_name, frames)
    if item.operation == MOVE:
        raise InvalidCommand(f"'{item.id}' is attached and cannot be moved; attach it again")
    if not item.id:
        raise InvalidCommand("an attached object has no id")
    link = frames.link(message.link_name)
    touching, warnings = _touch_links(message, frames)
    body = draft.attached.get(item.id)
    if not (item.primitives or item.meshes or item.planes):
        draft.attach(_attached_body(draft, item.id, link, touching, frames))
        return warnings + _not_stored(message)
    _check_new(item)
    X_LO, parts = _geometry(draft, item, frames, link)
    if item.operation == APPEND and body is not None:
        if body.link != link:
            raise InvalidCommand(f"'{item.id}' is attached to {body.link}, not to {link}")
        X_ON = inverse(body.X_LO) @ X_LO
        touching |= body.touch_links
        draft.attach(_appended(replace(body, touch_links=touching), X_ON, parts, item))
    else:
        made = AttachedBody(item.id, link, X_LO, parts, touching, kind=_kind(item))
        draft.attach(replace(made, subframes=subframes_of(item)))
    return warnings + _not_stored(message)


def object_message(item: WorldObject, frame: str) -> CollisionObject:
    """Return a message that adds an object of the world; ``frame`` is the planning frame."""
    message = CollisionObject(id=item.name, operation=ADD, pose=pose_message(item.X_WO))
    _fill_header(message, item, frame)
    _fill_kind(message, item.kind)
    fill_shapes(message, item.parts)
    _fill_subframes(message, item.subframes)
    return message


def moved_message(item: WorldObject, frame: str) -> CollisionObject:
    """Return a message that moves an object of the world to its pose."""
    message = CollisionObject(id=item.name, operation=MOVE, pose=pose_message(item.X_WO))
    _fill_header(message, item, frame)
    return message


def removed_message(name: str, frame: str) -> CollisionObject:
    """Return a message that removes an object of the world."""
    message = CollisionObject(id=name, operation=REMOVE)
    message.header.frame_id = frame
    return message


def attached_message(body: AttachedBody) -> AttachedCollisionObject:
    """Return a message that attaches an object, in the frame of its link."""
    message = AttachedCollisionObject(link_name=body.link, touch_links=sorted(body.touch_links))
    item = message.object
    item.id, item.operation, item.pose = body.name, ADD, pose_message(body.X_LO)
    item.header.frame_id = body.link
    _fill_kind(item, body.kind)
    fill_shapes(item, body.parts)
    _fill_subframes(item, body.subframes)
    return message


def detached_message(name: str) -> AttachedCollisionObject:
    """Return a message that detaches an object."""
    return AttachedCollisionObject(object=CollisionObject(id=name, operation=REMOVE))


def _stamp(message: CollisionObject) -> float | None:
    """Return when the pose was observed [s]; None without a stamp."""
    return stamp_ns(message) * 1e-9 or None


def _fill_header(message: CollisionObject, item: WorldObject, frame: str) -> None:
    message.header.frame_id = frame
    if item.observed_at is not None:
        set_stamp(message, round(item.observed_at * 1e9))


def _check_new(message: CollisionObject) -> None:
    if message.operation not in (ADD, APPEND):
        number = int.from_bytes(message.operation, "little")
        raise InvalidCommand(
            f"object '{message.id}' has the operation {number}; allowed are ADD = 0, REMOVE = 1, "
            "APPEND = 2 and MOVE = 3"
        )
    if not message.id or message.id == RESERVED:
        raise InvalidCommand(f"the id '{message.id}' of an object is not allowed; give it a name")
    if not (message.primitives or message.meshes or message.planes):
        raise InvalidCommand(
            f"object '{message.id}' has no shapes; give primitives, meshes or planes"
        )


def _geometry(
    draft: SceneDraft, message: CollisionObject, frames: SceneFrames, link: str = ""
) -> tuple[Array, tuple[Part, ...]]:
    """Return the pose of an object in the planning frame, or in a link, with its shapes."""
    where = f"object '{message.id}'"
    X_HO = pose_of(message.pose, f"the pose of {where}")[0]
    parts = parts_of(message, where)
    given = poses_given(message, where)
    if len(parts) == 1 and given and is_identity(message.pose):
        # Older clients set the pose of the shape; a later MOVE sets the pose of the object.
        X_HO, parts = given[0], (replace(parts[0], X_OS=inverse(given[0]) @ parts[0].X_OS),)
    frame = message.header.frame_id
    if link and frame and frames.own(frame) == link:
        X_RO = X_HO
    else:
        X_RO = frames.pose(frame, draft) @ X_HO
        if link:
            X_RO = inverse(frames.link_pose(link)) @ X_RO
    return frozen(X_RO), tuple(Part(part.solid, frozen(part.X_OS)) for part in parts)


def _remove(draft: SceneDraft, name: str) -> list[str]:
    if not name:
        before = list(draft.objects)
        kept = draft.clear()
        draft.forget_allowed(set(before).difference(kept))
        return kept_note(kept)
    if name not in draft.objects:
        body = draft.attached.get(name)
        if body is not None and draft.was_attached(name):
            # Not if this message attaches it: MoveIt's tutorials remove it from the world, too.
            raise InvalidCommand(
                f"object '{name}' is attached to {body.link}; detach it before it is removed"
            )
        hint = did_you_mean(name, draft.objects)
        text = f"object '{name}' cannot be removed: it is not in the world.{hint}"
        if draft.refuses_unknown:
            raise InvalidCommand(text)
        return [text]
    del draft.objects[name]
    draft.forget_allowed([name])
    return []


def kept_note(names: Iterable[str]) -> list[str]:
    """Return the warning that scenery remains when all objects are removed."""
    listed = ", ".join(f"'{name}'" for name in names)
    if not listed:
        return []
    return [
        f"{listed}: scenery of the bring-up remains when all objects are removed or replaced; "
        "REMOVE it by name if it does not exist"
    ]


def _move(draft: SceneDraft, message: CollisionObject, frames: SceneFrames) -> list[str]:
    where = f"object '{message.id}'"
    item = draft.object(message.id)
    X_HO = pose_of(message.pose, f"the pose of {where}")[0]
    X_WO = frozen(frames.pose(message.header.frame_id, draft) @ X_HO)
    poses, parts = poses_given(message, where), item.parts
    if item.static:
        raise InvalidCommand(f"{where} is static and cannot be moved")
    if poses:
        if len(poses) != len(parts):
            raise InvalidCommand(
                f"{where} has {len(parts)} shapes, but the MOVE has {len(poses)} poses of shapes; "
                "give as many, or none"
            )
        if any(isinstance(part.solid, HalfSpace) for part in parts):
            # Parts do not keep the coefficients of a plane apart from its pose.
            raise InvalidCommand(
                f"{where} has a plane, so a MOVE cannot give poses of its shapes; move the object "
                "by its pose, or replace it (ADD)"
            )
        parts = tuple(
            Part(part.solid, frozen(X_OS)) for part, X_OS in zip(parts, poses, strict=True)
        )
    draft.put(replace(item, X_WO=X_WO, parts=parts, observed_at=_stamp(message)))
    if message.primitives or message.meshes or message.planes or message.subframe_names:
        return [
            f"{where} is moved; shapes and subframes in a MOVE are ignored (use ADD to replace "
            "them)"
        ]
    return []


def _attached_body(
    draft: SceneDraft, name: str, link: str, touching: frozenset[str], frames: SceneFrames
) -> AttachedBody:
    """Return an existing object, in the world or attached, as attached to a link."""
    body = draft.attached.get(name)
    if body is not None:
        # Attached again, possibly to another link.
        if body.link == link:
            return replace(body, touch_links=touching)
        X_LK = inverse(frames.link_pose(link)) @ frames.link_pose(body.link)
        return replace(body, link=link, X_LO=frozen(X_LK @ body.X_LO), touch_links=touching)
    item = draft.objects.get(name)
    if item is None:
        raise InvalidCommand(
            f"'{name}' cannot be attached: the message has no shapes, and it is not an object of "
            f"the world.{did_you_mean(name, draft.objects)}"
        )
    X_LO = frozen(inverse(frames.link_pose(link)) @ item.X_WO)
    return attached_body(item, link, X_LO, touching)


def _detach(draft: SceneDraft, name: str, link: str, frames: SceneFrames) -> list[str]:
    """Detach one object, or without a name all objects of a link, or of all links."""
    chosen = [name] if name else list(draft.attached)
    if link:
        link = frames.link(link)
    if not name and link:
        chosen = [n for n, body in draft.attached.items() if body.link == link]
    for each in chosen:
        body = draft.attached.get(each)
        if body is None:
            hint = did_you_mean(each, draft.attached)
            return [f"'{each}' cannot be detached: it is not attached.{hint}"]
        if link and body.link != link:
            raise InvalidCommand(f"'{each}' is attached to {body.link}, not to {link}")
    detached = {
        each: frozen(frames.link_pose(body.link) @ body.X_LO)
        for each in chosen
        if (body := draft.attached[each])
    }
    for each, X_WO in detached.items():
        draft.detach(each, X_WO)
    return []


def _touch_links(
    message: AttachedCollisionObject, frames: SceneFrames
) -> tuple[frozenset[str], list[str]]:
    """Return the touch links of an attached object, and warnings about unknown ones."""
    known, warnings = set(), []
    for name in message.touch_links:
        try:
            known.add(frames.link(name))
        except UnknownFrame as error:
            warnings.append(f"a touch link of '{message.object.id}' is ignored: {error}")
    return frozenset(known), warnings


def _kind(message: CollisionObject) -> str:
    """Return an object's type as one text, with its database on a second line."""
    return "\n".join(filter(None, (message.type.key, message.type.db)))


def _fill_kind(message: CollisionObject, kind: str) -> None:
    message.type.key, _, message.type.db = kind.partition("\n")


def _appended(item: Item, X_ON: Array, parts: tuple[Part, ...], message: CollisionObject) -> Item:
    """Return an object with further shapes and subframes, given in a frame ``X_ON`` of it."""
    added = tuple(Part(part.solid, frozen(X_ON @ part.X_OS)) for part in parts)
    frames = {frame.name: frame for frame in item.subframes}
    for frame in subframes_of(message):
        frames[frame.name] = Subframe(frame.name, frozen(X_ON @ frame.X_OF))
    # A later MOVE gives poses of shapes in this order.
    parts = tuple(sorted(item.parts + added, key=message_order))
    return replace(item, parts=parts, subframes=tuple(frames.values()))


def subframes_of(message: CollisionObject) -> tuple[Subframe, ...]:
    """Return the subframes of an object.

    Raises:
        InvalidCommand: not one pose per name, an invalid pose, or a name that is empty, contains
            ``/`` or appears twice.
    """
    names, poses = list(message.subframe_names), message.subframe_poses
    where = f"object '{message.id}'"
    if len(names) != len(poses):
        raise InvalidCommand(
            f"{where} has {len(names)} subframe_names and {len(poses)} subframe_poses; give one "
            "pose for each name"
        )
    for name in names:
        if not name or "/" in name or names.count(name) > 1:
            raise InvalidCommand(
                f"subframe '{name}' of {where} is invalid: a name must be unique, not empty, and "
                "must not contain '/'"
            )
    return tuple(
        Subframe(name, frozen(pose_of(pose, f"subframe '{name}' of {where}")[0]))
        for name, pose in zip(names, poses, strict=True)
    )


def _fill_subframes(message: CollisionObject, subframes: tuple[Subframe, ...]) -> None:
    message.subframe_names = [frame.name for frame in subframes]
    message.subframe_poses = [pose_message(frame.X_OF) for frame in subframes]


def _not_stored(message: AttachedCollisionObject) -> list[str]:
    """Return warnings about fields of an attached object that have no effect."""
    where = f"of attached object '{message.object.id}'"
    notes = []
    if message.weight != 0.0:
        notes.append(
            f"weight {where} is not used; set payload.mass of move_group and of the controller"
        )
    if message.detach_posture.points:
        notes.append(f"detach_posture {where} is not used; the gripper is commanded by its client")
    return notes
