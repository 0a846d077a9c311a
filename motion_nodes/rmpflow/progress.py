# SPDX-License-Identifier: Apache-2.0
"""Whether a policy gets on: it is stuck where the target comes hardly any nearer.

A reactive policy looks no further than its next step: a U-shaped obstacle holds it. Whoever watches
this can let a planner find the way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.tree import Array

_MARKS = 10  # errors that are kept in the time of patience
_STILL = 0.01  # [rad/s or m/s]
_STEADY = 2e-3  # [m, rad / 10]


@dataclass(frozen=True)
class StuckSettings:
    """When a policy counts as stuck."""

    patience: float = 1.5
    """How long hardly anything may get better [s]."""
    progress: float = 0.01
    """What must get better in that time, or more [m, rad / 10]."""
    tolerance: float = 0.01
    """Errors below this are an arrival [m, rad / 10]."""
    target_step: float = 0.02
    """A target that moves by more is a new one [m, rad / 10]."""

    def __post_init__(self) -> None:
        """Refuse times and lengths that are none."""
        for name in ("patience", "progress", "tolerance", "target_step"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise InvalidConfig(f"stuck.{name} is {value}; it must be above 0 and finite.")


class TargetProgress:
    """Watches the error of a policy: the least one now, and those some time ago."""

    def __init__(self, settings: StuckSettings | None = None) -> None:
        self.settings = settings or StuckSettings()
        self._marks: deque[float] = deque(maxlen=_MARKS)
        self.reset()

    def reset(self) -> None:
        """Begin anew, as after a new target."""
        self._target: Array | None = None
        self._restart()

    def _restart(self) -> None:
        self._best = np.inf
        self._marks.clear()
        self._since_mark = 0.0
        self.stuck = False
        """Whether the target came hardly any nearer for ``patience``."""

    def update(self, target: Array, error: float, dt: float) -> bool:
        """Return whether the policy is stuck, after a step.

        Args:
            target: numbers that tell where the target is; orientations count a tenth.
            error: how far the robot is from it, in the same measure.
            dt: length of the step [s].
        """
        s, known = self.settings, self._target
        if (
            known is None
            or known.shape != target.shape
            or (float(np.abs(target - known).max(initial=0.0)) > s.target_step)
        ):
            self._target = target.copy()
            self._restart()
        if error < s.tolerance:
            self._restart()
            return False
        self._best = min(self._best, error)
        if not self._marks:
            self._marks.append(self._best)
        self._since_mark += dt
        full = len(self._marks) == _MARKS
        if self._since_mark >= s.patience / _MARKS:
            self._since_mark = 0.0
            self.stuck = full and self._marks[0] - self._best < s.progress
            self._marks.append(self._best)
        return self.stuck


class Standstill:
    """Watches a robot that stands short of its target, as near as it may be: something holds it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew, as after an arrival."""
        self._error = np.inf
        self.lasts = 0.0
        """How long the robot has stood [s]."""

    def update(self, speed: float, error: float, dt: float) -> float:
        """Return how long the robot has stood, and its target with it [s].

        Args:
            speed: of the fastest joint [rad/s or m/s].
            error: how far the robot is from its target [m, rad / 10].
            dt: length of the step [s].
        """
        if speed > _STILL or not abs(error - self._error) < _STEADY:
            self._error, self.lasts = error, 0.0
        else:
            self.lasts += dt
        return self.lasts
