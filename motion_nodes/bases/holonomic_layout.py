# SPDX-License-Identifier: Apache-2.0
"""Wheel layout of a holonomic base, and its infeasible motions."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.bases.base import Twist2
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.base_settings import ROLLER_ANGLE, ROLLER_WHEEL_RADIUS
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.typing import Array

ROLLERS_ALONG_AXIS = 1e-3
"""Sine of the roller angle below which a wheel transmits no force."""
UPRIGHT_AXIS = 0.5
"""Min horizontal component of a wheel's axis (0.5: 60 degrees of tilt)."""
SAME_PLACE = 1e-6
"""Min distance between two wheels [m]."""
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
            if math.hypot(wheel.x - other.x, wheel.y - other.y) < SAME_PLACE:
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
