# SPDX-License-Identifier: Apache-2.0
"""Differential drive: one or more wheels per side, all of a side with the same velocity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.bases.base import (
    NO_STEERING,
    Twist2,
    Unsteered,
    check_finite,
    check_wheel_count,
)
from motion_nodes.core.robot.bounds import repeated
from motion_nodes.core.robot.robot_yaml import WHEEL_RADIUS, WHEEL_SEPARATION
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array


@dataclass(frozen=True, kw_only=True)
class DifferentialConfig:
    """Geometry of a differential base; names as in ros2_controllers.

    Raises:
        InvalidConfig: a radius, separation or multiplier that is not positive, or no wheels.
    """

    left_wheel_names: tuple[str, ...] = setting(doc="Names of the left wheel joints.")
    right_wheel_names: tuple[str, ...] = setting(doc="Names of the right wheel joints.")
    wheel_radius: float = WHEEL_RADIUS.field()
    wheel_separation: float = WHEEL_SEPARATION.field()
    wheel_separation_multiplier: float = setting(
        1.0,
        doc="Calibration factor of wheel_separation, determined by turning in place.",
        gt=0.0,
        le=10.0,
    )
    left_wheel_radius_multiplier: float = setting(
        1.0, doc="Calibration factor of wheel_radius for the left wheels.", gt=0.0, le=10.0
    )
    right_wheel_radius_multiplier: float = setting(
        1.0, doc="Calibration factor of wheel_radius for the right wheels.", gt=0.0, le=10.0
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.left_wheel_names or not self.right_wheel_names:
            raise InvalidConfig("a differential base needs at least one wheel on each side")
        names = self.left_wheel_names + self.right_wheel_names
        twice = repeated(names)
        if twice:
            raise InvalidConfig(f"wheel joints {', '.join(twice)} are named more than once")


class DifferentialBase(Unsteered):
    """Forward and inverse kinematics of a differential drive.

    Source: rolling without slip at both contact points, ``omega r = vx -+ wz b/2``.
    """

    def __init__(self, config: DifferentialConfig) -> None:
        self.config = config
        self._separation = config.wheel_separation * config.wheel_separation_multiplier
        self._left_radius = config.wheel_radius * config.left_wheel_radius_multiplier
        self._right_radius = config.wheel_radius * config.right_wheel_radius_multiplier
        self._n_left = len(config.left_wheel_names)
        self._n = self._n_left + len(config.right_wheel_names)

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Left wheels, then right wheels."""
        return self.config.left_wheel_names + self.config.right_wheel_names

    @property
    def wheel_radii(self) -> Array:
        """Rolling radius of each wheel with its multiplier [m], shape (wheels,)."""
        return np.repeat(
            (self._left_radius, self._right_radius), (self._n_left, self._n - self._n_left)
        )

    def nearest_twist(self, twist: Twist2) -> Twist2:
        """Return the twist without its lateral component.

        Raises:
            InvalidCommand: a twist that is not finite.
        """
        check_finite(twist)
        return Twist2(twist.vx, 0.0, twist.wz)

    def wheels_from_twist(self, twist: Twist2) -> Array:
        """Return wheel velocities [rad/s], left wheels first, shape (wheels,).

        Raises:
            InvalidCommand: a twist that is not finite or has a lateral component.
        """
        check_finite(twist)
        if twist.vy != 0.0:
            raise InvalidCommand(f"vy is {twist.vy} m/s; a differential base cannot move sideways")
        half = 0.5 * self._separation * twist.wz
        wheels = np.empty(self._n)
        wheels[: self._n_left] = (twist.vx - half) / self._left_radius
        wheels[self._n_left :] = (twist.vx + half) / self._right_radius
        return wheels

    def twist_from_wheels(
        self, wheels: Array | Sequence[float], steering: Array = NO_STEERING
    ) -> Twist2:
        """Return the twist of wheel velocities [rad/s]; wheels of one side are averaged.

        Raises:
            InvalidCommand: wrong length.
        """
        check_wheel_count(wheels, self._n)
        k = self._n_left
        left = sum(wheels[:k]) / k * self._left_radius
        right = sum(wheels[k:]) / (self._n - k) * self._right_radius
        return Twist2(float(0.5 * (left + right)), 0.0, float((right - left) / self._separation))


def skidding_separation(x: ArrayLike, y: ArrayLike) -> float:
    """Return the wheel separation with which wheels that skid sideways in turns match the yaw rate.

    In a steady turn on the spot at a yaw rate of 1 the moments of friction cancel. A wheel at
    (x, y) on the side of y > 0 slips along by ``separation / 2 - y`` and across by x; of equal
    loads and isotropic Coulomb friction the sum of ``(y (separation / 2 - y) - x^2) / slip`` is 0.
    Four wheels at (+-x, +-y): ``2 y (1 + (x / y)^2)``.

    Args:
        x: position of each wheel along the direction of travel, from their centre [m], shape (n,).
        y: its position to the left, not 0 [m], shape (n,).

    Returns:
        The separation [m], at least the mean distance of both sides.
    """
    from scipy.optimize import brentq

    x, y = np.abs(np.asarray(x, np.float64)), np.abs(np.asarray(y, np.float64))

    def moment(separation: float) -> float:
        along = 0.5 * separation - y
        return float(((y * along - x**2) / np.hypot(along, x + 1e-9)).sum())

    least = 2.0 * float(y.mean())
    if moment(least) >= 0.0:
        return least
    most = 2.0 * float((y + x**2 / y).max())
    # Of equal wheels the root is at this end, up to rounding.
    return float(brentq(moment, least, most)) if moment(most) > 0.0 else most
