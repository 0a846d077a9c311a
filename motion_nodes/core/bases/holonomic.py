# SPDX-License-Identifier: Apache-2.0
"""Holonomic bases: any number of omni and mecanum wheels at any positions.

Wheel layout of a holonomic base, and its infeasible motions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.core.bases.base import (
    NO_STEERING,
    Twist2,
    Unsteered,
    check_finite,
    check_wheel_count,
)
from motion_nodes.core.robot.base_description import ROLLER_ANGLE, ROLLER_WHEEL_RADIUS
from motion_nodes.errors import InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import EQUAL_POINTS
from motion_nodes.typing import Array

ROLLERS_ALONG_AXIS = 1e-3
"""Sine of the roller angle below which a wheel transmits no force."""
UPRIGHT_AXIS = 0.5
"""Min horizontal component of a wheel's axis (0.5: 60 degrees of tilt)."""
UNFELT = 1e-3
"""Relative wheel motion below which a body motion counts as not driven; covers rounding errors of a
URDF."""


@dataclass(frozen=True, kw_only=True)
class HolonomicWheel:
    """An omni or mecanum wheel, in the frame of the base.

    Raises:
        InvalidConfig: a value that is not finite, a radius that is not positive, or rollers along
            the wheel's axis.
    """

    name: str
    """Name of its joint."""
    radius: float = ROLLER_WHEEL_RADIUS.field()
    x: float = setting(
        doc="x position of the wheel in the base frame.", unit="m", ge=-100.0, le=100.0
    )
    y: float = setting(
        doc="y position of the wheel in the base frame.", unit="m", ge=-100.0, le=100.0
    )
    axis_yaw: float = setting(
        doc="Yaw angle of the wheel axis in the base frame; pi/2 for a wheel that rolls forward at "
        "positive velocity.",
        unit="rad",
    )
    roller_angle_deg: float = ROLLER_ANGLE.field(90.0)

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_settings(self, f"wheel '{self.name}': ")
        if abs(self.sine) < ROLLERS_ALONG_AXIS:
            raise InvalidConfig(
                f"wheel '{self.name}': roller_angle_deg is {self.roller_angle_deg}; rollers along "
                "the wheel's axis push nothing. Omni wheels have 90, mecanum wheels mostly 45 or "
                "135"
            )

    @property
    def sine(self) -> float:
        """Sine of the roller angle: ratio of the rim's velocity along the roller to all of it."""
        return math.sin(math.radians(self.roller_angle_deg))

    @property
    def roller_row(self) -> tuple[float, float, float]:
        """Velocity along the roller's axis [m/s], per unit of vx, vy and wz, shape (3,)."""
        yaw = self.axis_yaw + math.radians(self.roller_angle_deg)
        c, s = math.cos(yaw), math.sin(yaw)
        return c, s, self.x * s - self.y * c


def axis_yaw_of(axis: Array, wheel: str) -> float:
    """Return the horizontal direction of a spin axis [rad].

    Args:
        axis: direction in the base frame, any length, shape (3,).
        wheel: its name, for errors.

    Raises:
        InvalidConfig: a nearly vertical axis.
    """
    length = float(np.linalg.norm(axis))
    flat = math.hypot(axis[0], axis[1])
    if not flat >= UPRIGHT_AXIS * length > 0.0:
        shown = ", ".join(f"{value:.4g}" for value in axis)
        raise InvalidConfig(
            f"wheel '{wheel}': its axis ({shown}) in the base frame is not horizontal enough "
            "for a wheel that rolls on the floor",
            field=wheel,
        )
    return math.atan2(axis[1], axis[0])


