# SPDX-License-Identifier: Apache-2.0
"""The last seconds of a robot's joints, ready to be drawn against their limits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.model.tree import Array

WINDOW = 20.0
"""[s] So much is kept."""
PERIOD = 0.1
"""[s] Between two samples."""
QUANTITIES = ("position", "velocity")
ALL = "all, in % of their limits"


@dataclass(frozen=True)
class Curves:
    """What a plot shows."""

    times: Array
    """[s] Before now, so at most 0, shape (m,)."""
    names: tuple[str, ...]
    values: tuple[Array, ...]
    """One for each name, shape (m,)."""
    limits: tuple[float, ...]
    """Lines that must not be crossed; none where there is no limit."""
    unit: str


class JointHistory:
    """Keeps samples of joint states; the caller gives the time and takes care of threads.

    Args:
        limits: of the joints.
        slides: of each joint whether it slides, so that its unit is metre.
    """

    def __init__(self, limits: JointLimits, slides: tuple[bool, ...]) -> None:
        """Start empty."""
        self._limits, self._slides = limits, slides
        self._samples: deque[tuple[float, Array, Array]] = deque(maxlen=round(WINDOW / PERIOD))

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._samples)

    def add(self, now: float, q: Array, v: Array) -> None:
        """Take positions and velocities, shape (n,) each, at a time [s]; too many are left out."""
        if not self._samples or now - self._samples[-1][0] >= PERIOD:
            self._samples.append((now, q.copy(), v.copy()))

    def curves(self, now: float, quantity: str, joint: str) -> Curves:
        """Return what to draw.

        Args:
            now: time [s].
            quantity: one of ``QUANTITIES``.
            joint: name of one, or ``ALL`` for those that have limits.
        """
        kept = [sample for sample in self._samples if now - sample[0] <= WINDOW]
        times = np.array([sample[0] - now for sample in kept])
        names, column = self._limits.names, 1 + QUANTITIES.index(quantity)
        values = np.array([sample[column] for sample in kept]).reshape(-1, len(names))
        low, high = self._bounds(quantity)
        if joint != ALL:
            i = names.index(joint)
            limits = tuple(float(x) for x in (low[i], high[i]) if np.isfinite(x))
            unit = "m" if self._slides[i] else "rad"
            unit += "/s" if quantity == "velocity" else ""
            return Curves(times, (joint,), (values[:, i],), limits, unit)
        with_limits = np.flatnonzero(np.isfinite(high - low) & (high > low))
        # Positions from 0 % to 100 % of their range, velocities from -100 % to 100 % of the limit.
        ends = (0.0, 100.0) if quantity == "position" else (-100.0, 100.0)
        share = (values - low) / np.where(high > low, high - low, 1.0)
        percent = ends[0] + (ends[1] - ends[0]) * share
        chosen = tuple(names[i] for i in with_limits)
        return Curves(times, chosen, tuple(percent[:, i] for i in with_limits), ends, "%")

    def _bounds(self, quantity: str) -> tuple[Array, Array]:
        if quantity == "position":
            return self._limits.lower, self._limits.upper
        return -self._limits.velocity, self._limits.velocity
