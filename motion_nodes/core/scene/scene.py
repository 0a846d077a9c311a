# SPDX-License-Identifier: Apache-2.0
"""A planning scene: world objects, attached bodies and allowed collisions; immutable.

A planner keeps its scene while :class:`motion_nodes.core.scene.world.World` creates the next one.
Unchanged parts are shared between scenes, so ``is`` detects changes.

Frames of a scene are those of objects, attached bodies, and their subframes ``object/subframe``.
The allowed collision matrix contains the pairs of links and objects that are not checked. Links
that may touch an object attached to a link are MoveIt's ``touch_links``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from motion_nodes.core.robot.bounds import EARTH_LENGTH
from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import KinematicTree, frozen
from motion_nodes.core.scene.shapes import HalfSpace, Solid, check_solid
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

MAX_PADDING, MIN_SCALE, MAX_SCALE = 10.0, 0.01, 100.0
"""[m], [1], [1]"""


def touch_links(robot: Robot, link: str) -> frozenset[str]:
    """Return the links with which an object attached to a link may collide.

    For a link of a gripper these are the links of the gripper: its fingers, the link that carries
    them, and what is fixed to the fingers. For other links, such as the flange of an arm without a
    gripper, those that no joint moves relative to the link.

    Args:
        robot: the robot.
        link: the link that carries the object.

    Raises:
        UnknownFrame: there is no such link.
    """
    robot.tree.link(link)
    rigid = _fixed_to(robot.tree, (link,))
    for group in robot.groups.values():
        if group.tips or set(group.joints) & set(robot.base_joints):
            continue
        joints = [
            joint
            for joint in robot.tree.joints.values()
            if joint.name in group.joints
            or (joint.mimic is not None and joint.mimic.joint in group.joints)
        ]
        fingers = _fixed_below(robot.tree, [joint.child for joint in joints])
        palms = {joint.parent for joint in joints}
        if link in fingers or rigid & palms:
            return fingers | palms | {link}
    return rigid


def _fixed_to(tree: KinematicTree, links: Iterable[str]) -> frozenset[str]:
    """Return links, and all that are fixed to them."""
    found = set(links)
    while True:
        more = {
            end
            for joint in tree.joints.values()
            if not joint.movable and found & {joint.parent, joint.child}
            for end in (joint.parent, joint.child)
        } - found
        if not more:
            return frozenset(found)
        found |= more


def _fixed_below(tree: KinematicTree, links: Iterable[str]) -> frozenset[str]:
    """Return links, and those below that are fixed to them."""
    found = set(links)
    # Parents precede their children in the order of the tree.
    for name in tree.frame_names:
        joint = tree.parent_joint.get(name)
        if joint is not None and not joint.movable and joint.parent in found:
            found.add(name)
    return frozenset(found)


Pair = tuple[str, str]


def pair_of(a: str, b: str) -> Pair:
    """Return two names as an unordered pair."""
    return (a, b) if a <= b else (b, a)


@dataclass(frozen=True)
class AllowedCollisions:
    """Allowed collisions, by names of links, objects and attached bodies; immutable.

    Lookup order: explicit pair entry; then per-name defaults (both must allow if both exist);
    otherwise the pair is checked.
    """

    pairs: Mapping[Pair, bool] = field(default_factory=lambda: MappingProxyType({}))
    """True for a pair whose collision is allowed, False for one that is checked although a name's
    default allows it; keys from :func:`pair_of`."""
    defaults: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    """Default per name, for all pairs that contain it."""

    def allows(self, a: str, b: str) -> bool:
        """Return whether a collision is allowed."""
        allowed = self.pairs.get(pair_of(a, b))
        if allowed is not None:
            return allowed
        defaults = [self.defaults[name] for name in (a, b) if name in self.defaults]
        return bool(defaults) and all(defaults)

    def with_pairs(self, pairs: Iterable[Pair], allowed: bool | None = True) -> AllowedCollisions:
        """Return a copy with other entries of pairs; None removes the entry."""
        changed = dict(self.pairs)
        for a, b in pairs:
            if allowed is None:
                changed.pop(pair_of(a, b), None)
            else:
                changed[pair_of(a, b)] = allowed
        return AllowedCollisions(MappingProxyType(changed), self.defaults)

    def with_default(self, name: str, allowed: bool | None) -> AllowedCollisions:
        """Return a copy with another default of a name; None removes it."""
        changed = dict(self.defaults)
        if allowed is None:
            changed.pop(name, None)
        else:
            changed[name] = allowed
        return AllowedCollisions(self.pairs, MappingProxyType(changed))


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
        if any(isinstance(part.solid, HalfSpace) for part in self.parts):
            raise InvalidCommand(
                f"'{self.name}' has a plane, which is infinite and cannot be attached to link "
                f"'{self.link}'; attach a box.",
                field=self.name,
            )


@dataclass(frozen=True)
class LinkMargin:
    """Padding and scale of a link in checks against the world; see :func:`checked_margin`."""

    padding: float = 0.0
    """Distance by which the surface moves outwards [m]."""
    scale: float = 1.0
    """Factor of the sizes of each shape about its centre."""


def checked_margin(link: str, padding: float = 0.0, scale: float = 1.0) -> LinkMargin:
    """Return a validated margin.

    Args:
        link: name of the link, for errors.
        padding: distance by which the surface moves outwards [m], not negative.
        scale: factor of the sizes of each shape about its centre.

    Raises:
        InvalidCommand: padding or scale out of range.
    """
    if not (math.isfinite(padding) and 0.0 <= padding <= MAX_PADDING):
        raise InvalidCommand(
            f"link_padding of '{link}' is {padding} m; allowed is from 0 to {MAX_PADDING:g} m"
        )
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise InvalidCommand(
            f"link_scale of '{link}' is {scale:g}; allowed is from {MIN_SCALE:g} to {MAX_SCALE:g}"
        )
    return LinkMargin(float(padding), float(scale))


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
    pose = rigid_pose(X, where)
    EARTH_LENGTH.check(pose[:3, 3], f"{where}: position")
    return frozen(pose)


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
