# SPDX-License-Identifier: Apache-2.0
"""Boxes, cylinders and spheres of a link merged into one triangle mesh.

Each scene node costs the page time when it is added and in every frame, and a robot may have a
hundred shapes: so shapes of a link with the same colour become one node. Vertices at sharp edges
are duplicated per face, so that each face has its own normals.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from motion_nodes.model.tree import Box, Cylinder, Shape, Sphere
from motion_nodes.typing import Array
from motion_nodes.view.mesh_files import Triangles

SEGMENTS = 32
"""Number of segments around a cylinder or sphere."""
RINGS = 16
"""Number of rings of a sphere, from pole to pole."""


def merged(shapes: Sequence[Shape], grow: float = 0.0) -> Triangles:
    """Return the triangles of boxes, cylinders and spheres in the frame of their link.

    Args:
        shapes: boxes, cylinders and spheres with their poses in the link.
        grow: offset of the surface [m].

    Raises:
        TypeError: a shape of another kind.
    """
    vertices, faces, count = [], [], 0
    for shape in shapes:
        part, size = _unit_part(shape, grow)
        corners = part.vertices * size
        vertices.append(corners @ shape.X_LG[:3, :3].T + shape.X_LG[:3, 3])
        faces.append(part.faces + np.uint32(count))
        count += len(corners)
    return Triangles(np.concatenate(vertices), np.concatenate(faces))


def _unit_part(shape: Shape, grow: float) -> tuple[Triangles, Array]:
    """Return a shape of unit size and its scale along x, y and z [m], shape (3,)."""
    match shape.geometry:
        case Box(size):
            return _box(), np.array(size) + 2.0 * grow
        case Cylinder(radius, length):
            return _cylinder(), np.array([radius + grow, radius + grow, length + 2.0 * grow])
        case Sphere(radius):
            return _sphere(), np.full(3, radius + grow)
    raise TypeError(f"{type(shape.geometry).__name__} cannot be merged")


@functools.cache
def _box() -> Triangles:
    """Return a cube of edge length 1; faces do not share vertices."""
    vertices = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal = sign * np.eye(3)[axis]
            u = np.eye(3)[(axis + 1) % 3]
            v = np.cross(normal, u)
            vertices += [0.5 * (normal + a * u + b * v)
                         for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]  # fmt: skip
    quads = 4 * np.arange(6)[:, None]
    faces = np.concatenate([quads + np.array([0, 1, 2]), quads + np.array([0, 2, 3])])
    return Triangles(np.array(vertices), faces.astype(np.uint32))


@functools.cache
def _cylinder() -> Triangles:
    """Return a cylinder of radius and length 1 along z; caps do not share vertices."""
    angle = np.arange(SEGMENTS) * 2.0 * np.pi / SEGMENTS
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(SEGMENTS)], axis=1)
    poles = np.array([[0.0, 0.0, -0.5], [0.0, 0.0, 0.5]])
    low, high = ring + poles[0], ring + poles[1]
    vertices = np.concatenate([low, high, low, high, poles])
    k, n = np.arange(SEGMENTS), (np.arange(SEGMENTS) + 1) % SEGMENTS
    s = SEGMENTS
    faces = np.concatenate(
        [
            np.stack([k, n, s + n], axis=1),
            np.stack([k, s + n, s + k], axis=1),
            np.stack([2 * s + n, 2 * s + k, np.full(s, 4 * s)], axis=1),
            np.stack([3 * s + k, 3 * s + n, np.full(s, 4 * s + 1)], axis=1),
        ]
    )
    return Triangles(vertices, faces.astype(np.uint32))


@functools.cache
def _sphere() -> Triangles:
    """Return a sphere of radius 1: rings of vertices between its poles."""
    polar = np.arange(1, RINGS)[:, None] * np.pi / RINGS
    angle = np.arange(SEGMENTS)[None, :] * 2.0 * np.pi / SEGMENTS
    parts = (np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle),
             np.cos(polar) * np.ones_like(angle))  # fmt: skip
    rings = np.stack(parts, axis=-1).reshape(-1, 3)
    top, bottom = len(rings), len(rings) + 1
    vertices = np.concatenate([rings, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]])
    k, n = np.arange(SEGMENTS), (np.arange(SEGMENTS) + 1) % SEGMENTS
    last = (RINGS - 2) * SEGMENTS
    faces = [np.stack([k, n, np.full(SEGMENTS, top)], axis=1)]
    for ring in range(RINGS - 2):
        above, below = ring * SEGMENTS, (ring + 1) * SEGMENTS
        faces += [np.stack([above + k, below + k, below + n], axis=1),
                  np.stack([above + k, below + n, above + n], axis=1)]  # fmt: skip
    faces.append(np.stack([last + n, last + k, np.full(SEGMENTS, bottom)], axis=1))
    return Triangles(vertices, np.concatenate(faces).astype(np.uint32))
