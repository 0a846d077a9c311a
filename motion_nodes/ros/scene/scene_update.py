# SPDX-License-Identifier: Apache-2.0
"""A scene while messages change it; nothing of it is seen before it is whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.model.tree import Array
from motion_nodes.scene.allowed_collisions import AllowedCollisions
from motion_nodes.scene.scene import AttachedBody, Part, Scene, WorldObject
from motion_nodes.scene.scenery import Scenery
from motion_nodes.scene.shapes import Solid, TriangleMesh


class SceneDraft:
    """The parts of a scene, to be changed in place: 10 000 objects cost 10 000 steps."""

    def __init__(self, scene: Scene, scenery: Scenery | None = None) -> None:
        """Begin with what ``scene`` holds.

        Args:
            scene: before the changes.
            scenery: objects that only a removal by name removes.
        """
        self._before = scene
        self.scenery = scenery or Scenery()
        self.objects: dict[str, WorldObject] = dict(scene.objects)
        self.attached: dict[str, AttachedBody] = dict(scene.attached)
        self.allowed = scene.allowed

    @property
    def changed(self) -> bool:
        """Whether anything is another than at the beginning."""
        before = self._before
        return (
            self.objects != dict(before.objects)
            or self.attached != dict(before.attached)
            or self.allowed != before.allowed
        )

    def scene(self) -> Scene:
        """Return what stands here now as a scene."""
        return Scene(
            MappingProxyType(dict(self.objects)),
            MappingProxyType(dict(self.attached)),
            self.allowed,
            self._before.revision + 1,
        )

    def object(self, name: str) -> WorldObject:
        """Return an object of the world.

        Raises:
            InvalidCommand: there is none of that name; says so where something attached is meant.
        """
        item = self.objects.get(name)
        if item is None:
            body = self.attached.get(name)
            if body is not None:
                raise InvalidCommand(f"'{name}' is attached to {body.link}: detach it first")
            raise InvalidCommand(f"there is no object '{name}'.{did_you_mean(name, self.objects)}")
        return item

    def clear(self) -> tuple[str, ...]:
        """Remove all objects but scenery; return the names of what stays."""
        kept = {name: item for name, item in self.objects.items() if name in self.scenery.objects}
        self.objects.clear()
        self.objects.update(kept)
        return tuple(kept)

    def allow_scenery(self) -> None:
        """Allow what touches the scenery that is there by construction."""
        self.allowed = self.scenery.allowed_in(self.objects, self.allowed)

    def put(self, item: WorldObject) -> None:
        """Put an object into the world, in place of the one of its name.

        What is repeated keeps its identity, so that nobody takes it for a change.
        """
        if item.name in self.scenery.objects:
            item = replace(item, static=True)
        old = self.objects.get(item.name) or self._before.objects.get(item.name)
        if old is not None:
            item = replace(item, rgba=item.rgba or old.rgba, parts=_known(old.parts, item.parts))
            fields = ("enabled", "static", "rgba", "kind", "parts")
            if _near(old.X_WO, item.X_WO) and _same(old, item, fields):
                item = old
        self.objects[item.name] = item

    def attach(self, body: AttachedBody) -> None:
        """Have a link carry something, in place of what has its name there or in the world."""
        world = self.objects.pop(body.name, None)
        old = self.attached.get(body.name) or self._before.attached.get(body.name)
        before = old or world
        if before is not None:
            body = replace(
                body, rgba=body.rgba or before.rgba, parts=_known(before.parts, body.parts)
            )
        if old is not None:
            fields = ("link", "touch_links", "rgba", "kind", "parts")
            if _near(old.X_LO, body.X_LO) and _same(old, body, fields):
                body = old
        self.attached[body.name] = body

    def put_down(self, name: str, X_WO: Array) -> None:
        """Put something that is attached into the world."""
        body = self.attached.pop(name)
        self.put(WorldObject(name, X_WO, body.parts, rgba=body.rgba, kind=body.kind))

    def drop_words_on(self, names: Iterable[str]) -> None:
        """Forget who may touch things that have gone."""
        gone, said = set(names), self.allowed
        pairs = {pair: value for pair, value in said.pairs.items() if gone.isdisjoint(pair)}
        defaults = {name: value for name, value in said.defaults.items() if name not in gone}
        if len(pairs) < len(said.pairs) or len(defaults) < len(said.defaults):
            self.allowed = AllowedCollisions(MappingProxyType(pairs), MappingProxyType(defaults))

    def colour(self, name: str, rgba: tuple[float, float, float, float]) -> None:
        """Set the colour of an object or of something attached, if it is there."""
        if name in self.objects and self.objects[name].rgba != rgba:
            self.objects[name] = replace(self.objects[name], rgba=rgba)
        if name in self.attached and self.attached[name].rgba != rgba:
            self.attached[name] = replace(self.attached[name], rgba=rgba)


REPEATED = 1e-9
"""Poses whose elements differ by less are the same: that much a quaternion's way there and back
may cost."""


def _near(A: Array, B: Array) -> bool:
    return bool(np.abs(A - B).max() < REPEATED)


def _same(a: object, b: object, fields: tuple[str, ...]) -> bool:
    return all(getattr(a, field) == getattr(b, field) for field in fields)


def _known(old: tuple[Part, ...], new: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the old parts where the new ones are the same."""
    if old is new or len(old) != len(new):
        return new
    same = all(
        _near(a.X_OS, b.X_OS) and _equal(a.solid, b.solid) for a, b in zip(old, new, strict=True)
    )
    return old if same else new


def _equal(a: Solid, b: Solid) -> bool:
    if isinstance(a, TriangleMesh) and isinstance(b, TriangleMesh):
        return (
            a.convex == b.convex
            and np.array_equal(a.vertices, b.vertices)
            and np.array_equal(a.triangles, b.triangles)
        )
    return a == b
