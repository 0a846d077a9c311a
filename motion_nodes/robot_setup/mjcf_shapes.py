# SPDX-License-Identifier: Apache-2.0
"""Shapes of an MJCF's bodies as elements of a URDF; meshes are written as STL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import trimesh
from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.model.poses import from_xyz_quat, to_rpy
from motion_nodes.robot_setup.mesh_copies import write_stl
from motion_nodes.scene.shapes import triangle_mesh
from motion_nodes.typing import Array

_GEOM = mujoco.mjtGeom
_SEEN_GROUPS = 3
"""MuJoCo's viewer shows the geom groups below this one by default."""


class ShapeWriter:
    """Adds the shapes of bodies to links."""

    def __init__(self, model: mujoco.MjModel, folder: Path) -> None:
        """Create a writer.

        Args:
            model: the model.
            folder: existing folder for the meshes.
        """
        self._model, self._folder = model, folder
        self._files: dict[int, Path] = {}

    def add(self, link: Any, body: int, X_LB: Array) -> None:
        """Add the shapes of a body to a link.

        Shapes without collisions are visual; colliding shapes are also visual if MuJoCo's viewer
        shows their group by default.

        Args:
            link: the element <link>.
            body: index of the body.
            X_LB: pose of the body's frame in the link.
        """
        model = self._model
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        for geom in range(first, first + count):
            collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
            roles = ["collision"] if collides else []
            if not collides or model.geom_group[geom] < _SEEN_GROUPS:
                roles.append("visual")
            for role in roles:
                self._add(link, geom, role, X_LB)

    def _add(self, link: Any, geom: int, role: str, X_LB: Array) -> None:
        model = self._model
        X = X_LB @ pose_of(model.geom_pos[geom], model.geom_quat[geom])
        for X_GS, tag, sizes in self._solids(geom):
            shape = etree.SubElement(link, role)
            origin(shape, X @ X_GS)
            geometry = etree.SubElement(shape, "geometry")
            etree.SubElement(geometry, tag, sizes)
            if role == "visual":
                material = etree.SubElement(shape, "material", name=f"{link.get('name')}_{geom}")
                etree.SubElement(material, "color", rgba=numbers(self._colour(geom)))

    def _colour(self, geom: int) -> Array:
        material = int(self._model.geom_matid[geom])
        rgba = self._model.geom_rgba[geom] if material < 0 else self._model.mat_rgba[material]
        return np.clip(np.asarray(rgba, np.float64), 0.0, 1.0)

    def _solids(self, geom: int) -> list[tuple[Array, str, dict[str, str]]]:
        """Return the pose, tag and attributes of the URDF's solids for a geom."""
        kind, size = self._model.geom_type[geom], self._model.geom_size[geom]
        if kind == _GEOM.mjGEOM_SPHERE:
            return [(np.eye(4), "sphere", {"radius": number(size[0])})]
        if kind == _GEOM.mjGEOM_BOX:
            return [(np.eye(4), "box", {"size": numbers(2.0 * size)})]
        if kind == _GEOM.mjGEOM_CYLINDER:
            return [(np.eye(4), "cylinder", _cylinder(size))]
        if kind == _GEOM.mjGEOM_CAPSULE:
            ends = [np.eye(4), np.eye(4)]
            ends[0][2, 3], ends[1][2, 3] = size[1], -size[1]
            ball = {"radius": number(size[0])}
            return [
                (np.eye(4), "cylinder", _cylinder(size)),
                *((X, "sphere", dict(ball)) for X in ends),
            ]
        if kind == _GEOM.mjGEOM_ELLIPSOID:
            ball = trimesh.creation.icosphere(subdivisions=3)
            return [(np.eye(4), "mesh", self._mesh(-1 - geom, ball.vertices * size, ball.faces))]
        if kind == _GEOM.mjGEOM_MESH:
            mesh = int(self._model.geom_dataid[geom])
            begin, count = self._model.mesh_vertadr[mesh], self._model.mesh_vertnum[mesh]
            vertices = self._model.mesh_vert[begin : begin + count]
            begin, count = self._model.mesh_faceadr[mesh], self._model.mesh_facenum[mesh]
            faces = self._model.mesh_face[begin : begin + count]
            return [(np.eye(4), "mesh", self._mesh(mesh, vertices, faces))]
        return []  # planes and height fields are scenery

    def _mesh(self, key: int, vertices: Array, faces: Any) -> dict[str, str]:
        """Return the attributes of a mesh; its file is written once."""
        if key not in self._files:
            name = self._model.mesh(key).name if key >= 0 else "ellipsoid"
            plain = "".join(c if c.isalnum() or c in "_-" else "_" for c in name) or "mesh"
            file = self._folder / f"{plain}_{abs(key)}.stl"
            write_stl(file, triangle_mesh(np.asarray(vertices, np.float64), np.asarray(faces)))
            self._files[key] = file
        return {"filename": str(self._files[key])}


def _cylinder(size: Array) -> dict[str, str]:
    return {"radius": number(size[0]), "length": number(2.0 * size[1])}


def pose_of(position: Array, quat_wxyz: Array) -> Array:
    """Return a pose from MuJoCo's position and quaternion."""
    return from_xyz_quat(np.asarray(position, np.float64), np.roll(quat_wxyz, -1))


def origin(element: Any, X: Array) -> None:
    """Add an element <origin>."""
    etree.SubElement(element, "origin", xyz=numbers(X[:3, 3]), rpy=numbers(to_rpy(X)))


def numbers(values: Array) -> str:
    """Return numbers [SI units, m] as text."""
    return " ".join(map(number, values))


def number(value: float) -> str:
    """Return a number as text."""
    return f"{float(value):.10g}"
