# SPDX-License-Identifier: Apache-2.0
"""The oracle of collision checks: the same checks in plain NumPy."""

import math

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.contacts import SphereDistances
from motion_nodes.typing import Array

_MOST_STEPS = 10_000_000


def edge_step_count(difference: Array, steps: Array) -> int | None:
    """Return the number of checked configurations of an edge; None if too long or not finite.

    The joints' steps add up like orthogonal vectors: single joints move a sphere by at most their
    step, and several joints rarely move it in the same direction.

    Args:
        difference: from start to end [rad or m], shape (n,).
        steps: max step of each joint [rad or m], shape (n,).
    """
    length = float(np.linalg.norm(difference / steps))
    if not length < _MOST_STEPS:
        return None
    return max(1, math.ceil(length))


class NumpyChecker(CollisionChecker):
    """A checker without generated code; hundreds of times slower."""

    def is_free(self, q: ArrayLike) -> bool:
        values = self._checked(q, 1)
        if not np.isfinite(values).all():
            return False
        return all(
            pair.distance >= self.required_distance((pair.first, pair.second)) + self.sphere_margin
            for pair in self._pairs(values, self.clearance + self.sphere_margin)
        )

    def are_free(self, Q: ArrayLike) -> Array:
        return np.array([self.is_free(q) for q in self._checked(Q, 2)], dtype=np.bool_)

    def edge_free(self, a: ArrayLike, b: ArrayLike) -> bool:
        start, end = self._checked(a, 1), self._checked(b, 1)
        count = edge_step_count(end - start, self.resolution)
        if count is None:
            return False
        # From coarse to fine, which finds obstacles in the middle early.
        order = sorted(range(1, count + 1), key=lambda k: (k & -k, k), reverse=True)
        return all(self.is_free(start + (k / count) * (end - start)) for k in order)

    def sphere_distances(self, q: ArrayLike) -> SphereDistances:
        placed = self._checks().place(self._poses(self._checked(q, 1)))
        distance, direction, names = self._checks().sphere_distances(placed)
        positions = np.concatenate(placed)[:, :3]
        return SphereDistances(distance, direction, positions, tuple(names))
