# SPDX-License-Identifier: Apache-2.0
"""Scenes from YAML files; for the format see :mod:`motion_nodes.model.files.scene_file`."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from motion_nodes.model.files.scene_file import ObjectEntry, read_scene_file
from motion_nodes.model.poses import from_xyz_quat, from_xyz_rpy
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.scene.mesh_file import read_mesh
from motion_nodes.scene.scene import Scene, world_object
from motion_nodes.scene.shapes import Capsule, HalfSpace, Solid
from motion_nodes.scene.world import World
from motion_nodes.typing import Array


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
