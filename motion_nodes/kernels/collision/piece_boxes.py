# SPDX-License-Identifier: Apache-2.0
"""Axis-aligned boxes around convex pieces."""

from __future__ import annotations

import math

from motion_nodes.kernels.collision.piece_arrays import BOX, CONE, CYLINDER, HALF_SPACE, POINTS
from motion_nodes.kernels.jit import kernel
from motion_nodes.typing import Array, IndexArray


@kernel
def piece_boxes(
    kind: IndexArray, size: Array, X: Array, first: IndexArray, points: Array, boxes: Array
) -> None:
    """Write the box of each piece: min and max x y z [m], shape (k, 6).

    Args:
        kind: and further arguments as those of :class:`~.piece_arrays.Pieces`.
        size: of each core, and its rounding radius.
        X: poses.
        first: first point of each piece, and the total.
        points: in the frames of their pieces.
        boxes: result.
    """
    for k in range(len(kind)):
        for axis in range(3):
            x, y, z, t = X[k, axis, 0], X[k, axis, 1], X[k, axis, 2], X[k, axis, 3]
            low = high = 0.0
            if kind[k] == POINTS:
                low, high = math.inf, -math.inf
                for i in range(first[k], first[k + 1]):
                    reach = x * points[i, 0] + y * points[i, 1] + z * points[i, 2]
                    low, high = min(low, reach), max(high, reach)
            elif kind[k] == BOX:
                high = abs(x) * size[k, 0] + abs(y) * size[k, 1] + abs(z) * size[k, 2]
                low = -high
            elif kind[k] == CYLINDER or kind[k] == CONE:
                # A disc with normal z reaches r sqrt(1 - z_i^2) along axis i.
                disc = size[k, 0] * math.sqrt(max(0.0, 1.0 - z * z))
                half = size[k, 1] * z
                top = 0.0 if kind[k] == CONE else disc  # an apex instead of a disc
                low, high = min(-half - disc, half - top), max(-half + disc, half + top)
            elif kind[k] == HALF_SPACE:
                low, high = -math.inf, math.inf
            boxes[k, axis] = t + low - size[k, 3]
            boxes[k, 3 + axis] = t + high + size[k, 3]
