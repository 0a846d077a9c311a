# SPDX-License-Identifier: Apache-2.0
"""Meshes of robots as MuJoCo's mesh assets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import mujoco
import numpy as np

from motion_nodes.kernels.shared_work import in_turns
from motion_nodes.model.tree import Geometry, Mesh
from motion_nodes.scene.mesh_hulls import mesh_hulls
from motion_nodes.typing import Array

READABLE = (".stl", ".obj")
"""Formats of files that MuJoCo reads."""
_PLATE = 1e-5
"""Min thickness of hulls [m]."""


class MeshLibrary:
    """Mesh files of one robot, each loaded once per scale."""

    def __init__(self, spec: mujoco.MjSpec, prefix: str, find: Callable[[str], Path]) -> None:
        """Start empty.

        Args:
            spec: specification to which mesh assets are added.
            prefix: prefix of the names of mesh assets.
            find: resolves a mesh file name of the URDF.
        """
        self._spec = spec
        self._prefix = prefix
        self._find = find
        self._files: dict[Mesh, str] = {}
        self._hulls: dict[tuple[Mesh, bool], list[str | None]] = {}
        self._count = 0

    def readable(self, mesh: Mesh) -> bool:
        """Return whether MuJoCo supports the file format of a mesh."""
        return Path(mesh.filename).suffix.lower() in READABLE

    def add(self, geometry: Geometry) -> str | None:
        """Return the asset name of a mesh file, None for a primitive.

        Args:
            geometry: a mesh of a readable format, or a primitive.

        Raises:
            InvalidDescription: the file is missing.
        """
        if not isinstance(geometry, Mesh):
            return None
        if geometry not in self._files:
            path = self._find(geometry.filename)
            made = self._new(path)
            made.file, made.scale = str(path.resolve()), geometry.scale
            self._files[geometry] = made.name
        return self._files[geometry]

    def prepare(self, geometries: Iterable[Geometry]) -> None:
        """Compute the hulls of meshes for :meth:`add_hulls`, shared with other processes.

        Raises:
            InvalidDescription: a file is missing or cannot be read.
        """
        meshes = [geometry for geometry in geometries if isinstance(geometry, Mesh)]
        in_turns(partial(mesh_hulls, self._find(mesh.filename), mesh.scale) for mesh in meshes)

    def add_hulls(self, geometry: Geometry, whole: bool) -> list[str | None]:
        """Return the asset names of the convex hulls of a mesh; [None] for a primitive.

        Args:
            geometry: the mesh or primitive.
            whole: return one hull, also for a non-convex mesh.

        Raises:
            InvalidDescription: the file is missing or cannot be read.
        """
        if not isinstance(geometry, Mesh):
            return [None]
        key = (geometry, whole)
        if key not in self._hulls:
            self._hulls[key] = self._new_hulls(geometry, whole)
        return self._hulls[key]

    def _new_hulls(self, mesh: Mesh, whole: bool) -> list[str | None]:
        """Add the hulls of a mesh; a convex mesh needs none, MuJoCo computes the hull of a file."""
        if whole and self.readable(mesh):
            return [self.add(mesh)]
        path = self._find(mesh.filename)
        hulls = mesh_hulls(path, mesh.scale, whole)
        solid = [solid_corners(corners) for corners in hulls]
        if len(hulls) == 1 and self.readable(mesh) and solid[0] is hulls[0]:
            return [self.add(mesh)]
        names: list[str | None] = []
        for corners in solid:
            made = self._new(path)
            made.uservert = corners.astype(np.float32).ravel()
            names.append(made.name)
        return names

    def _new(self, path: Path) -> mujoco.MjsMesh:
        """Add an empty mesh asset."""
        made = self._spec.add_mesh(name=f"{self._prefix}/{path.stem}_{self._count}")
        self._count += 1
        # Masses are those of the links; the volume of an open mesh may be zero.
        made.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        return made


def set_hull(spec: mujoco.MjSpec, geom: mujoco.MjsGeom, corners: Array) -> None:
    """Set the shape of a geom to a convex hull; its mesh asset has the name of the geom.

    Args:
        spec: specification of the geom.
        geom: the geom.
        corners: corners of the hull [m], shape (c, 3); see :func:`solid_corners` for flat ones.
    """
    geom.type, geom.meshname = mujoco.mjtGeom.mjGEOM_MESH, geom.name
    # Masses are those of the bodies; the volume of a plate may be zero.
    shell = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    spec.add_mesh(name=geom.name, uservert=corners.ravel(), inertia=shell)


def solid_corners(corners: Array) -> Array:
    """Return the corners of a hull; a flat one gets a thickness, because MuJoCo rejects flat hulls.

    Args:
        corners: shape (c, 3) [m].

    Returns:
        The same array, or one of shape (2 c, 3) and more.
    """
    offsets = corners - corners.mean(axis=0)
    for axis in np.linalg.eigh(offsets.T @ offsets)[1].T:
        if np.ptp(corners @ axis) < _PLATE:
            corners = np.concatenate([corners + 0.5 * _PLATE * axis, corners - 0.5 * _PLATE * axis])
    return corners
