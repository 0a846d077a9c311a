# SPDX-License-Identifier: Apache-2.0
"""One shape of a link as a node of the viser scene, with its pose, colour and material."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import viser

from motion_nodes.model.tree import Array, Box, Cylinder, Mesh, Shape, Sphere
from motion_nodes.view.link_poses import wxyz_from_rotation
from motion_nodes.view.merged_shapes import merged
from motion_nodes.view.mesh_files import MeshFiles

PLAIN_RGB = (198, 203, 208)
"""Colour of a shape for which the URDF gives none: the light grey of painted metal."""
PLACEHOLDER_RGB = (235, 140, 52)
"""Colour of the box that stands in for a missing mesh."""
BALL_SUBDIVISIONS = 3
"""1280 triangles: no corner is seen, and a quarter of the work of one step more."""
PLACEHOLDER_SIZE = 0.06
"""Edge of that box [m]."""


@dataclass(frozen=True)
class Look:
    """How all shapes of one robot are drawn."""

    rgb: tuple[int, int, int] | None = None
    """One colour for all, or None for the colours of the URDF."""
    opacity: float = 1.0
    """1 is solid."""
    shadow: bool = True
    grow: float = 0.0
    """[m] So far beyond the true surface, so that a ghost and its robot do not flicker where one is
    exactly in the other."""


SOLID = Look()
GHOST = Look(rgb=(70, 140, 235), opacity=0.3, shadow=False, grow=0.0015)
"""Where the robot should be."""


class _Surface(TypedDict):
    color: tuple[int, int, int]
    opacity: float | None
    cast_shadow: bool
    receive_shadow: bool
    wxyz: Array
    position: Array


def colour(shape: Shape, look: Look) -> tuple[tuple[int, int, int], float | None]:
    """Return the 8-bit colour of a shape and its opacity, which is None when it is solid."""
    rgb, alpha = PLAIN_RGB, 1.0
    if shape.rgba is not None:
        bounded = np.clip(np.nan_to_num(shape.rgba), 0.0, 1.0)
        red, green, blue = (round(255 * float(part)) for part in bounded[:3])
        rgb, alpha = (red, green, blue), float(bounded[3])
    opacity = alpha * look.opacity
    return look.rgb or rgb, None if opacity >= 1.0 else opacity


def add_shape(
    scene: viser.SceneApi, path: str, shape: Shape, look: Look, meshes: MeshFiles
) -> viser.MeshHandle:
    """Add a shape below the node of its link.

    Args:
        scene: the scene to add to.
        path: full name of the new node.
        shape: geometry with its pose in the link.
        look: how it is drawn.
        meshes: where mesh files come from; a placeholder box is drawn for one that is missing.

    Returns:
        The handle of the node; that of a mesh or of one of the plain shapes.
    """
    rgb, opacity = colour(shape, look)
    surface = _Surface(
        color=rgb,
        opacity=opacity,
        cast_shadow=look.shadow,
        receive_shadow=look.shadow,
        wxyz=wxyz_from_rotation(shape.X_LG[:3, :3]),
        position=shape.X_LG[:3, 3],
    )
    match shape.geometry:
        case Box((x, y, z)):
            sides = (x + 2 * look.grow, y + 2 * look.grow, z + 2 * look.grow)
            return scene.add_box(path, dimensions=sides, **surface)
        case Sphere(radius):
            return scene.add_icosphere(
                path, radius=radius + look.grow, subdivisions=BALL_SUBDIVISIONS, **surface
            )
        case Cylinder(radius, length):
            return scene.add_cylinder(
                path, radius=radius + look.grow, height=length + 2 * look.grow,
                radial_segments=48, **surface,
            )  # fmt: skip
        case Mesh() as mesh:
            triangles = meshes.triangles(mesh)
            if triangles is not None:
                vertices = _grown(triangles.vertices, look.grow)
                return scene.add_mesh_simple(
                    path, vertices, triangles.faces, flat_shading=True, **surface
                )
    surface["color"] = PLACEHOLDER_RGB
    return scene.add_box(path, dimensions=(PLACEHOLDER_SIZE,) * 3, **surface)


def add_shapes(
    scene: viser.SceneApi, path: str, shapes: Sequence[Shape], look: Look, meshes: MeshFiles
) -> None:
    """Add the shapes of a link: one node for all plain ones that look the same, one per mesh.

    Args:
        scene: the scene to add to.
        path: beginning of the nodes' names, to which the number of their first shape is added.
        shapes: geometry with poses in the link.
        look: how they are drawn.
        meshes: where mesh files come from.
    """
    alike: dict[object, list[int]] = {}
    for number, shape in enumerate(shapes):
        key = number if isinstance(shape.geometry, Mesh) else colour(shape, look)
        alike.setdefault(key, []).append(number)
    for numbers in alike.values():
        name, first = f"{path}_{numbers[0]}", shapes[numbers[0]]
        if len(numbers) == 1:
            add_shape(scene, name, first, look, meshes)
            continue
        triangles = merged([shapes[number] for number in numbers], look.grow)
        rgb, opacity = colour(first, look)
        scene.add_mesh_simple(
            name, triangles.vertices, triangles.faces, color=rgb, opacity=opacity,
            cast_shadow=look.shadow, receive_shadow=look.shadow,
        )  # fmt: skip


def _grown(vertices: Array, by: float) -> Array:
    """Return corners moved away from their middle, the outermost by so much [m], shape (v, 3)."""
    if not by:
        return vertices
    middle = 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))
    half = max(0.5 * float(np.ptp(vertices, axis=0).max()), by)
    return np.asarray(middle + (1.0 + by / half) * (vertices - middle))


def reach(shape: Shape, meshes: MeshFiles) -> float:
    """Return the radius of a ball about the shape's centre that holds it [m]."""
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
