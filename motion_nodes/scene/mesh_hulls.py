# SPDX-License-Identifier: Apache-2.0
"""Convex hulls of mesh files: the geometry of the exact checks, for the simulation.

They are cached on disk by the content of the file, so that startup neither parses meshes nor
imports SciPy.
"""

from __future__ import annotations

import hashlib
import weakref
from pathlib import Path

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.kernels import cache
from motion_nodes.scene import convex_decomposition, mesh_file
from motion_nodes.scene.convex_decomposition import convex_parts, fills_its_hull
from motion_nodes.scene.mesh_cache import hash_of_files, stored_arrays
from motion_nodes.scene.shapes import TriangleMesh
from motion_nodes.typing import Array

_SOURCES = (__file__, convex_decomposition.__file__, mesh_file.__file__)
"""Source files on which hulls depend."""


def mesh_hulls(
    path: Path, scale: tuple[float, float, float] = (1.0, 1.0, 1.0), whole: bool = False
) -> list[Array]:
    """Return points whose convex hulls together contain the mesh in a file.

    They are the hulls of the exact checks: one for a convex mesh, else those of
    :func:`motion_nodes.scene.convex_decomposition.convex_parts`.

    Args:
        path: a file that :func:`motion_nodes.scene.mesh_file.read_mesh` supports.
        scale: factor on each axis.
        whole: return one hull, also for a non-convex mesh.

    Returns:
        Points [m], shape (p, 3) each.

    Raises:
        InvalidDescription: the file cannot be read, or has an unsupported format.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidDescription(f"{path} cannot be read as a mesh: {error}") from error
    sha = hashlib.sha256(
        repr((path.suffix.lower(), scale, whole)).encode() + hash_of_files(_SOURCES)
    )
    sha.update(content)
    key = f"{cache.MESHES}file-{sha.hexdigest()}"
    return stored_arrays(key, lambda: _hulls(mesh_file.read_mesh(path, scale), whole))


def hulls_of(mesh: TriangleMesh) -> list[Array]:
    """Return points whose convex hulls together contain a mesh; see :func:`mesh_hulls`.

    Returns:
        Points [m], shape (p, 3) each.
    """
    known = _known.get(mesh)
    if known is None:
        known = _known[mesh] = [mesh.vertices] if mesh.convex else _hulls(mesh, whole=False)
    return known


_known: weakref.WeakKeyDictionary[TriangleMesh, list[Array]] = weakref.WeakKeyDictionary()


def _hulls(mesh: TriangleMesh, whole: bool) -> list[Array]:
    if whole or fills_its_hull(mesh):
        return [np.unique(mesh.vertices[mesh.triangles].reshape(-1, 3), axis=0)]
    return convex_parts(mesh)
