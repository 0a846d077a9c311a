# SPDX-License-Identifier: Apache-2.0
"""A scene under construction, while messages are applied.

Resolves the reference frames of messages, and converts octomap messages to occupied voxels.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from moveit_msgs.msg import PlanningSceneWorld
from octomap_msgs.msg import Octomap

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.scene import (
    AllowedCollisions,
    AttachedBody,
    LinkMargin,
    Part,
    Scene,
    Subframe,
    WorldObject,
    detached_object,
    find_frame,
)
from motion_nodes.core.scene.scenery import Scenery
from motion_nodes.core.scene.shapes import Solid, TriangleMesh
from motion_nodes.core.scene.voxels import OCTOMAP, Voxels, decode, encode
from motion_nodes.errors import InvalidCommand, UnknownFrame, did_you_mean
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.messages.moveit_messages import pose_message, pose_of
from motion_nodes.ros.transforms import transform_pose
from motion_nodes.tolerances import EQUAL_POSES
from motion_nodes.typing import Array

_IDENTITY = frozen(np.eye(4))


class SceneDraft:
    """Mutable copy of a scene, so that adding n objects takes O(n) time."""

    def __init__(self, scene: Scene, scenery: Scenery | None = None) -> None:
        """Copy a scene.

        Args:
            scene: the scene before the changes.
            scenery: objects that are removed by name only.
        """
        self._before = scene
        self.scenery = scenery or Scenery()
        self.objects: dict[str, WorldObject] = dict(scene.objects)
        self.attached: dict[str, AttachedBody] = dict(scene.attached)
        self.allowed = scene.allowed
        self.margins: dict[str, LinkMargin] = dict(scene.margins)
        self.refuses_unknown = False
        """Whether the removal of an object that is not in the world fails."""

    def was_attached(self, name: str) -> bool:
        """Return whether an object was attached before the changes."""
        return name in self._before.attached

    @property
    def changed(self) -> bool:
        """Whether the draft differs from the original scene."""
        before = self._before
        return (
            self.objects != dict(before.objects)
            or self.attached != dict(before.attached)
            or self.allowed != before.allowed
            or self.margins != dict(before.margins)
        )

    def scene(self) -> Scene:
        """Return the draft as a scene."""
        return Scene(
            MappingProxyType(dict(self.objects)),
            MappingProxyType(dict(self.attached)),
            self.allowed,
            self._before.revision + 1,
            MappingProxyType(dict(self.margins)),
        )

    def object(self, name: str) -> WorldObject:
        """Return an object of the world.

        Raises:
            InvalidCommand: there is no such object, or it is attached.
        """
        item = self.objects.get(name)
        if item is None:
            body = self.attached.get(name)
            if body is not None:
                raise InvalidCommand(f"'{name}' is attached to {body.link}; detach it first")
            raise InvalidCommand(f"there is no object '{name}'.{did_you_mean(name, self.objects)}")
        return item

    def clear(self) -> tuple[str, ...]:
        """Remove all objects except scenery; return the names of the remaining ones."""
        kept = {name: item for name, item in self.objects.items() if name in self.scenery.objects}
        self.objects.clear()
        self.objects.update(kept)
        return tuple(kept)

    def allow_scenery(self) -> None:
        """Allow the collisions that the scenery declares."""
        present, known = self.objects.keys(), self.allowed.pairs
        pairs = [
            pair
            for pair in self.scenery.allowed
            if not present.isdisjoint(pair) and known.get(pair) is not True
        ]
        if pairs:
            self.allowed = self.allowed.with_pairs(pairs)

    def put(self, item: WorldObject) -> None:
        """Add an object to the world, or replace the one of the same name.

        An object equal to the existing one keeps its identity, so that it is not a change.
        """
        if item.name in self.scenery.objects:
            item = replace(item, static=True)
        old = self.objects.get(item.name) or self._before.objects.get(item.name)
        if old is not None:
            item = replace(
                item,
                rgba=item.rgba or old.rgba,
                parts=_known(old.parts, item.parts),
                subframes=_known_frames(old.subframes, item.subframes),
            )
            fields = ("enabled", "static", "rgba", "kind", "parts", "subframes")
            if _near(old.X_WO, item.X_WO) and _same(old, item, fields):
                item = old
        self.objects[item.name] = item

    def attach(self, body: AttachedBody) -> None:
        """Attach an object to a link; replaces the one of the same name, attached or not."""
        world = self.objects.pop(body.name, None)
        old = self.attached.get(body.name) or self._before.attached.get(body.name)
        before = old or world
        if before is not None:
            body = replace(
                body,
                rgba=body.rgba or before.rgba,
                parts=_known(before.parts, body.parts),
                subframes=_known_frames(before.subframes, body.subframes),
            )
        if old is not None:
            fields = ("link", "touch_links", "rgba", "kind", "parts", "subframes")
            if _near(old.X_LO, body.X_LO) and _same(old, body, fields):
                body = old
        self.attached[body.name] = body

    def detach(self, name: str, X_WO: Array) -> None:
        """Move an attached object to the world, at a pose in the planning frame, shape (4, 4)."""
        body = self.attached.pop(name)
        self.put(detached_object(body, X_WO))

    def forget_allowed(self, names: Iterable[str]) -> None:
        """Remove the allowed collisions of removed objects."""
        removed, allowed = set(names), self.allowed
        pairs = {pair: value for pair, value in allowed.pairs.items() if removed.isdisjoint(pair)}
        defaults = {name: value for name, value in allowed.defaults.items() if name not in removed}
        if len(pairs) < len(allowed.pairs) or len(defaults) < len(allowed.defaults):
            self.allowed = AllowedCollisions(MappingProxyType(pairs), MappingProxyType(defaults))

    def set_margin(self, link: str, margin: LinkMargin) -> None:
        """Set padding and scale of a link."""
        self.margins.pop(link, None)
        if margin != LinkMargin():
            self.margins[link] = margin

    def colour(self, name: str, rgba: tuple[float, float, float, float]) -> None:
        """Set the colour (red, green, blue, opacity) of an object, if it exists."""
        if name in self.objects and self.objects[name].rgba != rgba:
            self.objects[name] = replace(self.objects[name], rgba=rgba)
        if name in self.attached and self.attached[name].rgba != rgba:
            self.attached[name] = replace(self.attached[name], rgba=rgba)


def _near(A: Array, B: Array) -> bool:
    return bool(np.abs(A - B).max() < EQUAL_POSES)


def _same(a: object, b: object, fields: tuple[str, ...]) -> bool:
    return all(getattr(a, field) == getattr(b, field) for field in fields)


def _known(old: tuple[Part, ...], new: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the old parts if the new ones are equal, else the new ones."""
    if old is new or len(old) != len(new):
        return new
    same = all(
        _near(a.X_OS, b.X_OS) and _equal(a.solid, b.solid) for a, b in zip(old, new, strict=True)
    )
    return old if same else new