class WheelLayout:
    """Linear algebra of a wheel layout.

    A motion is a twist of the base; it is *driven* if it requires the rotation of a wheel. The null
    space of the roller rows contains the undriven motions, in which only rollers rotate.
    """

    def __init__(self, wheels: tuple[HolonomicWheel, ...]) -> None:
        """Compute the driven motions.

        Raises:
            InvalidConfig: no wheels, a duplicate name, or two wheels at the same position.
        """
        _check(wheels)
        rows = np.array([wheel.roller_row for wheel in wheels])
        places = np.array([(wheel.x, wheel.y) for wheel in wheels])
        middle = places.mean(axis=0)
        reach = math.sqrt(float(((places - middle) ** 2).sum(axis=1).mean())) or 1.0
        self.weights = np.array((1.0, 1.0, reach**2))
        """Weights of a squared twist, which make rotation comparable to translation, shape (3,)."""
        # About the middle of the wheels, in m/s, the rows are independent of the base frame.
        to_middle = np.array(((1.0, 0.0, -middle[1]), (0.0, 1.0, middle[0]), (0.0, 0.0, reach)))
        from_middle = np.linalg.inv(to_middle)
        _, felt, motions = np.linalg.svd(rows @ from_middle, full_matrices=True)
        rank = int((felt > UNFELT * felt[0]).sum())
        self.driven = from_middle @ motions[:rank].T
        """Basis of driven motions, shape (3, rank)."""
        self.undriven = from_middle @ motions[rank:].T
        """Basis of undriven motions, shape (3, 3 - rank)."""
        felt_part = self.driven @ motions[:rank] @ to_middle
        self.rows = rows if rank == 3 else rows @ felt_part
        """Velocity along each roller by twist, 0 for undriven motions, shape (wheels, 3)."""

    @functools.cached_property
    def nearest(self) -> Array:
        """Projection of a twist to the closest one without an undriven component, shape (3, 3)."""
        N, weighted = self.undriven, self.weights[:, None] * self.undriven
        return np.asarray(np.eye(3) - N @ np.linalg.solve(N.T @ weighted, weighted.T))

    @functools.cached_property
    def impossible(self) -> tuple[str, ...]:
        """The undriven motions as text; empty for a fully holonomic base."""
        N = self.undriven
        if N.shape[1] == 2:
            # Of two undriven motions one is a translation: the combination without yaw.
            a, b = N[2]
            N = np.column_stack((b * N[:, 0] - a * N[:, 1], a * N[:, 0] + b * N[:, 1]))
        return tuple(_in_words(motion) for motion in N.T)


def _check(wheels: tuple[HolonomicWheel, ...]) -> None:
    """Validate: at least one wheel, unique names, distinct positions."""
    if not wheels:
        raise InvalidConfig("a holonomic base needs at least one wheel")
    for i, wheel in enumerate(wheels):
        for other in wheels[:i]:
            if wheel.name == other.name:
                raise InvalidConfig(f"wheel joint '{wheel.name}' is named more than once")
            if math.hypot(wheel.x - other.x, wheel.y - other.y) < EQUAL_POINTS:
                raise InvalidConfig(
                    f"wheels '{other.name}' and '{wheel.name}' have the same position "
                    f"({wheel.x:g}, {wheel.y:g}) m; positions must differ"
                )


def _in_words(motion: Array) -> str:
    """Return an undriven motion as text."""
    vx, vy, wz = (float(value) for value in motion)
    speed = math.hypot(vx, vy)
    if abs(wz) > 1e-6 * speed:
        return f"turn about the point ({-vy / wz:.3g}, {vx / wz:.3g}) m"
    degrees = math.degrees(math.atan2(vy, vx)) % 180.0
    if min(degrees, 180.0 - degrees) < 0.5:
        return "drive forward"
    return "drive sideways" if abs(degrees - 90.0) < 0.5 else f"drive along {degrees:.0f} degrees"


def projected(twist: Twist2, matrix: Array) -> Twist2:
    """Return the projection of a twist, or the twist itself if equal up to rounding."""
    near, rounding = matrix @ twist, 1e-12 * max(map(abs, twist))
    if np.abs(near - twist).max() <= rounding:
        return twist
    return Twist2(*(float(value) if abs(value) > rounding else 0.0 for value in near))


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
