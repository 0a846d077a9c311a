# SPDX-License-Identifier: Apache-2.0
"""Random configurations of a chain, with features to find those close to a target."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.ik.chain import IkChain
from motion_nodes.kernels.ik.ik_memory import BLOCK, FEATURES
from motion_nodes.typing import Array

PIECE = 100
"""Blocks per piece of the table; each block gives one seed."""
_KEPT = 4
"""Number of stored pieces; further pieces are sampled each time."""


class StartTable:
    """Random configurations of a chain, sampled piece by piece on demand.

    Thread-safe: a piece that two threads create concurrently is the same.
    """

    def __init__(self, chain: IkChain, random_seed: int, sampling_order: int) -> None:
        self._chain = chain
        self._seed = random_seed
        self._order = sampling_order
        self._pieces: dict[int, tuple[Array, NDArray[np.float32]]] = {}
        self._low, self._high = _range(chain)

    def piece(self, index: int) -> tuple[Array, NDArray[np.float32]]:
        """Return configurations, shape (PIECE * BLOCK, n), and features, (PIECE, FEATURES, BLOCK).

        Source of the sampling: the mean of k uniform numbers (Irwin-Hall distribution), which for k
        = 2 is triangular.
        """
        piece = self._pieces.get(index)
        if piece is None:
            rng = np.random.default_rng([self._seed, index])
            count, n = PIECE * BLOCK, len(self._low)
            shares = rng.uniform(size=(self._order, count, n)).mean(axis=0)
            Q = self._low + shares * (self._high - self._low)
            X = self._chain.kinematics.pose_batch(Q, self._chain.tip)
            rows = np.empty((count, FEATURES))
            rows[:, 0] = np.einsum("ij,ij->i", X[:, :3, 3], X[:, :3, 3])
            rows[:, 1:4] = X[:, :3, 3]
            rows[:, 4:] = X[:, :3, :3].reshape(count, 9)
            blocks = rows.reshape(PIECE, BLOCK, FEATURES).transpose(0, 2, 1)
            piece = Q, np.ascontiguousarray(blocks, np.float32)
            if index < _KEPT:
                self._pieces[index] = piece
        return piece


def _range(chain: IkChain) -> tuple[Array, Array]:
    """Return the sampling range of each joint: within the limits, and within one turn."""
    centre, low, high = chain.centre, chain.lower.copy(), chain.upper.copy()
    turning = np.zeros(len(low), dtype=bool)
    turning[list(chain.turning)] = True
    low[turning], high[turning] = centre[turning] - math.pi, centre[turning] + math.pi
    # The rest: unlimited joints with relevant turns, and unlimited prismatic joints.
    low = np.where(np.isinf(low), centre - math.pi, low)
    return low, np.where(np.isinf(high), centre + math.pi, high)
