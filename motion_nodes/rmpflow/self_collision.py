# SPDX-License-Identifier: Apache-2.0
"""Link pairs of self-collision avoidance as tables of the generated code."""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.rmp.rmp_memory import RmpModel
from motion_nodes.kernels.rmp.rmp_self_collision import LinkTables
from motion_nodes.rmpflow.self_pairs import SelfSpheres
from motion_nodes.typing import Array


def link_tables(model: RmpModel, apart: SelfSpheres) -> LinkTables:
    """Return the tables of a robot's link pairs."""
    column = {row: k for k, row in enumerate(model.moving_rows)}
    pairs: list[tuple[int, ...]] = []
    paths: list[tuple[int, ...]] = []
    sizes: list[float] = []
    for pair in apart.pairs:
        start = len(paths)
        for row, sign in pair.path:
            paths.append((column[row], int(model.arrays.q_index[row]), sign))
        pairs.append((*pair.a, *pair.b, start, len(paths)))
        sizes.append(sum(_size(apart.spheres[first:end]) for first, end in (pair.a, pair.b)))
    fixed = np.zeros((9, len(apart.spheres) - apart.moving))
    fixed[:3] = apart.spheres[apart.moving :, :3].T
    return LinkTables(
        np.array(pairs, np.int64).reshape(-1, 6),
        np.array(sizes, np.float64),
        np.array(paths, np.int64).reshape(-1, 3),
        apart.spheres[:, 3].copy(),
        fixed,
    )


def _size(spheres: Array) -> float:
    """Return the radius of a ball about the first sphere's centre that contains all [m]."""
    offsets = np.linalg.norm(spheres[:, :3] - spheres[0, :3], axis=1)
    return float((offsets + spheres[:, 3]).max())
