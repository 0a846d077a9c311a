# SPDX-License-Identifier: Apache-2.0
"""Velocity and acceleration scaling of the motions that are commanded on the page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import viser

from motion_nodes.extras.viewer.panel_style import keep_in_range, row_style

MIN_PERCENT, STEP_PERCENT = 1.0, 5.0
"""Smallest scaling factor, and the step of the arrows of its field [%]."""


@dataclass(frozen=True)
class MotionScaling:
    """Scaling factors as in MoveIt's requests, each above 0 to 1."""

    velocity: float = 1.0
    """Of the velocity limits."""
    acceleration: float = 1.0
    """Of the acceleration limits."""

    @property
    def full(self) -> bool:
        """Whether motions are not scaled."""
        return self.velocity >= 1.0 and self.acceleration >= 1.0


class ScalingPanel:
    """One pair of scaling factors for all robots, on one row that stays visible.

    Args:
        gui: viser's panel; elements are added to the active container.
    """

    def __init__(self, gui: viser.GuiApi) -> None:
        """Add the elements."""
        hint = "for plans and named states of all robots, as a part of the robot's limits."
        self.velocity = gui.add_number(
            "Velocity [%]", 100.0, min=MIN_PERCENT, max=100.0, step=STEP_PERCENT,
            hint=f"Velocity scaling {hint}",
        )  # fmt: skip
        self.acceleration = gui.add_number(
            "Accel. [%]", 100.0, min=MIN_PERCENT, max=100.0, step=STEP_PERCENT,
            hint=f"Acceleration scaling {hint}",
        )  # fmt: skip
        keep_in_range(self.velocity, self.acceleration)
        gui.add_html(row_style((self.velocity, self.acceleration)))

    @property
    def scaling(self) -> MotionScaling:
        """The factors; those of values that are out of range are bounded."""
        return MotionScaling(_factor(self.velocity.value), _factor(self.acceleration.value))


def _factor(percent: object) -> float:
    """Return the factor of a field's contents [%]; of contents that are no number, the smallest."""
    # While a number is typed, pages send what the field contains, such as 0 or an empty text.
    value = float(percent) if isinstance(percent, int | float) else math.nan
    if not math.isfinite(value):
        value = MIN_PERCENT
    return min(max(value, MIN_PERCENT), 100.0) / 100.0
