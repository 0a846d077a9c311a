# SPDX-License-Identifier: Apache-2.0
"""Self-collision avoidance, in compiled code on the memory of the generated code."""

from __future__ import annotations

import dataclasses

import numpy as np

from motion_nodes.kernels.rmp.rmp_memory import RmpModel, rmp_layout, sphere_places
from motion_nodes.kernels.rmp.rmp_self_collision import SelfTables, self_collision
from motion_nodes.model.rmpflow_settings import RmpflowSettings, SelfCollision
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.self_pairs import SelfSpheres

_PARAMETERS = len(dataclasses.fields(SelfCollision)) + 1


class SelfCollisionCode:
    """Adds the pairs of links to an evaluation. Importing this imports Numba."""

    def __init__(self, model: RmpModel, apart: SelfSpheres, memory: Array) -> None:
        """Set up the pairs of a robot; compiles the code, or loads it from the cache.

        Args:
            model: model of the generated code.
            apart: link pairs.
            memory: of the generated code.
        """
        self._tables = _tables(model, apart)
        self._memory = memory
        self._parameters = np.ones(_PARAMETERS)
        self.add()

    def set_settings(self, settings: RmpflowSettings) -> None:
        """Replace the parameters."""
        numbers = dataclasses.astuple(settings.self_collision_rmp)
        self._parameters[:] = [*numbers, settings.canonical_resolve.max_acceleration_norm]

    def add(self) -> float:
        """Add all pairs to the sums, solve again; return the min distance [m]."""
        return float(self_collision(self._memory, *self._tables, self._parameters))


def _tables(model: RmpModel, apart: SelfSpheres) -> SelfTables:
    at = rmp_layout(model)
    fields = ("position", "velocity", "bias", "columns", "M", "rhs", "qdd", "least_pivot")
    counts = (sphere_places(model)[2], apart.moving, model.active)
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
    return SelfTables(
        np.array([*(at[name] for name in fields), *counts], np.int64),
        np.ascontiguousarray(apart.spheres),
        np.array(pairs, np.int64).reshape(-1, 6),
        np.array(sizes, np.float64),
        np.array(paths, np.int64).reshape(-1, 3),
    )


def _size(spheres: Array) -> float:
    """Return the radius of a ball about the first sphere's centre that contains all [m]."""
    offsets = np.linalg.norm(spheres[:, :3] - spheres[0, :3], axis=1)
    return float((offsets + spheres[:, 3]).max())
