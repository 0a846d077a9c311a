# SPDX-License-Identifier: Apache-2.0
"""Scene nodes of a link's shapes, with pose, colour and material."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import viser

from motion_nodes.model.poses import to_quat_wxyz
from motion_nodes.model.tree import Box, Cylinder, Mesh, Shape, Sphere
from motion_nodes.typing import Array
from motion_nodes.view.merged_shapes import merged
from motion_nodes.view.mesh_files import MeshFiles

PLAIN_RGB = (198, 203, 208)
"""Colour of shapes without a colour in the URDF: the light grey of painted metal."""
PLACEHOLDER_RGB = (235, 140, 52)
"""Colour of the box drawn for a missing mesh."""
SPHERE_SUBDIVISIONS = 3
"""Subdivisions of an icosahedron: 1280 triangles; one more would be four times as many."""
PLACEHOLDER_SIZE = 0.06
"""Edge length of the box drawn for a missing mesh [m]."""


@dataclass(frozen=True)
class Appearance:
    """Appearance of the shapes of a robot."""

    rgb: tuple[int, int, int] | None = None
    """Colour of all shapes, 0 to 255 each; None: the colours of the URDF."""
    opacity: float = 1.0
    """0 to 1, multiplied by the shape's own; 1 is opaque."""
    shadow: bool = True
    """Whether shapes cast and receive shadows."""
    grow: float = 0.0
    """Offset of the surface [m]; avoids z-fighting where a ghost coincides with its robot."""


SOLID = Appearance()
GHOST = Appearance(rgb=(70, 140, 235), opacity=0.3, shadow=False, grow=0.0015)
"""Appearance of the joint reference."""


class _Surface(TypedDict):
    color: tuple[int, int, int]
    opacity: float | None
    cast_shadow: bool
    receive_shadow: bool
    wxyz: Array
    position: Array


def colour(shape: Shape, appearance: Appearance) -> tuple[tuple[int, int, int], float | None]:
    """Return the 8-bit colour of a shape and its opacity, None if opaque."""
    rgb, alpha = PLAIN_RGB, 1.0
    if shape.rgba is not None:
        bounded = np.clip(np.nan_to_num(shape.rgba), 0.0, 1.0)
        red, green, blue = (round(255 * float(part)) for part in bounded[:3])
        rgb, alpha = (red, green, blue), float(bounded[3])
    opacity = alpha * appearance.opacity
    return appearance.rgb or rgb, None if opacity >= 1.0 else opacity


def add_shape(
    scene: viser.SceneApi, path: str, shape: Shape, appearance: Appearance, meshes: MeshFiles
) -> viser.MeshHandle:
    """Add a shape as a child of its link's node.

    Args:
        scene: the viser scene.
        path: path of the new node.
        shape: geometry with its pose in the link.
        appearance: appearance.
        meshes: mesh files; a placeholder box is drawn for a missing one.

    Returns:
        The handle of the node.
    """
    rgb, opacity = colour(shape, appearance)
    surface = _Surface(
        color=rgb,
        opacity=opacity,
        cast_shadow=appearance.shadow,
        receive_shadow=appearance.shadow,
        wxyz=to_quat_wxyz(shape.X_LG[:3, :3]),
        position=shape.X_LG[:3, 3],
    )
    match shape.geometry:
        case Box((x, y, z)):
            sides = (x + 2 * appearance.grow, y + 2 * appearance.grow, z + 2 * appearance.grow)
            return scene.add_box(path, dimensions=sides, **surface)
        case Sphere(radius):
            return scene.add_icosphere(
                path, radius=radius + appearance.grow, subdivisions=SPHERE_SUBDIVISIONS, **surface
            )
        case Cylinder(radius, length):
            return scene.add_cylinder(
                path, radius=radius + appearance.grow, height=length + 2 * appearance.grow,
                radial_segments=48, **surface,
            )  # fmt: skip
        case Mesh() as mesh:
            triangles = meshes.triangles(mesh)
            if triangles is not None:
                vertices = _grown(triangles.vertices, appearance.grow)
                return scene.add_mesh_simple(
                    path, vertices, triangles.faces, flat_shading=True, **surface
                )
    surface["color"] = PLACEHOLDER_RGB
    return scene.add_box(path, dimensions=(PLACEHOLDER_SIZE,) * 3, **surface)


def add_shapes(
    scene: viser.SceneApi,
    path: str,
    shapes: Sequence[Shape],
    appearance: Appearance,
    meshes: MeshFiles,
) -> None:
    """Add the shapes of a link: one node per mesh, and one for all primitives of one colour.

    Args:
        scene: the viser scene.
        path: prefix of the nodes' paths; the index of their first shape is appended.
        shapes: geometry with poses in the link.
        appearance: appearance.
        meshes: mesh files.
    """
    same_colour: dict[object, list[int]] = {}
    for number, shape in enumerate(shapes):
        key = number if isinstance(shape.geometry, Mesh) else colour(shape, appearance)
        same_colour.setdefault(key, []).append(number)
    for numbers in same_colour.values():
        name, first = f"{path}_{numbers[0]}", shapes[numbers[0]]
        if len(numbers) == 1:
            add_shape(scene, name, first, appearance, meshes)
            continue
        triangles = merged([shapes[number] for number in numbers], appearance.grow)
        rgb, opacity = colour(first, appearance)
        scene.add_mesh_simple(
            name, triangles.vertices, triangles.faces, color=rgb, opacity=opacity,
            cast_shadow=appearance.shadow, receive_shadow=appearance.shadow,
        )  # fmt: skip


def _grown(vertices: Array, by: float) -> Array:
    """Return vertices scaled about their centre, the outermost moved by ``by`` [m], (v, 3)."""
    if not by:
        return vertices
    centre = 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))
    half = max(0.5 * float(np.ptp(vertices, axis=0).max()), by)
    return np.asarray(centre + (1.0 + by / half) * (vertices - centre))


def reach(shape: Shape, meshes: MeshFiles) -> float:
    """Return the radius of the shape's bounding sphere about its origin [m]."""
    match shape.geometry:
        case Box(size):
            return float(np.linalg.norm(size)) / 2
        case Sphere(radius):
            return radius
        case Cylinder(radius, length):
            return float(np.hypot(radius, length / 2))
        case Mesh() as mesh:
            triangles = meshes.triangles(mesh)
            if triangles is not None:
                return float(np.linalg.norm(triangles.vertices, axis=1).max())
    return PLACEHOLDER_SIZE
