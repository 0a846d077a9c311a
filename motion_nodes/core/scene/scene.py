# SPDX-License-Identifier: Apache-2.0
"""A planning scene: world objects, attached bodies and allowed collisions; immutable.

A planner keeps its scene while :class:`motion_nodes.core.scene.world.World` creates the next one.
Unchanged parts are shared between scenes, so ``is`` detects changes.

Frames of a scene: objects, attached bodies, and their subframes ``object/subframe``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from motion_nodes.core.robot.bounds import EARTH_LENGTH, check_numbers
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.allowed_collisions import AllowedCollisions
from motion_nodes.core.scene.shapes import HalfSpace, Solid, check_solid
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class Part:
    """One shape of an object."""

    solid: Solid
    X_OS: Array
    """Pose of the shape in the object's frame, shape (4, 4)."""


@dataclass(frozen=True, eq=False)
class Subframe:
    """A named frame of an object; requests refer to it as ``object/name``."""

    name: str
    X_OF: Array
    """Its pose in the object's frame, shape (4, 4)."""


@dataclass(frozen=True, eq=False)
class WorldObject:
    """An object in the world; created by :func:`world_object`, which validates it."""

    name: str
    X_WO: Array
    """Pose of the object in the world, shape (4, 4)."""
    parts: tuple[Part, ...]
    enabled: bool = True
    """False: kept, but without collisions."""
    static: bool = False
    """True: never moves."""
    rgba: tuple[float, float, float, float] | None = None
    """Colour for display, 0..1."""
    kind: str = ""
    """Type or database key given by a client; passed through."""
    observed_at: float | None = None
    """Stamp of the pose [s]; None: unknown."""
    subframes: tuple[Subframe, ...] = ()


@dataclass(frozen=True, eq=False)
class AttachedBody:
    """A body attached to a link.

    Raises:
        InvalidCommand: a part is a half space, which cannot be attached.
    """

    name: str
    link: str
    X_LO: Array
    """Pose of the body in the link, shape (4, 4)."""
    parts: tuple[Part, ...]
    touch_links: frozenset[str] = frozenset()
    """Links with which collisions are allowed; the link it is attached to need not be listed."""
    rgba: tuple[float, float, float, float] | None = None
    kind: str = ""
    subframes: tuple[Subframe, ...] = ()

    def __post_init__(self) -> None:
        """Validate the parts."""
        if any(isinstance(part.solid, HalfSpace) for part in self.parts):
            raise InvalidCommand(
                f"'{self.name}' has a plane, which is infinite and cannot be attached to link "
                f"'{self.link}'; attach a box.",
                field=self.name,
            )


@dataclass(frozen=True)
class LinkMargin:
    """Padding and scale of a link in checks against the world; see ``link_margins.py``."""

    padding: float = 0.0
    """Distance by which the surface moves outwards [m]."""
    scale: float = 1.0
    """Factor of the sizes of each shape about its centre."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Objects, attached bodies, allowed collisions, and margins of links."""

    objects: Mapping[str, WorldObject] = field(default_factory=lambda: MappingProxyType({}))
    attached: Mapping[str, AttachedBody] = field(default_factory=lambda: MappingProxyType({}))
    allowed: AllowedCollisions = field(default_factory=AllowedCollisions)
    revision: int = 0
    """Increases with each change."""
    margins: Mapping[str, LinkMargin] = field(default_factory=lambda: MappingProxyType({}))
    """Padding and scale by link; links without an entry have neither."""


