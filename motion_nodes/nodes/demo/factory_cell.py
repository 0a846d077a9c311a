# SPDX-License-Identifier: Apache-2.0
"""The cell of the show "factory": four arms around a shared zone, and the fences between them.

Each arm plans within a fence: the wedge in front of its base, which is its own, and the zone in the
centre while it has the turn. The wedges do not overlap and the zone has one owner, so that plans
within the fences cannot collide. All numbers are in the base frame of an arm; the cell is the same
in each base frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Box
from motion_nodes.scene.scene import WorldObject, world_object
from motion_nodes.typing import Array

CENTRE = 0.68
"""Distance of the centre from each base [m]."""
ZONE = 0.21
"""Half side of the zone [m]."""
CUBE = 0.05
"""Side of a cube [m]."""
FENCES = ("closed_fence", "open_fence")
"""Names of the fence in planning scenes; the second one leaves the zone open."""
_HEIGHT, _THICKNESS, _LENGTH = 1.5, 0.02, 1.6
"""Dimensions of a wall [m]; arms reach neither over nor around it."""
LEFT, RIGHT = (0.38, 0.1), (0.38, -0.1)
"""Places for cubes in front of an arm, in its own wedge [m]."""
MIDDLE = (CENTRE, 0.0)
"""The centre of the zone [m]."""


@dataclass(frozen=True)
class FactoryArm:
    """An arm of the cell."""

    name: str
    angle: float
    """Its heading in the world [rad]; it faces the centre, the origin."""

    @property
    def word(self) -> str:
        """Namespace, robot and placement, as for ``motion up``."""
        x, y = (-CENTRE * f(self.angle) for f in (math.cos, math.sin))
        return f"{self.name}:=franka@{x:.6f},{y:.6f},{self.angle:.6f}"

    @property
    def X_WB(self) -> Array:
        """Pose of its base in the world, shape (4, 4)."""
        x, y = (-CENTRE * f(self.angle) for f in (math.cos, math.sin))
        return from_xyz_rpy((x, y, 0.0), (0.0, 0.0, self.angle))

    def cube_at(self, place: tuple[float, float]) -> Array:
        """Return the pose of a cube on the floor in the world, shape (4, 4).

        Args:
            place: x, y in the base frame [m].
        """
        return self.X_WB @ from_xyz_rpy((*place, 0.5 * CUBE))


ARMS = tuple(
    FactoryArm(name, 0.5 * math.pi * k) for k, name in enumerate(("west", "south", "east", "north"))
)
"""The arms, named by the side on which they stand."""


def fence(*, open_zone: bool) -> WorldObject:
    """Return the fence of an arm in its base frame.

    Args:
        open_zone: whether the arm may enter the zone.
    """
    front, back = CENTRE - ZONE, CENTRE + ZONE
    walls = [
        # Between the wedges: from the corners of the zone outwards.
        *(_wall((front, side * ZONE), side * 0.75 * math.pi, _LENGTH) for side in (1.0, -1.0)),
        # The other sides of the zone.
        *(_wall((front, side * ZONE), 0.0, 2.0 * ZONE) for side in (1.0, -1.0)),
        _wall((back, -ZONE), 0.5 * math.pi, 2.0 * ZONE),
    ]
    if not open_zone:
        walls.append(_wall((front, -ZONE), 0.5 * math.pi, 2.0 * ZONE))
    solids = tuple(Box((length, _THICKNESS, _HEIGHT)) for length, _ in walls)
    return world_object(
        FENCES[open_zone],
        solids,
        np.eye(4),
        poses=tuple(pose for _, pose in walls),
        rgba=(0.3, 0.5, 0.9, 0.12),
    )


def _wall(begin: tuple[float, float], heading: float, length: float) -> tuple[float, Array]:
    """Return the length and the pose of a wall that begins at a point."""
    x, y = (
        start + 0.5 * length * f(heading)
        for start, f in zip(begin, (math.cos, math.sin), strict=True)
    )
    return length, from_xyz_rpy((x, y, 0.5 * _HEIGHT), (0.0, 0.0, heading))
