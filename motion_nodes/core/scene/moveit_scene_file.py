# SPDX-License-Identifier: Apache-2.0
"""MoveIt's text format of scene geometry (``.scene``): objects, shapes, colours and subframes.

Source: ``PlanningScene::saveGeometryToStream`` and ``loadGeometryFromStream`` of
MoveIt 2, ``shapes::saveAsText`` of geometric_shapes. A file contains a name, then for each object
``* name``, pose, shapes (type, dimensions, pose, colour each) and subframes, and ends with ``.``.
A pose is two lines, position [m] and quaternion; object poses are in the planning frame. The old
format, without poses and subframes of objects, is also read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from motion_nodes.core.robot import bounds
from motion_nodes.core.robot.poses import from_xyz_quat, to_quat_xyzw
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.core.scene.scene import Subframe, WorldObject, checked_pose, world_object
from motion_nodes.core.scene.shapes import (
    Cone,
    HalfSpace,
    Solid,
    TriangleMesh,
    as_primitives,
    plane_pose,
    triangle_mesh,
)
from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.errors import InvalidDescription, MotionError
from motion_nodes.typing import Array

SUFFIX = ".scene"
_END, _OBJECT = ".", "*"


def scene_text(objects: Iterable[WorldObject], name: str = "") -> str:
    """Return objects in MoveIt's text format.

    Octomaps are omitted, as by MoveIt; capsules are written as a cylinder and two spheres.

    Args:
        objects: objects with poses in the planning frame.
        name: name of the scene; empty: MoveIt's ``(noname)``.

    Raises:
        InvalidDescription: a name with a line break, or a shape that the format does not support.
    """
    lines = [_name(name or "(noname)")]
    for item in objects:
        shapes = [part for part in item.parts if not isinstance(part.solid, Voxels)]
        if not shapes:
            continue
        placed = [
            (solid, part.X_OS @ X) for part in shapes for solid, X in as_primitives(part.solid)
        ]
        lines += [f"{_OBJECT} {_name(item.name)}", *_pose(item.X_WO), str(len(placed))]
        colour = " ".join(f"{value:.9g}" for value in item.rgba or (0.0,) * 4)
        for solid, X_OS in placed:
            lines += [*_shape(solid), *_pose(X_OS), colour]
        lines.append(str(len(item.subframes)))
        for frame in item.subframes:
            lines += [_name(frame.name), *_pose(frame.X_OF)]
    return "\n".join([*lines, _END, ""])


def read_scene_text(text: str, where: str = "the scene") -> tuple[WorldObject, ...]:
    """Return the objects of a text.

    Args:
        text: content of a file.
        where: name of the file, for errors.

    Raises:
        InvalidDescription: names the file, the line and the problem.
    """
    reader = _SceneText(text.splitlines(), where)
    reader.line()  # the name of the scene
    poses = reader.has_object_poses()
    objects: dict[str, WorldObject] = {}
    while True:
        marker, _, rest = reader.line().strip().partition(" ")
        if marker == _END:
            return tuple(objects.values())
        if marker != _OBJECT or not rest.strip():
            raise reader.error(f"expected '* NAME' or '.', found '{marker[:40]}'")
        item = _object(reader, rest.strip(), poses)
        objects[item.name] = item
        reader.check(bounds.check_count, len(objects), bounds.OBJECTS, "objects")


def _object(reader: _SceneText, name: str, with_pose: bool) -> WorldObject:
    X_WO = reader.pose() if with_pose else np.eye(4)
    count = reader.count(bounds.NAMES, f"shapes of object '{name}'")
    solids: list[Solid] = []
    poses: list[Array] = []
    rgba = None
    for _ in range(count):
        solid, X_PS = _solid(reader)
        solids.append(solid)
        poses.append(reader.pose() @ X_PS)
        red, green, blue, alpha = reader.numbers(4)
        rgba = (red, green, blue, alpha) if any((red, green, blue, alpha)) else rgba
    frames = []
    for _ in range(reader.count(bounds.NAMES, f"subframes of object '{name}'") if with_pose else 0):
        frames.append(Subframe(reader.line().strip(), frozen(reader.pose())))
    try:
        item = world_object(name, tuple(solids), X_WO, poses=tuple(poses), rgba=rgba)
    except MotionError as error:
        raise reader.error(str(error)) from None
    return replace(item, subframes=tuple(frames))


class _SceneText:
    """Lines and numbers of a text."""

    def __init__(self, lines: Sequence[str], where: str) -> None:
        self._lines, self._where = lines, where
        self._next = 0
        self._words: list[str] = []
        """Unread words of the current line, last one first."""

    def line(self) -> str:
        """Return the next non-empty line."""
        self._words = []
        while self._next < len(self._lines):
            self._next += 1
            if self._lines[self._next - 1].strip():
                return self._lines[self._next - 1]
        raise self.error("the file ends before its last line, '.'")

    def word(self) -> str:
        if not self._words:
            words = self.line().split()
            self._words = words[::-1]
        return self._words.pop()

    def numbers(self, count: int) -> list[float]:
        words = [self.word() for _ in range(count)]
        try:
            values = [float(word) for word in words]
        except ValueError:
            raise self.error(f"expected {count} numbers, found '{' '.join(words)[:80]}'") from None
        if not np.isfinite(values).all():
            raise self.error(f"numbers must be finite, found '{' '.join(words)[:80]}'")
        self.check(bounds.COEFFICIENT.check, values, "numbers")
        return values

    def count(self, most: int, what: str) -> int:
        word = self.word()
        if not word.isdecimal():
            raise self.error(f"expected the number of {what}, found '{word[:40]}'")
        self.check(bounds.check_count, int(word[:18]), most, what)
        return int(word)

    def pose(self) -> Array:
        xyz, quat = self.numbers(3), self.numbers(4)
        try:
            return checked_pose(from_xyz_quat(xyz, quat), "a pose")
        except (MotionError, ValueError) as error:
            raise self.error(str(error)) from None

    def has_object_poses(self) -> bool:
        """Return whether objects have poses: the line after an object's name has several words."""
        for line, following in zip(self._lines[1:], self._lines[2:], strict=False):
            if line.strip().startswith(_OBJECT):
                return len(following.split()) > 1
        return True

    def check(self, function: Callable[..., None], *values: object) -> None:
        try:
            function(*values)
        except MotionError as error:
            raise self.error(str(error)) from None

    def error(self, text: str) -> InvalidDescription:
        return InvalidDescription(f"{self._where}, line {self._next}: {text}")


