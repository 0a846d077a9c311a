# SPDX-License-Identifier: Apache-2.0
"""Whether a measured position can follow from the last one, by the joint's velocity limit.

An encoder that slips, a second publisher or a mixed-up message reports positions that the joint
cannot have reached. Acting on them would be worse than not knowing: they are not used, and where
nothing plausible comes for long enough the state counts as lost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SPEED_FACTOR = 2.0
"""Max measured velocity as a multiple of the velocity limit."""
LATENESS = 0.05
"""Max delay of a message [s]."""
SLACK = 0.05
"""Position tolerance for noise, backlash and coarse encoders [rad or m]."""


class StatePlausibility:
    """Bounds the steps of measured positions of n joints."""

    def __init__(self, max_velocity: Array) -> None:
        """Create the check.

        Args:
            max_velocity: of the joints [rad/s or m/s], shape (n,); infinite for no check.
        """
        self._max_velocity = max_velocity

    def possible(
        self, joints: NDArray[np.intp], before: Array, after: Array, dt: Array
    ) -> NDArray[np.bool_]:
        """Return which joints can have moved from one position to another.

        Args:
            joints: indices, shape (k,).
            before: last accepted positions [rad or m], shape (k,); NaN where there is none.
            after: reported positions [rad or m], shape (k,).
            dt: time since the last accepted position was received [s], shape (k,).

        Returns:
            Mask of shape (k,).
        """
        reach = SLACK + SPEED_FACTOR * self._max_velocity[joints] * (dt + LATENESS)
        with np.errstate(invalid="ignore"):
            return ~(np.abs(after - before) > reach)
