# SPDX-License-Identifier: Apache-2.0
"""Reader of mesh files of robot descriptions: STL, OBJ, DAE and (with trimesh) glTF and PLY.

Meshes are in metres; textures and animations of COLLADA are ignored. Source: COLLADA 1.4.1
specification (Khronos, 2008), elements mesh, triangles, polylist, polygons, node,
instance_geometry, bind_material, effect, unit. As in RViz and MoveIt, ``up_axis`` is ignored: the
URDF defines the orientation of a mesh.

The convex hulls of mesh files, which the simulation shares with the exact checks, are cached on
disk by the content of the file, so that startup neither parses meshes nor imports SciPy.
"""

from __future__ import annotations

import contextlib
import hashlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]
from numpy.typing import NDArray

from motion_nodes.core.robot.poses import rotation_about
from motion_nodes.core.scene import convex_decomposition
from motion_nodes.core.scene.convex_decomposition import convex_parts, fills_its_hull
from motion_nodes.core.scene.mesh_cache import hash_of_files, stored_arrays
from motion_nodes.core.scene.shapes import TriangleMesh, triangle_mesh
from motion_nodes.errors import InvalidDescription
from motion_nodes.kernels import cache
from motion_nodes.typing import Array

Triangles = tuple[Array, NDArray[np.int64]]
_DEEPEST = 60  # max depth of nested nodes
_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_SOURCES = (__file__, convex_decomposition.__file__)
"""Source files on which hulls depend."""


Rgba = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class MeshPart:
    """Triangles of one colour."""

    vertices: Array
    """Vertices [m], shape (v, 3)."""
    triangles: NDArray[np.int64]
    """Indices of vertices, shape (t, 3)."""
    rgba: Rgba | None = None
    """Diffuse colour, 0 to 1 each; None if the file states none."""


def read_dae(path: Path) -> tuple[MeshPart, ...]:
    """Return the parts of a COLLADA file, one per material of a geometry.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not COLLADA, or has no triangles.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    try:
        root = etree.fromstring(path.read_bytes(), parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"is not XML ({error.msg})") from None
    for element in root.iter("*"):
        element.tag = etree.QName(element).localname
    by_id = {element.get("id"): element for element in root.iter("*") if element.get("id")}
    unit = root.find("asset/unit")
    metres = float(unit.get("meter", 1.0)) if unit is not None else 1.0
    placed: list[MeshPart] = []
    shown = root.find("scene/instance_visual_scene")
    if shown is not None:
        scene = _target(shown, "url", by_id)
        for node in scene.findall("node"):
            _place(node, np.eye(4), by_id, placed, 0)
    if not placed:  # without a scene, geometries have no transform
        for geometry in root.iter("geometry"):
            placed += [MeshPart(*solid) for _, solid in _geometry(geometry, by_id)]
    if not placed:
        raise ValueError("has no geometry")
    return tuple(MeshPart(metres * p.vertices, p.triangles, p.rgba) for p in placed)


def _place(node: Any, X: Array, by_id: dict[str, Any], placed: list[MeshPart], depth: int) -> None:
    """Add the geometry of a node and its children, in the frame of the scene."""
    if depth > _DEEPEST:
        raise ValueError("has nodes that contain themselves")
    X = X @ _transform(node)
    for instance in node.findall("instance_geometry"):
        bound = {
            each.get("symbol"): by_id.get((each.get("target") or "").removeprefix("#"))
            for each in instance.iterfind("bind_material/technique_common/instance_material")
        }
        for symbol, (vertices, triangles) in _geometry(_target(instance, "url", by_id), by_id):
            rgba = _diffuse(bound.get(symbol), by_id)
            placed.append(MeshPart(vertices @ X[:3, :3].T + X[:3, 3], triangles, rgba))
    for child in node.findall("node"):
        _place(child, X, by_id, placed, depth + 1)
    for instance in node.findall("instance_node"):
        _place(_target(instance, "url", by_id), X, by_id, placed, depth + 1)


def _transform(node: Any) -> Array:
    """Return the pose (and scale) of a node in its parent, shape (4, 4)."""
    X = np.eye(4)
    for element in node:
        if element.tag not in ("matrix", "translate", "scale", "rotate"):
            continue
        values = _floats(element)
        step = np.eye(4)
        if element.tag == "matrix":
            step = values.reshape(4, 4)
        elif element.tag == "translate":
            step[:3, 3] = values
        elif element.tag == "scale":
            step[:3, :3] = np.diag(values)
        else:
            axis = values[:3] / max(float(np.linalg.norm(values[:3])), 1e-12)
            step[:3, :3] = rotation_about(axis, np.radians(values[3]))
        X = X @ step
    return X


def _diffuse(material: Any, by_id: dict[str, Any]) -> Rgba | None:
    """Return the diffuse colour of a material; None for a texture or an incomplete material."""
    effect = None if material is None else material.find("instance_effect")
    effect = None if effect is None else by_id.get((effect.get("url") or "").removeprefix("#"))
    color = None if effect is None else effect.find("profile_COMMON/technique/*/diffuse/color")
    with contextlib.suppress(ValueError):  # a colour that cannot be read is none
        red, green, blue, *_ = _floats(color).tolist()
        return red, green, blue, 1.0  # opacity is another element, which exporters misuse
    return None


def _geometry(geometry: Any, by_id: dict[str, Any]) -> Iterator[tuple[str | None, Triangles]]:
    """Yield the symbols of materials with their triangles; lines and points are ignored."""
    for primitive in geometry.iterfind("mesh/*"):
        if primitive.tag not in ("triangles", "polylist", "polygons", "trifans", "tristrips"):
            continue
        corners = _positions(primitive, by_id)
        faces = _faces(primitive)
        if len(faces) and faces.max() >= len(corners):
            raise ValueError(f"refers to vertex {faces.max()} of {len(corners)}")
        yield primitive.get("material"), (corners, faces)


def _positions(primitive: Any, by_id: dict[str, Any]) -> Array:
    """Return the positions of a primitive's VERTEX input, shape (v, 3)."""
    vertices = _target(_input(primitive, "VERTEX"), "source", by_id)
    source = _target(_input(vertices, "POSITION"), "source", by_id)
    values = _floats(source.find("float_array"))
    accessor = source.find("technique_common/accessor")
    stride = int(accessor.get("stride", 3)) if accessor is not None else 3
    offset = int(accessor.get("offset", 0)) if accessor is not None else 0
    if stride < 3 or offset < 0:
        raise ValueError(f"has positions of stride {stride} and offset {offset}")
    count = (len(values) - offset) // stride
    return values[offset : offset + count * stride].reshape(count, stride)[:, :3]


