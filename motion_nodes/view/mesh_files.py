# SPDX-License-Identifier: Apache-2.0
"""Reading mesh files for the scene; a robot without its meshes must still be drawn."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import MotionError
from motion_nodes.model.tree import Array, Mesh

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Triangles:
    """A triangle mesh."""

    vertices: Array
    """Corners [m], shape (v, 3)."""
    faces: NDArray[np.uint32]
    """Rows of ``vertices``, shape (t, 3)."""


class MeshFiles:
    """Mesh files of one robot, each read once; what cannot be read is warned of once.

    Args:
        robot: name of the robot, for the warning.
        find: returns the file behind a name of the URDF, or raises.
    """

    def __init__(self, robot: str, find: Callable[[str], Path]) -> None:
        """Start with nothing read."""
        self._robot = robot
        self._find = find
        self._read: dict[Mesh, Triangles | None] = {}
        self._missing: list[str] = []

    @property
    def missing(self) -> tuple[str, ...]:
        """What could not be read, each with its reason."""
        return tuple(self._missing)

    def triangles(self, mesh: Mesh) -> Triangles | None:
        """Return the mesh with its scale applied, or None when it cannot be read."""
        if mesh not in self._read:
            self._read[mesh] = self._load(mesh)
        return self._read[mesh]

    def warn_of_missing(self) -> None:
        """Log one warning that names everything that could not be read."""
        if self._missing:
            _log.warning(
                "%s: %d mesh(es) could not be read, boxes stand in for them: %s. Install the "
                "package that holds them, or make the names of the URDF point at the files.",
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
            # Here, because it costs a quarter of a second and most robots have no meshes.
            import trimesh

            loaded = trimesh.load_mesh(path)
            vertices = np.asarray(loaded.vertices, dtype=np.float64) * np.array(mesh.scale)
            faces = np.asarray(loaded.faces, dtype=np.uint32)
        except Exception as error:  # Readers of two dozen formats raise whatever they like.
            self._missing.append(f"{mesh.filename} ({type(error).__name__}: {error})")
            return None
        if len(faces) == 0 or not np.isfinite(vertices).all():
            self._missing.append(f"{mesh.filename} (holds no triangles)")
            return None
        return Triangles(vertices, faces)
