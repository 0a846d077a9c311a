# SPDX-License-Identifier: Apache-2.0
"""Running normalization of observations."""

from __future__ import annotations

import numpy as np

from motion_nodes.learning.mlp import Floats

CLIP = 10.0
"""Max magnitude of normalized observations."""
_EPS = 1e-8


class RunningNorm:
    """Mean and variance of all rows so far, in double precision.

    Batches are combined by the parallel algorithm of Chan, Golub and LeVeque (1979).
    """

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.mean = np.zeros(size)
        self.variance = np.ones(size)

    def update(self, rows: Floats) -> None:
        """Add rows, shape (m, size)."""
        m = float(len(rows))
        if not m:
            return
        rows = rows.astype(np.float64)
        mean, variance = rows.mean(axis=0), rows.var(axis=0)
        total, offset = self.count + m, mean - self.mean
        squares = self.variance * self.count + variance * m + offset**2 * (self.count * m / total)
        self.mean = self.mean + offset * (m / total)
        self.variance, self.count = squares / total, total

    @property
    def scale(self) -> Floats:
        """Standard deviations, at least 1e-4, shape (size,)."""
        return np.sqrt(self.variance + _EPS)

    def __call__(self, rows: Floats) -> Floats:
        """Return rows with zero mean and unit variance, clipped to ±10, as float32."""
        shift, scale = self.mean.astype(np.float32), self.scale.astype(np.float32)
        normal = (np.asarray(rows, np.float32) - shift) / scale
        return np.clip(normal, -CLIP, CLIP, out=normal)