def _solid(reader: _SceneText) -> tuple[Solid, Array]:
    """Return the next shape, and its pose in the frame in which MoveIt places it."""
    kind = reader.word()
    if kind == "plane":
        a, b, c, d = reader.numbers(4)
        try:
            return HalfSpace(), plane_pose((a, b, c, d), "a plane")
        except MotionError as error:
            raise reader.error(str(error)) from None
    if kind == "mesh":
        corners = reader.count(bounds.VERTICES, "vertices of a mesh")
        faces = reader.count(bounds.VERTICES, "triangles of a mesh")
        vertices = np.array(reader.numbers(3 * corners)).reshape(-1, 3)
        indices = np.array(reader.numbers(3 * faces)).reshape(-1, 3)
        try:
            return triangle_mesh(vertices, indices), np.eye(4)
        except MotionError as error:
            raise reader.error(str(error)) from None
    sizes = {"sphere": 1, "box": 3, "cylinder": 2, "cone": 2}.get(kind)
    if sizes is None:
        raise reader.error(
            f"shape '{kind[:40]}' is not known; allowed: sphere, box, cylinder, cone, plane, mesh"
        )
    numbers = reader.numbers(sizes)
    if kind == "sphere":
        return Sphere(numbers[0]), np.eye(4)
    if kind == "box":
        return Box((numbers[0], numbers[1], numbers[2])), np.eye(4)
    made = Cylinder if kind == "cylinder" else Cone
    return made(numbers[0], numbers[1]), np.eye(4)


def _shape(solid: Solid) -> Iterator[str]:
    """Yield the lines of a primitive or mesh."""
    if isinstance(solid, TriangleMesh):
        yield "mesh"
        yield f"{len(solid.vertices)} {len(solid.triangles)}"
        yield from (_numbers(row) for row in solid.vertices.tolist())
        yield from (" ".join(map(str, row)) for row in solid.triangles.tolist())
        return
    if isinstance(solid, Sphere):
        name, sizes = "sphere", [solid.radius]
    elif isinstance(solid, Box):
        name, sizes = "box", list(solid.size)
    elif isinstance(solid, Cylinder):
        name, sizes = "cylinder", [solid.radius, solid.length]
    elif isinstance(solid, Cone):
        name, sizes = "cone", [solid.radius, solid.height]
    elif isinstance(solid, HalfSpace):
        name, sizes = "plane", [0.0, 0.0, 1.0, 0.0]
    else:
        raise InvalidDescription(f"a {type(solid).__name__} cannot be written to a scene file")
    yield name
    yield _numbers(sizes)


def _pose(X: Array) -> tuple[str, str]:
    return _numbers(X[:3, 3]), _numbers(to_quat_xyzw(X))


def _numbers(values: Iterable[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


def _name(name: str) -> str:
    if "\n" in name or "\r" in name:
        raise InvalidDescription(f"the name {name!r} contains a line break")
    return name