def _faces(primitive: Any) -> NDArray[np.int64]:
    """Return the corners of a primitive's triangles, shape (t, 3); polygons become fans."""
    inputs = primitive.findall("input")
    stride = 1 + max(int(i.get("offset", 0)) for i in inputs)
    offset = int(_input(primitive, "VERTEX").get("offset", 0))
    runs = [
        np.array((p.text or "").split(), np.int64)[offset::stride] for p in primitive.findall("p")
    ]
    if primitive.tag == "triangles":
        return np.concatenate([np.empty(0, np.int64), *runs]).reshape(-1, 3)
    if primitive.tag == "polylist":
        counts = np.array((primitive.findtext("vcount") or "").split(), np.int64)
        joined = np.concatenate([np.empty(0, np.int64), *runs])
        runs = np.split(joined, np.cumsum(counts)[:-1]) if len(counts) else []
    faces = []
    for run in runs:
        k = np.arange(1, len(run) - 1)
        if primitive.tag == "tristrips":
            odd = k % 2 == 0
            faces.append(
                np.stack(
                    (run[k - 1], run[np.where(odd, k + 1, k)], run[np.where(odd, k, k + 1)]), 1
                )
            )
        else:
            faces.append(
                np.stack((np.full(len(k), run[0] if len(run) else 0), run[k], run[k + 1]), 1)
            )
    return np.concatenate([np.empty((0, 3), np.int64), *faces])


def _input(element: Any, semantic: str) -> Any:
    """Return the input with a semantic."""
    found = next((i for i in element.findall("input") if i.get("semantic") == semantic), None)
    if found is None:
        raise ValueError(f"<{element.tag}> has no input {semantic}")
    return found


def _target(element: Any, key: str, by_id: dict[str, Any]) -> Any:
    name = (element.get(key) or "").removeprefix("#")
    if name not in by_id:
        raise ValueError(f"refers to '{name}', which does not exist")
    return by_id[name]


def _floats(element: Any) -> Array:
    if element is None:
        raise ValueError("has no array of numbers")
    return np.array((element.text or "").split(), np.float64)


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
    with _told(path):
        vertices, triangles = _joined(_parts(path))
        return triangle_mesh(vertices * np.asarray(scale), triangles, convex)


