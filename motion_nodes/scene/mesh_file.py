# SPDX-License-Identifier: Apache-2.0
"""Reader of mesh files of robot descriptions: STL, OBJ, DAE and (with trimesh) glTF and PLY."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.scene.dae_file import read_dae
from motion_nodes.scene.shapes import TriangleMesh, triangle_mesh

_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


class EmptyMesh(InvalidDescription):
    """A mesh file without triangles."""


def read_mesh(
    path: Path, scale: tuple[float, float, float] = (1.0, 1.0, 1.0), convex: bool = False
) -> TriangleMesh:
    """Return the mesh in a file.

    Args:
        path: a ``.stl`` (binary or text), ``.obj``, ``.dae``, ``.glb``, ``.gltf`` or ``.ply``
            file; the axes of the last three are not converted.
        scale: factor on each axis.
        convex: whether to use the convex hull.

    Raises:
        EmptyMesh: the file has no triangles.
        InvalidDescription: the file cannot be read, or has an unsupported format.
    """
    readers = {".stl": _stl, ".obj": _obj, ".dae": read_dae}
    readers |= dict.fromkeys((".glb", ".gltf", ".ply"), _by_trimesh)
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidDescription(
            f"{path}: collision meshes are read from {', '.join(readers)} files only."
        )
    try:
        with path.open("rb") as file:
            start = file.read(40)
        if start.startswith(b"version https://git-lfs"):
            raise InvalidDescription(
                f"{path} is a git-lfs pointer, not a mesh; fetch the mesh with 'git lfs pull'."
            )
        vertices, triangles = reader(path) if start else (np.empty((0, 3)), np.empty((0, 3), int))
        if len(triangles) == 0:
            raise EmptyMesh(f"{path} has no triangles.")
        return triangle_mesh(vertices * np.asarray(scale), triangles, convex)
    except InvalidDescription:
        raise
    except (OSError, ValueError, IndexError, OverflowError) as error:
        raise InvalidDescription(f"{path} cannot be read as a mesh: {error}") from error


def _by_trimesh(path: Path) -> tuple[np.ndarray, np.ndarray]:
    import trimesh  # on demand, because the import is slow

    try:
        mesh = trimesh.load(path, force="mesh")
    except Exception as error:  # its errors have no common base class
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return np.asarray(mesh.vertices, np.float64), np.asarray(mesh.faces, np.int64)


def _stl(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = path.read_bytes()
    count = int.from_bytes(content[80:84], "little")
    if len(content) == 84 + _RECORD.itemsize * count:
        corners = np.frombuffer(content, _RECORD, count, 84)["corners"].reshape(-1, 3)
    else:
        lines = [line.split() for line in content.decode("ascii", "replace").splitlines()]
        corners = np.array([line[1:4] for line in lines if line[:1] == ["vertex"]], np.float64)
    return corners.astype(np.float64).reshape(-1, 3), np.arange(len(corners)).reshape(-1, 3)


def _obj(path: Path) -> tuple[np.ndarray, np.ndarray]:
    vertices: list[list[float]] = []
    triangles: list[list[int]] = []
    for line in path.read_text(errors="replace").splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            vertices.append([float(word) for word in words[1:4]])
        elif words[:1] == ["f"]:
            # Corner indices start at 1, negative ones count from the end; polygons become fans.
            numbers = [int(word.split("/")[0]) for word in words[1:]]
            face = [n - 1 if n > 0 else len(vertices) + n for n in numbers]
            triangles += [[face[0], face[k], face[k + 1]] for k in range(1, len(face) - 1)]
    return np.array(vertices, np.float64).reshape(-1, 3), np.array(triangles, np.int64).reshape(
        -1, 3
    )
