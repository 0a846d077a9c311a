# SPDX-License-Identifier: Apache-2.0
"""Loading of mesh files; robots with missing meshes are drawn with placeholders."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import MotionError
from motion_nodes.model.tree import Mesh
from motion_nodes.typing import Array

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Triangles:
    """A triangle mesh."""

    vertices: Array
    """Vertices [m], shape (v, 3)."""
    faces: NDArray[np.uint32]
    """Indices into ``vertices``, shape (t, 3)."""


class MeshFiles:
    """Mesh files of one robot, each read once.

    Args:
        robot: name of the robot, for the warning.
        find: resolves a mesh file name of the URDF; raises if there is no such file.
    """

    def __init__(self, robot: str, find: Callable[[str], Path]) -> None:
        """Start with an empty cache."""
        self._robot = robot
        self._find = find
        self._cache: dict[Mesh, Triangles | None] = {}
        self._missing: list[str] = []

    @property
    def missing(self) -> tuple[str, ...]:
        """Meshes that could not be read, each with the reason."""
        return tuple(self._missing)

    def triangles(self, mesh: Mesh) -> Triangles | None:
        """Return the mesh with its scale applied, or None if it cannot be read."""
        if mesh not in self._cache:
            self._cache[mesh] = self._load(mesh)
        return self._cache[mesh]

    def warn_of_missing(self) -> None:
        """Log one warning that lists all meshes that could not be read."""
        if self._missing:
            _log.warning(
                "%s: %d mesh(es) could not be read and are drawn as boxes: %s. Install the package "
                "that contains them, or correct the file names in the URDF.",
                self._robot,
                len(self._missing),
                "; ".join(self._missing),
            )

    def _load(self, mesh: Mesh) -> Triangles | None:
        """Read one file."""
        try:
            path = self._find(mesh.filename)
        except (MotionError, OSError) as error:
            self._missing.append(f"{mesh.filename} ({error})")
            return None
        try:
            # Imported here: it takes 0.25 s, and most robots have no meshes.
            import trimesh

            loaded = trimesh.load_mesh(path)
            vertices = np.asarray(loaded.vertices, dtype=np.float64) * np.array(mesh.scale)
            faces = np.asarray(loaded.faces, dtype=np.uint32)
        except Exception as error:  # trimesh's readers raise many types of exceptions.
            self._missing.append(f"{mesh.filename} ({type(error).__name__}: {error})")
            return None
        if len(faces) == 0 or not np.isfinite(vertices).all():
            self._missing.append(f"{mesh.filename} (contains no triangles or non-finite vertices)")
            return None
        return Triangles(vertices, faces)
