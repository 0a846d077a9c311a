# SPDX-License-Identifier: Apache-2.0
"""Known objects as obstacles of a mobile manipulator, at the heights of its base and arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.base_navigation.docking import OutlineLayer, outline_points
from motion_nodes.base_navigation.footprint import Footprint
from motion_nodes.base_navigation.robot_footprint import (
    carrier_footprint,
    footprint_of,
    solid_outline,
)
from motion_nodes.model.robot import Robot
from motion_nodes.tasks.world_state import WorldState

FLAT = 0.01
"""Max height of objects that wheels roll over [m]."""


@dataclass(frozen=True)
class DriveOutlines:
    """Outlines of one robot on the floor."""

    carrier: Footprint
    """Outline of the body that carries the arm."""
    home: Footprint
    """Outline of the whole robot in the home state."""

    @classmethod
    def of(cls, robot: Robot) -> DriveOutlines:
        """Return the outlines of a robot."""
        return cls(carrier_footprint(robot), footprint_of(robot))

    def around(self, state: WorldState) -> tuple[OutlineLayer, OutlineLayer]:
        """Return both outlines with the objects in their height ranges, without the held one.

        Args:
            state: with the objects in the base frame.
        """
        lower = [np.empty((0, 2))]
        higher = [np.empty((0, 2))]
        for item in state.objects.values():
            if item.name == state.held:
                continue
            for solid in item.solids:
                points = outline_points(solid_outline(solid.shape, solid.X_WO))
                if solid.top > self.carrier.floor + FLAT and solid.bottom < self.carrier.top:
                    lower.append(points)
                if solid.top > self.carrier.top and solid.bottom < self.home.top:
                    higher.append(points)
        return (
            OutlineLayer(self.carrier, np.concatenate(lower)),
            OutlineLayer(self.home, np.concatenate(higher)),
        )
