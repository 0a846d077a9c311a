# SPDX-License-Identifier: Apache-2.0
"""One shape of a link as a node of the viser scene, with its pose, colour and material."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import viser

from motion_nodes.model.tree import Array, Box, Cylinder, Mesh, Shape, Sphere
from motion_nodes.view.link_poses import wxyz_from_rotation
from motion_nodes.view.mesh_files import MeshFiles

PLAIN_RGB = (198, 203, 208)
"""Colour of a shape for which the URDF gives none: the light grey of painted metal."""
PLACEHOLDER_RGB = (235, 140, 52)
"""Colour of the box that stands in for a missing mesh."""
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


SOLID = Look()
GHOST = Look(rgb=(70, 140, 235), opacity=0.3, shadow=False)
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
        case Box(size):
            return scene.add_box(path, dimensions=size, **surface)
        case Sphere(radius):
            return scene.add_icosphere(path, radius=radius, subdivisions=4, **surface)
        case Cylinder(radius, length):
            return scene.add_cylinder(
                path, radius=radius, height=length, radial_segments=48, **surface
            )
        case Mesh() as mesh:
            triangles = meshes.triangles(mesh)
            if triangles is not None:
                return scene.add_mesh_simple(
                    path, triangles.vertices, triangles.faces, flat_shading=True, **surface
                )
    surface["color"] = PLACEHOLDER_RGB
    return scene.add_box(path, dimensions=(PLACEHOLDER_SIZE,) * 3, **surface)


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