def _known_frames(old: tuple[Subframe, ...], new: tuple[Subframe, ...]) -> tuple[Subframe, ...]:
    """Return the old subframes if the new ones are equal, else the new ones."""
    if old is new or len(old) != len(new):
        return new
    same = all(a.name == b.name and _near(a.X_OF, b.X_OF) for a, b in zip(old, new, strict=True))
    return old if same else new


def _equal(a: Solid, b: Solid) -> bool:
    if isinstance(a, TriangleMesh) and isinstance(b, TriangleMesh):
        return (
            a.convex == b.convex
            and np.array_equal(a.vertices, b.vertices)
            and np.array_equal(a.triangles, b.triangles)
        )
    if isinstance(a, Voxels) and isinstance(b, Voxels):
        return a.equals(b)
    return a == b


class SceneFrames:
    """Lookup of frames in the planning frame, which is the robot's base frame.

    The order is: the robot's links, objects of the scene and their subframes, fixed frames of scene
    messages, /tf.
    """

    def __init__(
        self, kinematics: Kinematics, frames: RobotFrames, positions: Callable[[], Array]
    ) -> None:
        """Create the lookup.

        Args:
            kinematics: forward kinematics of the robot's links in its base frame.
            frames: the robot's links and /tf.
            positions: returns the positions of all joints [rad or m], shape (n,); raises
                MotionError if they are unknown.
        """
        self._kinematics = kinematics
        self._frames = frames
        self._positions = positions
        self._fixed: dict[str, Array] = {}

    @property
    def base(self) -> str:
        """The planning frame."""
        return self._kinematics.base

    def standing(self, positions: Array) -> SceneFrames:
        """Return a lookup for fixed joint positions [rad or m], shape (n,)."""
        return SceneFrames(self._kinematics, self._frames, lambda: positions)

    def own(self, name: str) -> str:
        """Return a frame name without the prefix of the robot's frames on /tf."""
        return self._frames.name_of(name)

    def link(self, name: str) -> str:
        """Return the name of a link without its prefix on /tf.

        Raises:
            UnknownFrame: there is no such link; lists the known ones.
        """
        own = self.own(name) if name else ""
        if own not in self._kinematics.frame_names:
            raise UnknownFrame(own, self._kinematics.frame_names, "the robot")
        return own

    def link_pose(self, link: str) -> Array:
        """Return the current pose ``X_BL`` of a link in the planning frame, shape (4, 4).

        Raises:
            MotionError: the joint positions are unknown.
        """
        if link == self.base:
            return _IDENTITY
        return frozen(self._kinematics.pose(self._positions(), link))

    def pose(self, frame: str, draft: SceneDraft) -> Array:
        """Return the pose ``X_BF`` of any frame in the planning frame, shape (4, 4).

        Args:
            frame: name of the frame.
            draft: the scene, whose objects are frames too.

        Raises:
            MotionError: there is no such frame, or its pose is unknown.
        """
        name = self.own(frame)
        if name in self._kinematics.frame_names:
            return self.link_pose(name)
        found = find_frame(draft.objects, draft.attached, name)
        if found is not None:
            return found.X if found.link is None else frozen(self.link_pose(found.link) @ found.X)
        if name in self._fixed:
            return self._fixed[name]
        return frozen(self._frames.pose(frame, np.zeros(len(self._kinematics.joint_names))))

    def fix(self, transforms: Iterable[Any]) -> list[str]:
        """Set the fixed frames of a scene message.

        Args:
            transforms: TransformStamped of each frame, in the planning frame.

        Returns:
            Warnings about frames that are ignored.
        """
        warnings = []
        for stamped in transforms:
            name = stamped.child_frame_id.lstrip("/")
            try:
                if self.own(stamped.header.frame_id) != self.base:
                    raise InvalidCommand(
                        f"its parent is '{stamped.header.frame_id}', not the planning frame "
                        f"'{self.base}'"
                    )
                self._fixed[name] = frozen(transform_pose(stamped))
            except InvalidCommand as error:
                warnings.append(f"fixed frame '{name}' is ignored: {error}")
        return warnings


