# SPDX-License-Identifier: Apache-2.0
"""The unit of the angles on the panel; all methods run on viser's event loop.

Only the panel converts: commands, states and the values that panels store are in radians.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import viser

RAD, DEG = "rad", "deg"
"""Units of angles."""


class AngleUnit:
    """Unit that all panels share."""

    def __init__(self) -> None:
        """Start with radians, the unit of ROS."""
        self.name = RAD
        """``rad`` or ``deg``."""
        self.on_change: list[Callable[[], None]] = []
        """Called when the unit has changed."""

    @property
    def per_radian(self) -> float:
        """Size of a radian in this unit."""
        return math.degrees(1.0) if self.name == DEG else 1.0

    def pick(self, in_rad: float, in_deg: float) -> float:
        """Return the value for the unit, such as a step, which is round in each of them."""
        return in_deg if self.name == DEG else in_rad

    def set(self, name: str) -> None:
        """Change the unit.

        Args:
            name: ``rad`` or ``deg``.
        """
        if name not in (RAD, DEG) or name == self.name:
            return
        self.name = name
        for call in self.on_change:
            call()


class AngleUnitChoice:
    """The choice of the unit, for all pages.

    Args:
        gui: viser's panel; the element is added to the active container.
        unit: the unit.
    """

    def __init__(self, gui: viser.GuiApi, unit: AngleUnit) -> None:
        """Add the element."""
        self._unit = unit
        self.box = gui.add_dropdown(
            "Angles", (RAD, DEG), hint="Unit of angles on the panel. Topics are in rad."
        )
        self.box.on_update(self._chosen)

    async def _chosen(self, _: viser.GuiEvent[viser.GuiDropdownHandle[str]]) -> None:
        self._unit.set(str(self.box.value))
