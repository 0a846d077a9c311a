# SPDX-License-Identifier: Apache-2.0
"""Convex hulls of mesh files: the geometry of the exact checks, for the simulation.

Hulls of large meshes are cached on disk by the content of the file, so that a start neither reads
them nor imports SciPy.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.kernels import cache
from motion_nodes.model.tree import Array
from motion_nodes.scene import convex_decomposition, mesh_file
from motion_nodes.scene.convex_decomposition import convex_parts, fills_its_hull, is_convex

_SMALL = 50_000
"""Smaller files are read at each start if they are convex [byte]."""


def mesh_hulls(
    path: Path, scale: tuple[float, float, float] = (1.0, 1.0, 1.0), whole: bool = False
) -> list[Array]:
    """Return corners of convex hulls that together contain the mesh in a file.

    They are the hulls with which links are checked exactly: one for a convex mesh, else those of
    :func:`motion_nodes.scene.convex_decomposition.convex_parts`.

    Args:
        path: of a format that :func:`motion_nodes.scene.mesh_file.read_mesh` reads.
        scale: factor on each axis.
        whole: whether to return one hull, whatever the mesh is.

    Returns:
        Corners [m], shape (c, 3) each.

    Raises:
        InvalidDescription: the file cannot be read, or has an unsupported format.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidDescription(f"{path} cannot be read as a mesh: {error}") from error
    if whole or len(content) < _SMALL:
        mesh = mesh_file.read_mesh(path, scale)
        if whole or is_convex(mesh):
            return [np.unique(mesh.vertices, axis=0)]
    sha = hashlib.sha256(repr((path.suffix.lower(), scale)).encode())
    for source in (__file__, convex_decomposition.__file__, mesh_file.__file__):
        sha.update(Path(source).read_bytes())
    sha.update(content)
    key = f"mesh-hulls-{sha.hexdigest()}"
    if (stored := cache.read_entry(key)) is not None:
        with np.load(io.BytesIO(stored), allow_pickle=False) as file:
            return [file[f"arr_{k}"] for k in range(len(file.files))]
    mesh = mesh_file.read_mesh(path, scale)
    if fills_its_hull(mesh):
        hulls = [convex_decomposition.hull_corners(mesh.vertices)]
    else:
        hulls = convex_parts(mesh)
    buffer = io.BytesIO()
    np.savez(buffer, *hulls)
    cache.write_entry(key, buffer.getvalue())
    return hulls
