# SPDX-License-Identifier: Apache-2.0
"""Exact signed distances of points to solids, with directions, in NumPy.

The formulas are those of the generated code (:mod:`motion_nodes.kernels.formulas.shapes`). Meshes
are in :mod:`motion_nodes.scene.mesh_distance`.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.formulas import shapes
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.scene.mesh_distance import mesh_distance
from motion_nodes.scene.shapes import Solid, TriangleMesh
from motion_nodes.scene.solid_types import type_of
from motion_nodes.scene.voxels import Voxels, box_distance
from motion_nodes.typing import Array


def signed_distance(solid: Solid, points: Array) -> tuple[Array, Array]:
    """Return the signed distances of points to the surface of a solid, and their gradients.

    Args:
        solid: a shape.
        points: in the shape's frame [m], shape (m, 3).

    Returns:
        Distances, negative inside [m], shape (m,); unit vectors along which they increase, shape
        (m, 3). NaN for a point that is not finite.
    """
    if isinstance(solid, TriangleMesh):
        return mesh_distance(solid, points)
    if isinstance(solid, Voxels):
        return box_distance(solid.boxes, points)
    kind = type_of(solid)
    sizes = kind.padded_sizes(solid).tolist()
    found = shapes.signed_distance(NUMPY, kind.shape, list(points.T), sizes)
    direction = np.empty((len(points), 3))
    for k in range(3):
        direction[:, k] = found.direction[k]
    return np.asarray(found.value - kind.rounding(solid)), direction
