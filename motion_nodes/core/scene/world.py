# SPDX-License-Identifier: Apache-2.0
"""The world: objects are added, moved, attached, detached and removed; worlds from YAML files.

Each change creates a new :class:`~motion_nodes.core.scene.scene.Scene` and leaves the previous one
unchanged; a rejected change has no effect. Thread-safe.

Scene files, for planning without ROS:

    objects:
      table: {box: [0.6, 1.0, 0.04], position: [0.5, 0.0, 0.2]}
      post: {cylinder: {radius: 0.04, length: 0.6}, position: [0.4, 0.2, 0.3], rpy: [0, 0.1, 0]}
      ball: {sphere: 0.08, position: [0.3, -0.4, 0.5]}
      rail: {capsule: {radius: 0.03, length: 0.5}, position: [0.6, 0, 0.6], quat_xyzw: [0, 1, 0, 1]}
      part: {mesh: part.stl, scale: [0.001, 0.001, 0.001], position: [0.4, 0.0, 0.3]}
      floor: {ground: true, position: [0.0, 0.0, -0.01]}

Lengths are in metres, angles in radians, poses in the robot's base frame. Boxes have full edge
lengths; ground is the half space z < 0 of its frame.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, overload

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy, inverse
from motion_nodes.core.robot.robot_yaml import Name, Positive
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.core.robot.yaml_schema import decode, read_yaml
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.core.scene.scene import (
    AllowedCollisions,
    AttachedBody,
    LinkMargin,
    Pair,
    Scene,
    WorldObject,
    attached_body,
    checked_margin,
    checked_pose,
    detached_object,
    world_object,
)
from motion_nodes.core.scene.shapes import Capsule, HalfSpace, Solid
from motion_nodes.errors import InvalidCommand, InvalidDescription, did_you_mean
from motion_nodes.typing import Array

_Three = tuple[float, float, float]


@dataclass(frozen=True)
class RoundEntry:
    """A cylinder or capsule about its z axis."""

    radius: Positive
    """[m]"""
    length: Positive
    """Length along z [m]; that of a capsule excludes its hemispheres."""


@dataclass(frozen=True)
class ObjectEntry:
    """An object: exactly one shape, and its pose."""

    box: tuple[Positive, Positive, Positive] | None = None
    sphere: Positive | None = None
    """Radius [m]."""
    cylinder: RoundEntry | None = None
    capsule: RoundEntry | None = None
    mesh: Name | None = None
    """STL or OBJ file, relative to the scene file's folder."""
    ground: Literal[True] | None = None
    scale: _Three = (1.0, 1.0, 1.0)
    """Scale of a mesh along x, y, z."""
    position: _Three = (0.0, 0.0, 0.0)
    """[m]"""
    rpy: _Three | None = None
    """Roll, pitch, yaw [rad]."""
    quat_xyzw: tuple[float, float, float, float] | None = None

    @property
    def shape(self) -> str:
        """Field name of the given shape."""
        return next(name for name in SHAPES if getattr(self, name) is not None)


_PLACES = ("scale", "position", "rpy", "quat_xyzw")
SHAPES = tuple(field.name for field in fields(ObjectEntry) if field.name not in _PLACES)
"""Fields of an object that are shapes; an object has exactly one."""


@dataclass(frozen=True)
class SceneEntry:
    """A complete file."""

    objects: Annotated[dict[Name, ObjectEntry], Meta(min_length=0)]


def read_scene_file(file: Path | str) -> SceneEntry:
    """Read a file.

    Raises:
        InvalidDescription: the file cannot be read, is not YAML, or a field is missing, unknown or
            out of range; names file and field.
    """
    scene = decode(read_yaml(Path(file)), SceneEntry, str(file))
    for name, entry in scene.objects.items():
        given = [shape for shape in SHAPES if getattr(entry, shape) is not None]
        place = f"{file}: objects.{name}"
        if len(given) != 1:
            raise InvalidDescription(
                f"{place}: needs one shape of {', '.join(SHAPES)}; given: "
                f"{' and '.join(given) or 'none'}."
            )
        if entry.rpy is not None and entry.quat_xyzw is not None:
            raise InvalidDescription(
                f"{place}: has rpy and quat_xyzw; give one of them, or neither."
            )
        if entry.quat_xyzw is not None and sum(x * x for x in entry.quat_xyzw) < 1e-12:
            raise InvalidDescription(f"{place}.quat_xyzw is zero; the identity is [0, 0, 0, 1].")
    return scene


