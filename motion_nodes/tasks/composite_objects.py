# SPDX-License-Identifier: Apache-2.0
"""Objects other than a single box, cylinder or sphere: meshes and compound shapes.

For grasps, and as a supporting surface, such an object is represented by its bounding box in its
own frame; next to a place, by its parts, each as its shape or its bounding box. In the planning
scene it keeps its shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.model.poses import from_xyz_rpy, inverse
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.scene.scene import Part, WorldObject, world_object
from motion_nodes.scene.shapes import TriangleMesh
from motion_nodes.scene.solid_types import type_of
from motion_nodes.scene.voxels import Voxels
from motion_nodes.tasks.world_state import Shape, SurfaceMesh
from motion_nodes.typing import Array

MIN_EDGE = 1e-3
"""Min edge of a bounding box [m]."""
MAX_TRIANGLES = 20_000
"""Max number of triangles of a mesh whose grasps are sampled; else its box is used."""
_SIGNS = np.stack(np.meshgrid(*[(-1.0, 1.0)] * 3), axis=-1).reshape(-1, 3)


@dataclass(frozen=True, eq=False)
class CompositeObject:
    """Shape of an object, and its bounding box."""

    parts: tuple[Part, ...]
    box: Box
    X_OB: Array
    """Pose of the box's centre in the object, shape (4, 4)."""
    solids: tuple[tuple[Shape, Array], ...] = ()
    """Shapes of several parts, with their poses in the box, shape (4, 4); meshes as boxes."""
    mesh: SurfaceMesh | None = None
    """Surface of an object that is one mesh, in the box."""

    def at(self, name: str, X_WB: Array) -> WorldObject:
        """Return the object with its box at a pose, shape (4, 4)."""
        solids, poses = zip(*((part.solid, part.X_OS) for part in self.parts), strict=True)
        return world_object(name, solids, X_WB @ inverse(self.X_OB), poses=poses)

    def in_link(self, X_LB: Array) -> Array:
        """Return the pose of the object in a link, from that of its box, shape (4, 4)."""
        return np.asarray(X_LB @ inverse(self.X_OB))


def composite_of(item: WorldObject) -> CompositeObject | None:
    """Return an object with its bounding box; None if it has no bounds, or consists of voxels."""
    corners = [_corners(part) for part in item.parts]
    if any(points is None for points in corners):
        return None
    own = [points for points in corners if points is not None]
    box, X_OB = _bounds(np.concatenate([
        points @ part.X_OS[:3, :3].T + part.X_OS[:3, 3]
        for part, points in zip(item.parts, own, strict=True)
    ]))  # fmt: skip
    solids: list[tuple[Shape, Array]] = []
    for part, points in zip(item.parts, own, strict=True):
        X_BS = inverse(X_OB) @ part.X_OS
        if isinstance(part.solid, Box | Cylinder | Sphere):
            solids.append((part.solid, X_BS))
        else:
            shape, X_SC = _bounds(points)
            solids.append((shape, X_BS @ X_SC))
    if len(solids) > 1:
        return CompositeObject(item.parts, box, X_OB, tuple(solids))
    (part,), mesh = item.parts, None
    solid = part.solid
    if (
        isinstance(solid, TriangleMesh)
        and not solid.convex
        and len(solid.triangles) <= MAX_TRIANGLES
    ):
        X_BS = inverse(X_OB) @ part.X_OS
        mesh = SurfaceMesh(own[0] @ X_BS[:3, :3].T + X_BS[:3, 3], solid.triangles)
    return CompositeObject(item.parts, box, X_OB, mesh=mesh)


def _bounds(points: Array) -> tuple[Box, Array]:
    """Return the bounding box of points [m], shape (n, 3), and the pose of its centre, (4, 4)."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.maximum(high - low, MIN_EDGE)
    return Box(tuple(size.tolist())), from_xyz_rpy(0.5 * (low + high), (0.0, 0.0, 0.0))


def _corners(part: Part) -> Array | None:
    """Return points of a part whose bounding box is that of the part, in its frame [m], (n, 3)."""
    solid = part.solid
    if isinstance(solid, TriangleMesh):
        return np.asarray(solid.vertices)
    if isinstance(solid, Voxels) or not type_of(solid).bounded:
        return None
    return np.asarray(_SIGNS * type_of(solid).half_box(solid))
