# SPDX-License-Identifier: Apache-2.0
"""Whether a policy gets on: it is stuck where the target comes no nearer for a while.

A reactive policy looks no further than its next step: a U-shaped obstacle holds it. Whoever watches
this can let a planner find the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import BadConfig
from motion_nodes.model.tree import Array


@dataclass(frozen=True)
class StuckSettings:
    """When a policy counts as stuck."""

    patience: float = 1.5
    """How long nothing may get better [s]."""
    progress: float = 0.005
    """What counts as better: the error is less than ever before by this [m, rad / 10]."""
    tolerance: float = 0.01
    """Errors below this are an arrival [m, rad / 10]."""
    target_step: float = 0.02
    """A target that moves by more is a new one [m, rad / 10]."""

    def __post_init__(self) -> None:
        """Refuse times and lengths that are none."""
        for name in ("patience", "progress", "tolerance", "target_step"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise BadConfig(f"stuck.{name} is {value}; it must be above 0 and finite.")


class Progress:
    """Watches the error of a policy."""

    def __init__(self, settings: StuckSettings | None = None) -> None:
        self.settings = settings or StuckSettings()
        self.reset()

    def reset(self) -> None:
        """Begin anew, as after a new target."""
        self._target: Array | None = None
        self._best = np.inf
        self._waited = 0.0

    @property
    def stuck(self) -> bool:
        """Whether the target came no nearer for longer than ``patience``."""
        return self._waited >= self.settings.patience

    def update(self, target: Array, error: float, dt: float) -> bool:
        """Return whether the policy is stuck, after a step.

        Args:
            target: numbers that tell where the target is; orientations count a tenth.
            error: how far the robot is from it, in the same measure.
            dt: length of the step [s].
        """
        s = self.settings
        known = self._target
        if (
            known is None
            or known.shape != target.shape
            or (float(np.abs(target - known).max(initial=0.0)) > s.target_step)
        ):
            self._target, self._best, self._waited = target.copy(), np.inf, 0.0
        if error < s.tolerance or error < self._best - s.progress:
            self._best, self._waited = error, 0.0
        else:
            self._waited += dt
        return self.stuck
