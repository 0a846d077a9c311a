# SPDX-License-Identifier: Apache-2.0
"""Recent joint positions and velocities of a robot, for plots relative to their limits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.limits import JointLimits
from motion_nodes.typing import Array

WINDOW = 20.0
"""Length of the history [s]."""
PERIOD = 0.1
"""Min time between two samples [s]."""
QUANTITIES = ("position", "velocity")
ALL = "all, in % of their limits"
"""Selects all joints that have limits."""


@dataclass(frozen=True)
class Curves:
    """Data of a plot."""

    times: Array
    """Times relative to now, at most 0 [s], shape (m,)."""
    names: tuple[str, ...]
    """Joints."""
    values: tuple[Array, ...]
    """Values of each joint, shape (m,), in ``unit``."""
    limits: tuple[float, ...]
    """Limits in ``unit``; empty for a joint without limits."""
    unit: str
    """``rad``, ``m``, ``rad/s``, ``m/s`` or ``%``."""


class JointHistory:
    """A ring buffer of joint states; not thread-safe, the caller provides the time.

    Args:
        limits: of the joints.
        prismatic: whether each joint is prismatic, n values.
    """

    def __init__(self, limits: JointLimits, prismatic: tuple[bool, ...]) -> None:
        """Start empty."""
        self._limits, self._prismatic = limits, prismatic
        self._samples: deque[tuple[float, Array, Array]] = deque(maxlen=round(WINDOW / PERIOD))

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._samples)

    def add(self, now: float, q: Array, v: Array) -> None:
        """Add a sample; skipped if the last one is less than ``PERIOD`` old.

        Args:
            now: current time [s].
            q: positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).
        """
        if not self._samples or now - self._samples[-1][0] >= PERIOD:
            self._samples.append((now, q.copy(), v.copy()))

    def curves(self, now: float, quantity: str, joint: str) -> Curves:
        """Return the data of a plot.

        Args:
            now: current time [s].
            quantity: one of ``QUANTITIES``.
            joint: name of a joint, or ``ALL`` for those that have limits.
        """
        kept = [sample for sample in self._samples if now - sample[0] <= WINDOW]
        times = np.array([sample[0] - now for sample in kept])
        names, column = self._limits.names, 1 + QUANTITIES.index(quantity)
        values = np.array([sample[column] for sample in kept]).reshape(-1, len(names))
        low, high = self._bounds(quantity)
        if joint != ALL:
            i = names.index(joint)
            limits = tuple(float(x) for x in (low[i], high[i]) if np.isfinite(x))
            unit = "m" if self._prismatic[i] else "rad"
            unit += "/s" if quantity == "velocity" else ""
            return Curves(times, (joint,), (values[:, i],), limits, unit)
        with_limits = np.flatnonzero(np.isfinite(high - low) & (high > low))
        # Positions: 0 to 100 % of the range; velocities: -100 to 100 % of the limit.
        ends = (0.0, 100.0) if quantity == "position" else (-100.0, 100.0)
        share = (values - low) / np.where(high > low, high - low, 1.0)
        percent = ends[0] + (ends[1] - ends[0]) * share
        chosen = tuple(names[i] for i in with_limits)
        return Curves(times, chosen, tuple(percent[:, i] for i in with_limits), ends, "%")

    def _bounds(self, quantity: str) -> tuple[Array, Array]:
        if quantity == "position":
            return self._limits.lower, self._limits.upper
        return -self._limits.velocity, self._limits.velocity