@dataclass(frozen=True)
class SceneDiff:
    """Differences between two scenes, by name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    """Objects with a different pose only."""
    changed: tuple[str, ...] = ()
    """Objects with other differences."""
    attached: tuple[str, ...] = ()
    """Bodies that are newly attached, or whose attachment differs."""
    detached: tuple[str, ...] = ()
    allowed: bool = False
    """Whether the allowed collisions differ."""
    margins: bool = False
    """Whether padding or scale of links differs."""

    @property
    def empty(self) -> bool:
        """Whether there are no differences."""
        return self == SceneDiff()


def difference(before: Scene, after: Scene) -> SceneDiff:
    """Return the changes from one scene to another."""
    old, new = before.objects, after.objects
    other = [name for name in new if name in old and new[name] is not old[name]]
    moved = [name for name in other if _only_moved(old[name], new[name])]
    return SceneDiff(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        moved=tuple(moved),
        changed=tuple(name for name in other if name not in set(moved)),
        attached=tuple(
            name for name, body in after.attached.items() if before.attached.get(name) is not body
        ),
        detached=tuple(name for name in before.attached if name not in after.attached),
        allowed=before.allowed != after.allowed,
        margins=before.margins != after.margins,
    )


def _only_moved(a: WorldObject, b: WorldObject) -> bool:
    same = replace(a, X_WO=b.X_WO)
    names = ("parts", "enabled", "static", "rgba", "kind", "subframes")
    return all(getattr(same, name) == getattr(b, name) for name in names)


def world_object(
    name: str,
    solids: Solid | tuple[Solid, ...],
    X_WO: Array | None = None,
    *,
    poses: tuple[Array, ...] | None = None,
    static: bool = False,
    rgba: tuple[float, float, float, float] | None = None,
) -> WorldObject:
    """Return a validated object.

    Args:
        name: name of the object, not empty.
        solids: its shape or shapes.
        X_WO: pose in the world, shape (4, 4); None: identity.
        poses: pose of each shape in the object; None: identity.
        static: whether it never moves.
        rgba: colour, 0..1.

    Raises:
        InvalidCommand: names the object and the invalid value.
    """
    if not name:
        raise InvalidCommand("an object needs a name.")
    shapes = solids if isinstance(solids, tuple) else (solids,)
    places = poses if poses is not None else (np.eye(4),) * len(shapes)
    if len(places) != len(shapes) or not shapes:
        raise InvalidCommand(
            f"object '{name}': {len(shapes)} shapes, {len(places)} poses of shapes."
        )
    parts = []
    for index, (solid, X_OS) in enumerate(zip(shapes, places, strict=True), start=1):
        where = f"object '{name}', shape {index}"
        check_solid(solid, where)
        parts.append(Part(solid, checked_pose(X_OS, where)))
    X = checked_pose(np.eye(4) if X_WO is None else X_WO, f"object '{name}'")
    return WorldObject(name, X, tuple(parts), static=static, rgba=rgba)


def attached_body(
    item: WorldObject, link: str, X_LO: Array, touch_links: frozenset[str] = frozenset()
) -> AttachedBody:
    """Return an object as attached to a link.

    Args:
        item: the object.
        link: the link.
        X_LO: pose of the object in the link, shape (4, 4).
        touch_links: links with which collisions are allowed.
    """
    return AttachedBody(
        item.name, link, X_LO, item.parts, touch_links, item.rgba, item.kind, item.subframes
    )


def detached_object(body: AttachedBody, X_WO: Array) -> WorldObject:
    """Return an attached body as an object of the world at a pose, shape (4, 4)."""
    return WorldObject(
        body.name, X_WO, body.parts, rgba=body.rgba, kind=body.kind, subframes=body.subframes
    )


def checked_pose(X: Array, where: str) -> Array:
    """Return a pose as a read-only matrix.

    Raises:
        InvalidCommand: wrong shape, not finite, implausibly far away, or its rotation is not
            orthonormal.
    """
    matrix = np.asarray(X, dtype=np.float64)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise InvalidCommand(
            f"{where}: its pose must be a matrix (4, 4) of finite numbers.", field=where
        )
    check_numbers(matrix[:3, 3], EARTH_LENGTH, f"{where}: position")
    R = matrix[:3, :3]
    if np.abs(R @ R.T - np.eye(3)).max() > 1e-6 or np.linalg.det(R) < 0.0:
        raise InvalidCommand(f"{where}: the rotation of its pose is not orthonormal.", field=where)
    return frozen(matrix)


class SceneFrame(NamedTuple):
    """A frame of a scene."""

    link: str | None
    """The link that carries it; None: it is fixed in the world."""
    X: Array
    """Its pose in the link or in the world, shape (4, 4)."""


def find_frame(
    objects: Mapping[str, WorldObject], attached: Mapping[str, AttachedBody], name: str
) -> SceneFrame | None:
    """Return a frame of a scene; None if there is no such frame.

    Args:
        objects: objects of the world.
        attached: bodies attached to the robot.
        name: name of an object or attached body, or ``object/subframe``.
    """
    owner, _, subframe = name.rpartition("/")
    for whole, part in ((name, None), (owner, subframe)):
        if whole in attached:
            body = attached[whole]
            found = _within(body.X_LO, body.subframes, part)
            if found is not None:
                return SceneFrame(body.link, found)
        elif whole in objects:
            item = objects[whole]
            found = _within(item.X_WO, item.subframes, part)
            if found is not None:
                return SceneFrame(None, found)
    return None


def _within(X: Array, subframes: tuple[Subframe, ...], name: str | None) -> Array | None:
    """Return the pose of a subframe of an object at ``X``; ``X`` for an empty name."""
    if name is None:
        return X
    return next((frozen(X @ frame.X_OF) for frame in subframes if frame.name == name), None)