def read_mesh_parts(
    path: Path, scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
) -> tuple[MeshPart, ...]:
    """Return the surface in a file, as one part per colour.

    Args:
        path: as of :func:`read_mesh`.
        scale: factor on each axis.

    Raises:
        EmptyMesh: the file has no triangles.
        InvalidDescription: the file cannot be read, or has an unsupported format.
    """
    by_colour: dict[Rgba | None, list[MeshPart]] = {}
    with _told(path):
        for part in _parts(path, colored=True):
            by_colour.setdefault(part.rgba, []).append(part)
        joined = {rgba: _joined(parts) for rgba, parts in by_colour.items()}
        if not all(np.isfinite(vertices).all() for vertices, _ in joined.values()):
            raise ValueError("has coordinates that are not finite numbers")
        return tuple(
            MeshPart(vertices * np.asarray(scale), triangles, rgba)
            for rgba, (vertices, triangles) in joined.items()
            if len(triangles)
        )


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raise the errors of readers as InvalidDescription with the file's name."""
    try:
        yield
    except InvalidDescription:
        raise
    except (OSError, ValueError, IndexError, OverflowError) as error:
        raise InvalidDescription(f"{path} cannot be read as a mesh: {error}") from error


def _parts(path: Path, colored: bool = False) -> Sequence[MeshPart]:
    """Return the parts of a file, which has triangles; colours only if requested."""
    readers: dict[str, Callable[[Path], Sequence[MeshPart]]] = {
        ".stl": lambda path: [MeshPart(*_stl(path))],
        ".obj": _obj_with_materials if colored else lambda path: [MeshPart(*_obj(path))],
        ".dae": read_dae,
    }
    readers |= dict.fromkeys((".glb", ".gltf", ".ply"), partial(_by_trimesh, colored=colored))
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidDescription(f"{path}: meshes are read from {', '.join(readers)} files only.")
    with path.open("rb") as file:
        start = file.read(40)
    if start.startswith(b"version https://git-lfs"):
        raise InvalidDescription(
            f"{path} is a git-lfs pointer, not a mesh; fetch the mesh with 'git lfs pull'."
        )
    parts = reader(path) if start else ()
    if not any(len(part.triangles) for part in parts):
        raise EmptyMesh(f"{path} has no triangles.")
    return parts


def _joined(parts: Sequence[MeshPart]) -> Triangles:
    firsts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    triangles = [part.triangles + first for part, first in zip(parts, firsts[:-1], strict=True)]
    return np.concatenate([part.vertices for part in parts]), np.concatenate(triangles)


def _obj_with_materials(path: Path) -> Sequence[MeshPart]:
    if b"mtllib" in path.read_bytes():
        with contextlib.suppress(ValueError):  # without its materials
            return _by_trimesh(path, colored=True)
    return [MeshPart(*_obj(path))]


def _by_trimesh(path: Path, *, colored: bool) -> Sequence[MeshPart]:
    import trimesh  # on demand, because the import is slow

    try:
        scene = trimesh.load(path, force="scene")
        return [
            MeshPart(
                np.asarray(mesh.vertices, np.float64),
                np.asarray(mesh.faces, np.int64),
                _main(mesh) if colored else None,
            )
            for mesh in scene.dump()
            if isinstance(mesh, trimesh.Trimesh)
        ]
    except Exception as error:  # its errors have no common base class
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _main(mesh: Any) -> Rgba | None:
    """Return the main colour of a mesh of trimesh; None if its file states none."""
    if not mesh.visual.defined:
        return None
    material = getattr(mesh.visual, "material", None)
    image = getattr(material, "baseColorTexture", None) or getattr(material, "image", None)
    if image is not None:
        color = np.asarray(image.convert("RGBA"), np.float64).mean(axis=(0, 1))
    else:
        color = mesh.visual.main_color if material is None else material.main_color
    red, green, blue, alpha = (np.asarray(color, np.float64) / 255.0).tolist()
    return red, green, blue, alpha


def _stl(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = path.read_bytes()
    count = int.from_bytes(content[80:84], "little")
    # Some writers add bytes. The letters of a text file there are a greater number than its size.
    if len(content) >= 84 + _RECORD.itemsize * count:
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


def mesh_hulls(
    path: Path, scale: tuple[float, float, float] = (1.0, 1.0, 1.0), whole: bool = False
) -> list[Array]:
    """Return points whose convex hulls together contain the mesh in a file.

    They are the hulls of the exact checks: one for a convex mesh, else those of
    :func:`motion_nodes.core.scene.convex_decomposition.convex_parts`.

    Args:
        path: a file that :func:`read_mesh` supports.
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
    return stored_arrays(key, lambda: _hulls(read_mesh(path, scale), whole))


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