TREE = "OcTree"
"""Class of trees that are read and written."""
COLOUR_TREE = "ColorOcTree"
"""Class of trees whose binary format is the same."""
RGBA = (0.35, 0.55, 0.75, 0.9)


def octomap_message(
    solid: Voxels | None, frame: str, stamp: Any, resolution: float, binary: bool = True
) -> Octomap:
    """Return occupied voxels as a message.

    Args:
        solid: the voxels; None for an empty map.
        frame: their frame.
        stamp: of the message.
        resolution: of an empty map [m].
        binary: which of OctoMap's formats.

    Raises:
        InvalidCommand: a voxel is beyond the range of an octree.
    """
    message = Octomap(binary=binary, id=TREE)
    message.header.frame_id, message.header.stamp = frame, stamp
    message.resolution = resolution if solid is None else solid.resolution
    if solid is not None:
        message.data = array.array("b", encode(solid, binary))
    return message


def voxels_of(message: Octomap) -> Voxels | None:
    """Return the occupied voxels of a message; None if there are none.

    Raises:
        InvalidCommand: a tree of another class, invalid data or resolution.
    """
    if message.id != TREE and not (message.binary and message.id == COLOUR_TREE):
        raise InvalidCommand(
            f"the octomap has the class '{message.id}'; {TREE} is supported, and {COLOUR_TREE} in "
            "the binary format"
        )
    return decode(bytes(message.data), float(message.resolution), bool(message.binary))


def fill_world(world: PlanningSceneWorld, item: WorldObject | None, frame: str) -> None:
    """Write the octomap of a scene to a message.

    Args:
        world: the message.
        item: the object of occupied voxels; None: an empty octomap, which removes it.
        frame: the planning frame.
    """
    out = world.octomap
    out.header.frame_id = frame
    if item is None:
        out.octomap = octomap_message(None, frame, out.header.stamp, 0.0)
        return
    solid = item.parts[0].solid
    assert isinstance(solid, Voxels)
    out.origin = pose_message(item.X_WO)
    out.octomap = octomap_message(solid, frame, out.header.stamp, solid.resolution)


def change_octomap(draft: SceneDraft, world: PlanningSceneWorld, frames: SceneFrames) -> None:
    """Apply the octomap of a message to a scene; one with a class and no data removes it.

    Raises:
        MotionError: invalid data, pose or frame; the octomap is unchanged.
    """
    given = world.octomap
    if not given.octomap.data and not given.octomap.id:
        return
    solid = voxels_of(given.octomap)
    if solid is None:
        draft.objects.pop(OCTOMAP, None)
        return
    frame = given.header.frame_id or given.octomap.header.frame_id
    X_FO: Array = pose_of(given.origin, "the origin of the octomap")[0]
    X_WO = frozen(frames.pose(frame, draft) @ X_FO)
    draft.put(WorldObject(OCTOMAP, X_WO, (Part(solid, _IDENTITY),), rgba=RGBA))
