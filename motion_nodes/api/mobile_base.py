# SPDX-License-Identifier: Apache-2.0
"""The wheeled base of a robot: inverse and forward kinematics, odometry and control."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.api.group_inputs import shape_of
from motion_nodes.bases.base import Twist2, WheeledBase
from motion_nodes.bases.base_limits import BaseLimits
from motion_nodes.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.bases.odometry import Odometry
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array


class MobileBase:
    """Kinematics of a wheeled base. Twists are in the base frame: x forward, y left, z up."""

    kinematics: WheeledBase
    """Differential, holonomic or Ackermann kinematics, with further methods."""

    def __init__(self, kinematics: WheeledBase) -> None:
        """Wrap the kinematics of a base; usually ``load_robot(...).base``.

        Args:
            kinematics: kinematics of the base.
        """
        self.kinematics = kinematics

    def __repr__(self) -> str:
        """Return kind and wheels."""
        return f"MobileBase({type(self.kinematics).__name__}: {', '.join(self.wheel_names)})"

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Driven wheel joints, in the order of all wheel arrays."""
        return self.kinematics.wheel_names

    @property
    def steering_names(self) -> tuple[str, ...]:
        """Steering joints, in the order of all steering arrays."""
        return self.kinematics.steering_names

    def wheels_from_twist(self, vx: float = 0.0, vy: float = 0.0, wz: float = 0.0) -> Array:
        """Compute wheel velocities (inverse kinematics); no limits are applied.

        Args:
            vx: forward velocity [m/s].
            vy: velocity to the left [m/s]; ignored by bases that cannot move sideways.
            wz: yaw rate, counter-clockwise [rad/s].

        Returns:
            Wheel velocities [rad/s], shape (wheels,), in the order of ``wheel_names``.

        Raises:
            InvalidCommand: a number that is not finite.
        """
        return self.kinematics.wheels_from_twist(self._feasible(vx, vy, wz))

    def steering_from_twist(self, vx: float = 0.0, vy: float = 0.0, wz: float = 0.0) -> Array:
        """Compute the steering angles of a twist; no limit of the steering rate is applied.

        Args:
            vx: forward velocity [m/s].
            vy: velocity to the left [m/s]; ignored by bases that cannot move sideways.
            wz: yaw rate, counter-clockwise [rad/s].

        Returns:
            Steering angles [rad], shape (steering joints,), in the order of ``steering_names``;
            empty for a base without steering.

        Raises:
            InvalidCommand: a number that is not finite.
        """
        at_rest = np.zeros(len(self.steering_names))
        return self.kinematics.steer(self._feasible(vx, vy, wz), at_rest, 1e6)

    def twist_from_wheels(self, wheels: ArrayLike, steering: ArrayLike | None = None) -> Twist2:
        """Compute the twist of the base from wheel velocities (forward kinematics).

        Args:
            wheels: wheel velocities [rad/s], shape (wheels,); wheel displacements [rad] give the
                displacement of the base instead.
            steering: steering angles [rad], shape (steering joints,); default: 0.

        Returns:
            Forward and lateral velocity [m/s] and yaw rate [rad/s] in the base frame.

        Raises:
            InvalidCommand: wrong length, or numbers that are not finite.
        """
        angles = np.zeros(len(self.steering_names)) if steering is None else steering
        speeds = _checked(wheels, self.wheel_names, "wheel velocities")
        return self.kinematics.twist_from_wheels(
            speeds, _checked(angles, self.steering_names, "steering angles")
        )

    def odometry(self) -> Odometry:
        """Return odometry at the origin; ``odometry.advance(path, dt)`` integrates a motion."""
        return Odometry()

    def controller(self, limits: BaseLimits) -> BaseController:
        """Return a controller from twist commands to limited wheel velocities, with odometry.

        Args:
            limits: limits of body and wheels.

        Returns:
            A controller; call ``command(twist, now)`` for each command, and ``step(now, dt)`` and
            ``measure(wheels, dt)`` in each cycle.
        """
        return BaseController(self.kinematics, BaseControllerConfig(limits=limits))

    def _feasible(self, vx: float, vy: float, wz: float) -> Twist2:
        return self.kinematics.nearest_twist(Twist2(float(vx), float(vy), float(wz)))


def _checked(values: ArrayLike, names: tuple[str, ...], what: str) -> Array:
    good = shape_of(values) == (len(names),)
    array = np.asarray(values if good else np.nan, dtype=np.float64)
    if not np.isfinite(array).all():
        raise InvalidCommand(
            f"{what} must be {len(names)} finite numbers ({', '.join(names)}), got {values!r:.80}.",
            field=what,
        )
    return array
