# SPDX-License-Identifier: Apache-2.0
"""Reader of COLLADA meshes, in metres; colours, textures and animations are ignored.

Source: COLLADA 1.4.1 specification (Khronos, 2008), elements mesh, triangles, polylist, polygons,
node, instance_geometry, unit. As in RViz and MoveIt, ``up_axis`` is ignored: the URDF defines the
orientation of a mesh.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]
from numpy.typing import NDArray

from motion_nodes.typing import Array

Triangles = tuple[Array, NDArray[np.int64]]
_DEEPEST = 60  # max depth of nested nodes


def read_dae(path: Path) -> Triangles:
    """Return vertices [m], shape (v, 3), and triangles, shape (t, 3).

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
    placed: list[Triangles] = []
    shown = root.find("scene/instance_visual_scene")
    if shown is not None:
        scene = _target(shown, "url", by_id)
        for node in scene.findall("node"):
            _place(node, np.eye(4), by_id, placed, 0)
    if not placed:  # without a scene, geometries have no transform
        for geometry in root.iter("geometry"):
            placed.append(_geometry(geometry, by_id))
    if not placed:
        raise ValueError("has no geometry")
    firsts = np.cumsum([0, *(len(vertices) for vertices, _ in placed)])
    vertices = np.concatenate([vertices for vertices, _ in placed])
    triangles = [faces + first for (_, faces), first in zip(placed, firsts[:-1], strict=True)]
    return metres * vertices, np.concatenate(triangles)


def _place(node: Any, X: Array, by_id: dict[str, Any], placed: list[Triangles], depth: int) -> None:
    """Add the geometry of a node and its children, in the frame of the scene."""
    if depth > _DEEPEST:
        raise ValueError("has nodes that contain themselves")
    X = X @ _transform(node)
    for instance in node.findall("instance_geometry"):
        vertices, triangles = _geometry(_target(instance, "url", by_id), by_id)
        placed.append((vertices @ X[:3, :3].T + X[:3, 3], triangles))
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
            step[:3, :3] = _rotation(values[:3], np.radians(values[3]))
        X = X @ step
    return X


def _rotation(axis: Array, angle: float) -> Array:
    """Return the rotation about an axis by Rodrigues' formula, shape (3, 3)."""
    x, y, z = axis / max(float(np.linalg.norm(axis)), 1e-12)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross)


def _geometry(geometry: Any, by_id: dict[str, Any]) -> Triangles:
    """Return the triangles of one geometry; lines and points are ignored."""
    vertices, triangles = [np.empty((0, 3))], [np.empty((0, 3), np.int64)]
    first = 0
    for primitive in geometry.iterfind("mesh/*"):
        if primitive.tag not in ("triangles", "polylist", "polygons", "trifans", "tristrips"):
            continue
        corners = _positions(primitive, by_id)
        faces = _faces(primitive)
        if len(faces) and faces.max() >= len(corners):
            raise ValueError(f"refers to vertex {faces.max()} of {len(corners)}")
        vertices.append(corners)
        triangles.append(faces + first)
        first += len(corners)
    return np.concatenate(vertices), np.concatenate(triangles)


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
