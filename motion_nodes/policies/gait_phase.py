# SPDX-License-Identifier: Apache-2.0
"""Gait phases: walking policies may observe sines and cosines of the phases of two feet."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.typing import Array

STANDING = 0.01
"""Command below which the robot stands on both feet [m/s, rad/s]."""


class GaitPhase:
    """Phases of two feet, half a period apart; both are pi while the command is zero."""

    def __init__(self, step: float) -> None:
        """Start with the left foot.

        Args:
            step: change of the phases in one step of the policy [rad].
        """
        self._step = step
        self.reset()

    def reset(self) -> None:
        """Restart with the left foot's step."""
        self._phase = np.array([0.0, math.pi])
        self._standing = False

    def advance(self, command: ArrayLike) -> Array:
        """Return the phases of left and right foot [rad] for the next step, shape (2,).

        Args:
            command: vx, vy [m/s] and wz [rad/s], shape (3,).
        """
        vx, vy, wz = np.asarray(command, dtype=np.float64)
        if math.hypot(vx, vy) < STANDING and abs(wz) < STANDING:
            self._standing = True
            return np.full(2, math.pi)
        if self._standing:
            self.reset()
        else:
            self._phase = (self._phase + self._step + math.pi) % (2.0 * math.pi) - math.pi
        return self._phase.copy()
