# SPDX-License-Identifier: Apache-2.0
"""Whether depths only decrease along a path: of pairs in collision, of joints outside limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.model.tree import Array

TOLERANCE = 1e-5
"""[m or rad] By which a depth may exceed the least it had before."""
_FINER = 10
"""How many times finer than the checker's resolution a path is sampled."""

Depths = Callable[[Array], list[dict[object, float]]]
"""Given configurations, shape (m, n), returns of each the depth [m or rad] of all that is wrong."""


class MonotonePath:
    """Follows a path and keeps the least depth of each pair or joint so far."""

    def __init__(self, depths: Depths, resolution: Array) -> None:
        """Begin nowhere.

        Args:
            depths: of configurations.
            resolution: step of each joint between two checks of a planner [rad or m], shape (n,).
        """
        self._depths, self._resolution = depths, resolution / _FINER
        self.depths: dict[object, float] = {}
        """What is still wrong at the end of the path so far, and its least depth [m or rad]."""
        self.offender = ""
        """What got deeper, where :meth:`extend` was False."""

    def begin(self, q: Array) -> None:
        """Start a path at a configuration, shape (n,)."""
        self.depths = self._depths(q[np.newaxis])[0]

    def extend(self, a: Array, b: Array) -> bool:
        """Go straight from ``a`` to ``b``, and return whether no depth increases on the way."""
        count = max(1, int(np.ceil(np.linalg.norm((b - a) / self._resolution))))
        shares = np.arange(1, count + 1)[:, np.newaxis] / count
        for first in range(0, count, 16):
            for found in self._depths(a + shares[first : first + 16] * (b - a)):
                if not self._take(found):
                    return False
        return True

    def _take(self, found: dict[object, float]) -> bool:
        for what, depth in found.items():
            if depth > self.depths.get(what, 0.0) + TOLERANCE:
                self.offender = " and ".join(what) if isinstance(what, tuple) else str(what)
                return False
        self.depths = {
            what: min(depth, self.depths.get(what, 0.0)) for what, depth in found.items()
        }
        return True


def limit_excess(limits: JointLimits, q: Array) -> Array:
    """Return how far joints are outside their limits [rad or m], 0 inside, shape like ``q``."""
    return np.asarray(np.maximum(np.maximum(limits.lower - q, q - limits.upper), 0.0))
