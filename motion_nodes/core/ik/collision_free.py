# SPDX-License-Identifier: Apache-2.0
"""Collision checks of batches: spheres during the search, then exact geometry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array


class CollisionFree:
    """Accepts collision-free solutions; used by one batch at a time."""

    def __init__(self, checker: CollisionChecker, chain: IkChain) -> None:
        """Create.

        Args:
            checker: of the joints of the chain, in its scene.
            chain: the chain of the solutions.

        Raises:
            InvalidConfig: the checker has other joints than the chain.
        """
        if checker.joint_names != chain.joint_names:
            raise InvalidConfig(
                f"the checker has joints {', '.join(checker.joint_names)}, the chain "
                f"{', '.join(chain.joint_names)}."
            )
        self._checker = checker
        self._kernel = checker.kernel()  # keeps the memory at these addresses alive
        self.check, self.memory = self._kernel.state, self._kernel.memory

    def decide(self, Q: Array) -> NDArray[np.bool_]:
        """Return which configurations, shape (m, n), are collision-free for the exact geometry."""
        return self._checker.exact.are_free(Q)

    def validity(self, q: Array) -> bool:
        """Return whether a configuration, shape (n,), is collision-free for the exact geometry."""
        return self._checker.exact.is_free(q)
