# SPDX-License-Identifier: Apache-2.0
"""Planar poses."""

from __future__ import annotations

import math
from typing import NamedTuple

from motion_nodes.bases.odometry import wrap_angle


class Pose2(NamedTuple):
    """A planar pose; ``X_AB`` is the pose of B in A."""

    x: float = 0.0
    """[m]"""
    y: float = 0.0
    """[m]"""
    yaw: float = 0.0
    """[rad]"""

    @property
    def finite(self) -> bool:
        """True when no number is NaN or infinite."""
        return math.isfinite(self.x) and math.isfinite(self.y) and math.isfinite(self.yaw)

    def compose(self, X_BC: Pose2) -> Pose2:
        """Return ``X_AC`` for this pose ``X_AB``."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return Pose2(
            self.x + c * X_BC.x - s * X_BC.y,
            self.y + s * X_BC.x + c * X_BC.y,
            wrap_angle(self.yaw + X_BC.yaw),
        )

    def inverse(self) -> Pose2:
        """Return ``X_BA`` for this pose ``X_AB``."""
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return Pose2(-c * self.x - s * self.y, s * self.x - c * self.y, wrap_angle(-self.yaw))

    def distance(self, other: Pose2) -> float:
        """Return the distance to another position [m]."""
        return math.hypot(other.x - self.x, other.y - self.y)

    def bearing(self, other: Pose2) -> float:
        """Return the direction to another position, in the outer frame [rad]."""
        return math.atan2(other.y - self.y, other.x - self.x)
