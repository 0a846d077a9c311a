# SPDX-License-Identifier: Apache-2.0
"""Checks that depths decrease along a path: of pairs in collision, of joints outside limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from motion_nodes.typing import Array

TOLERANCE = 1e-5
"""Max increase of a depth above its previous minimum [m or rad]."""
_FINER = 10
"""Ratio of the checker's resolution to the sampling step of a path."""

Depths = Callable[[Array], list[dict[object, float]]]
"""Maps configurations, shape (m, n), to the depths [m or rad] of all violations of each."""


class MonotonePath:
    """Tracks a path and stores the min depth of each pair or joint."""

    def __init__(self, depths: Depths, resolution: Array) -> None:
        """Create without a path.

        Args:
            depths: of configurations.
            resolution: max step of each joint between checks of a planner [rad or m], shape (n,).
        """
        self._depths, self._resolution = depths, resolution / _FINER
        self.depths: dict[object, float] = {}
        """Violations at the end of the path, with their min depths [m or rad]."""
        self.offender = ""
        """The violation with an increased depth, if :meth:`extend` was False."""

    def begin(self, q: Array) -> None:
        """Start a path at a configuration, shape (n,)."""
        self.depths = self._depths(q[np.newaxis])[0]

    def extend(self, a: Array, b: Array) -> bool:
        """Extend straight from ``a`` to ``b``, (n,) each; return whether no depth increases."""
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