class World:
    """The current scene, and its changes."""

    def __init__(self, scene: Scene | None = None) -> None:
        self._scene = scene or Scene()
        self._lock = threading.RLock()

    @property
    def scene(self) -> Scene:
        """The current scene."""
        return self._scene

    @property
    def revision(self) -> int:
        """Revision of the current scene; it increases with each change."""
        return self._scene.revision

    @overload
    def add(self, *objects: WorldObject) -> None: ...

    @overload
    def add(
        self, name: str, shape: Solid | tuple[Solid, ...], X_WO: ArrayLike | None = None, /
    ) -> None: ...

    def add(self, *given: Any) -> None:
        """Add objects; an object with the same name is replaced.

        Called as ``add(name, shape, X_WO)`` or with objects made by
        :func:`~motion_nodes.core.scene.scene.world_object`.

        Args:
            given: name, shape (or a tuple of shapes) and pose in the world, shape (4, 4), default
                identity; or objects.

        Raises:
            InvalidCommand: not a shape or object, invalid dimensions or pose, or an attached body
                has that name.
        """
        if given and isinstance(given[0], str):
            name, shape, X_WO = (*given, None)[:3]
            objects = [world_object(name, shape, None if X_WO is None else np.asarray(X_WO))]
        else:
            objects = list(given)
            for item in objects:
                if not isinstance(item, WorldObject):
                    raise InvalidCommand(
                        f"add(name, shape, X_WO) or add(object) is called with {item!r:.60}."
                    )
        with self._lock:
            for item in objects:
                if item.name in self._scene.attached:
                    link = self._scene.attached[item.name].link
                    raise InvalidCommand(f"'{item.name}' is attached to {link}: detach it first.")
            self._change(objects={**self._scene.objects, **{item.name: item for item in objects}})

    def __repr__(self) -> str:
        """Return names of objects and attached bodies."""
        names = ", ".join(self._scene.objects) or "empty"
        held = ", ".join(self._scene.attached)
        return f"World({names}{f'; attached: {held}' if held else ''})"

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names of the objects."""
        return iter(self._scene.objects)

    def __getitem__(self, name: str) -> WorldObject:
        """Return an object; see ``X_WO`` and ``parts``.

        Args:
            name: its name.

        Raises:
            InvalidCommand: unknown name; lists the objects.
        """
        return self._object(name)

    def move(self, poses: Mapping[str, Array]) -> None:
        """Set the poses of objects.

        Args:
            poses: ``X_WO`` by object, shape (4, 4) each.

        Raises:
            InvalidCommand: unknown name, invalid pose, or a static object.
        """
        with self._lock:
            objects = dict(self._scene.objects)
            for name, X_WO in poses.items():
                item = self._object(name)
                if item.static:
                    raise InvalidCommand(
                        f"object '{name}' is static and cannot be moved.", field=name
                    )
                X = checked_pose(X_WO, f"object '{name}'")
                objects[name] = replace(item, X_WO=X, observed_at=None)
            self._change(objects=objects)

    def enable(self, name: str, enabled: bool = True) -> None:
        """Enable or disable the collisions of an object.

        Args:
            name: name of the object.
            enabled: whether its collisions are checked.

        Raises:
            InvalidCommand: unknown name.
        """
        with self._lock:
            item = replace(self._object(name), enabled=enabled)
            self._change(objects={**self._scene.objects, name: item})

    def remove(self, *names: str) -> None:
        """Remove objects.

        Args:
            names: names of the objects.

        Raises:
            InvalidCommand: unknown name; nothing is removed.
        """
        with self._lock:
            for name in names:
                self._object(name)
            gone = set(names)
            self._change(objects={k: v for k, v in self._scene.objects.items() if k not in gone})

    def attach(self, body: AttachedBody) -> None:
        """Attach a body to a link; a world object of that name is replaced by it.

        Args:
            body: the body with its link, pose and touch links.
        """
        with self._lock:
            objects = {k: v for k, v in self._scene.objects.items() if k != body.name}
            self._change(objects=objects, attached={**self._scene.attached, body.name: body})

    def attach_object(
        self, name: str, link: str, X_WL: Array, touch_links: Iterable[str] = ()
    ) -> None:
        """Attach an object to a link at its current relative pose.

        Args:
            name: name of the object.
            link: the link.
            X_WL: pose of the link in the world, shape (4, 4).
            touch_links: links with which collisions are allowed.

        Raises:
            InvalidCommand: unknown name.
        """
        with self._lock:
            item = self._object(name)
            X_LO = frozen(inverse(checked_pose(X_WL, f"link '{link}'")) @ item.X_WO)
            touching = frozenset(touch_links)
            self.attach(attached_body(item, link, X_LO, touching))

    def detach(self, name: str, X_WL: Array | None) -> None:
        """Detach a body.

        Args:
            name: name of the attached body.
            X_WL: pose of its link in the world, shape (4, 4); None: remove the body from the world.

        Raises:
            InvalidCommand: no attached body has that name.
        """
        with self._lock:
            body = self._scene.attached.get(name)
            if body is None:
                hint = did_you_mean(name, self._scene.attached)
                raise InvalidCommand(f"there is no attached body '{name}'.{hint}", field=name)
            objects = dict(self._scene.objects)
            if X_WL is not None:
                X_WO = frozen(checked_pose(X_WL, f"link '{body.link}'") @ body.X_LO)
                objects[name] = detached_object(body, X_WO)
            attached = {k: v for k, v in self._scene.attached.items() if k != name}
            self._change(objects=objects, attached=attached)

    def allow(self, pairs: Iterable[Pair], allowed: bool | None = True) -> None:
        """Change the allowed collision matrix.

        Args:
            pairs: names of links, objects or attached bodies.
            allowed: whether collisions are allowed; None: remove the entries.
        """
        with self._lock:
            self._change(allowed=self._scene.allowed.with_pairs(pairs, allowed))

    def set_margin(self, link: str, padding: float = 0.0, scale: float = 1.0) -> None:
        """Set padding and scale of a link in checks against the world.

        Args:
            link: name of the link.
            padding: distance by which its surface moves outwards [m].
            scale: factor of the sizes of its shapes.

        Raises:
            InvalidCommand: padding or scale out of range.
        """
        margin = checked_margin(link, padding, scale)
        with self._lock:
            others = {name: m for name, m in self._scene.margins.items() if name != link}
            self._change(margins=others | ({} if margin == LinkMargin() else {link: margin}))

    def set_allowed(self, allowed: AllowedCollisions) -> None:
        """Replace the allowed collision matrix.

        Args:
            allowed: the new matrix.
        """
        with self._lock:
            self._change(allowed=allowed)

    def clear(self) -> None:
        """Remove all objects; attached bodies and allowed collisions are kept."""
        with self._lock:
            self._change(objects={})

    def replace(self, scene: Scene) -> None:
        """Replace the scene; it gets the next revision of this world.

        Args:
            scene: objects, attached bodies and allowed collisions.
        """
        with self._lock:
            self._change(scene.objects, scene.attached, scene.allowed, scene.margins)

    def _object(self, name: str) -> WorldObject:
        item = self._scene.objects.get(name)
        if item is None:
            raise InvalidCommand(
                f"there is no object '{name}'.{did_you_mean(name, self._scene.objects)}", field=name
            )
        return item

    def _change(
        self,
        objects: Mapping[str, WorldObject] | None = None,
        attached: Mapping[str, AttachedBody] | None = None,
        allowed: AllowedCollisions | None = None,
        margins: Mapping[str, LinkMargin] | None = None,
    ) -> None:
        now = self._scene
        self._scene = Scene(
            now.objects if objects is None else MappingProxyType(dict(objects)),
            now.attached if attached is None else MappingProxyType(dict(attached)),
            now.allowed if allowed is None else allowed,
            now.revision + 1,
            now.margins if margins is None else MappingProxyType(dict(margins)),
        )


def load_scene(file: Path | str) -> Scene:
    """Return the scene in a file, its poses in the robot's base frame.

    Raises:
        InvalidDescription: names the file, the field, its value and the allowed values.
    """
    path = Path(file)
    entries = read_scene_file(path).objects.items()
    objects = {name: world_object(name, _solid(e, path), _pose(e)) for name, e in entries}
    return Scene(objects=MappingProxyType(objects))


def load_world(file: Path | str) -> World:
    """Return a world with the objects of a scene file, as read by :func:`load_scene`.

    Args:
        file: YAML, see ``docs/planning_scene.md``.

    Raises:
        InvalidDescription: names the file, the field, its value and the allowed values.
    """
    return World(load_scene(file))


def _pose(entry: ObjectEntry) -> Array:
    if entry.quat_xyzw is not None:
        return from_xyz_quat(entry.position, entry.quat_xyzw)
    return from_xyz_rpy(entry.position, entry.rpy or (0.0, 0.0, 0.0))


def _solid(entry: ObjectEntry, path: Path) -> Solid:
    if entry.box is not None:
        return Box(entry.box)
    if entry.sphere is not None:
        return Sphere(entry.sphere)
    if entry.cylinder is not None:
        return Cylinder(entry.cylinder.radius, entry.cylinder.length)
    if entry.capsule is not None:
        return Capsule(entry.capsule.radius, entry.capsule.length)
    if entry.mesh is not None:
        return read_mesh(path.parent / entry.mesh, entry.scale)
    return HalfSpace()
