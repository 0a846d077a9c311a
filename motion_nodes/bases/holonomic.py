# SPDX-License-Identifier: Apache-2.0
"""Holonomic bases: any number of omni and mecanum wheels at any positions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.bases.base import NO_STEERING, Twist2, Unsteered, check_finite, check_wheel_count
from motion_nodes.bases.holonomic_layout import HolonomicWheel, WheelLayout, projected
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array


@dataclass(frozen=True, kw_only=True)
class HolonomicConfig:
    """Geometry of a holonomic base.

    Raises:
        InvalidConfig: no wheels, or conflicting wheels.
    """

    wheels: tuple[HolonomicWheel, ...]
    """Wheels, in the order of all wheel arrays."""
    left_handed: bool = False
    """Positive wheel velocities rotate against the right-hand rule, as in Isaac Sim."""

    def __post_init__(self) -> None:
        """Validate the layout."""
        _ = self.layout

    @functools.cached_property
    def layout(self) -> WheelLayout:
        """Feasible motions of the wheel layout."""
        return WheelLayout(self.wheels)


def moved(
    wheels: Sequence[HolonomicWheel], x: float, y: float, theta: float
) -> tuple[HolonomicWheel, ...]:
    """Return the same wheels in another frame.

    Args:
        wheels: wheels in their original frame.
        x: position of the other frame in the original one [m].
        y: position of the other frame in the original one [m].
        theta: its rotation [rad].

    Raises:
        InvalidConfig: values that are not finite.
    """
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(theta)):
        raise InvalidConfig(
            f"base_frame_offset is ({x}, {y}, {theta}); it must be finite",
            field="base_frame_offset",
        )
    c, s = math.cos(theta), math.sin(theta)
    return tuple(
        HolonomicWheel(
            name=wheel.name,
            radius=wheel.radius,
            x=c * (wheel.x - x) + s * (wheel.y - y),
            y=c * (wheel.y - y) - s * (wheel.x - x),
            axis_yaw=wheel.axis_yaw - theta,
            roller_angle_deg=wheel.roller_angle_deg,
        )
        for wheel in wheels
    )


class HolonomicBase(Unsteered):
    """Forward and inverse kinematics by rolling without slip along each roller's axis.

    With ``t`` the unit vector along the axis of the roller in contact with the floor, ``p`` the
    position of the wheel, ``r`` its radius and ``gamma`` the angle from spin axis to roller axis::

        omega = s (t . v + wz (p_x t_y - p_y t_x)) / (r sin gamma)

    ``s`` is -1 by the right-hand rule (a positive rotation about y drives along x) and +1 in Isaac
    Sim. Forward kinematics solve the same rows by least squares.

    Source: Lynch and Park, Modern Robotics, eq. 13.5 and 13.6, with the angle of the free rollers
    counted from the spin axis.
    """

    def __init__(self, config: HolonomicConfig) -> None:
        """Create from a validated configuration."""
        self.config = config
        self.layout = config.layout
        self._n = len(config.wheels)
        self._names = tuple(wheel.name for wheel in config.wheels)
        self._radii = np.array([wheel.radius for wheel in config.wheels])
        self._radii.setflags(write=False)
        push = np.array([wheel.radius * wheel.sine for wheel in config.wheels])
        self._sign = 1.0 if config.left_handed else -1.0
        self._inverse = self._sign * self.layout.rows / push[:, None]
        driven = self.layout.driven
        self._forward = self.layout.nearest @ driven @ np.linalg.pinv(self._inverse @ driven)

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Wheel joints in the order of the configuration."""
        return self._names

    @property
    def wheel_radii(self) -> Array:
        """Rolling radius of each wheel [m], shape (wheels,)."""
        return self._radii

    @property
    def impossible(self) -> tuple[str, ...]:
        """Infeasible motions of these wheels, as text; usually none."""
        return self.layout.impossible

    def nearest_twist(self, twist: Twist2) -> Twist2:
        """Return the twist without its infeasible component.

        Raises:
            InvalidCommand: a twist that is not finite.
        """
        check_finite(twist)
        return projected(twist, self.layout.nearest) if self.layout.undriven.size else twist

    def wheels_from_twist(self, twist: Twist2) -> Array:
        """Return wheel speeds [rad/s], shape (wheels,).

        Raises:
            InvalidCommand: for a twist that is not finite.
        """
        check_finite(twist)
        wheels: Array = self._inverse.dot(twist)
        return wheels

    def twist_from_wheels(
        self, wheels: Array | Sequence[float], steering: Array = NO_STEERING
    ) -> Twist2:
        """Return the least squares twist of wheel velocities [rad/s].

        Raises:
            InvalidCommand: wrong length.
        """
        check_wheel_count(wheels, self._n)
        return Twist2(*self._forward.dot(wheels).tolist())
