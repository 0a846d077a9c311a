# SPDX-License-Identifier: Apache-2.0
"""Drift of sampled quantities: slope per hour, its uncertainty, and extrapolation to a day."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WARM_UP = 0.2
"""Share of a run that is left out: caches fill, first plans are made."""
DAY = 24.0
"""[h]"""


@dataclass(frozen=True)
class Drift:
    """Least-squares line through the samples of one quantity."""

    first: float
    """Mean of the first tenth of the samples after the warm-up."""
    last: float
    """Mean of the last tenth."""
    per_hour: float
    """Slope."""
    error: float
    """Standard error of the slope, for independent residuals."""

    @property
    def in_a_day(self) -> float:
        """Value after 24 h on the line."""
        return self.last + DAY * self.per_hour


def drift_of(times: Sequence[float], values: Sequence[float]) -> Drift:
    """Return the drift of a quantity.

    Args:
        times: of the samples [s], increasing; at least four after the warm-up.
        values: of the quantity.

    Raises:
        ValueError: too few samples.
    """
    t = np.asarray(times, np.float64)
    v = np.asarray(values, np.float64)
    kept = t >= t[0] + WARM_UP * (t[-1] - t[0])
    t, v = (t[kept] - t[kept][0]) / 3600.0, v[kept]
    if len(t) < 4:
        raise ValueError(f"{len(t)} samples after the warm-up; at least 4 are needed")
    centred = t - t.mean()
    spread = float(centred @ centred)
    slope = float(centred @ v) / spread
    residuals = v - v.mean() - slope * centred
    error = float(np.sqrt(residuals @ residuals / (len(t) - 2) / spread))
    tenth = max(1, len(v) // 10)
    return Drift(float(v[:tenth].mean()), float(v[-tenth:].mean()), slope, error)
