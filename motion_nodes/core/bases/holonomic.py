# SPDX-License-Identifier: Apache-2.0
"""Holonomic bases: any number of omni and mecanum wheels at any positions.

The layout of the wheels determines which motions are infeasible. Wheel velocities are computed by
inverse kinematics, or by Isaac Sim's quadratic program in closed form; the open-loop drive has
Isaac Sim's inputs.
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
    bound_above_zero,
    check_finite,
    check_wheel_count,
)
from motion_nodes.core.bases.twist_limiter import CommandShape
from motion_nodes.core.robot.poses import from_xyz_quat, rotation_about
from motion_nodes.core.robot.robot_yaml import ROLLER_ANGLE, ROLLER_WHEEL_RADIUS
from motion_nodes.errors import InvalidCommand, InvalidConfig, did_you_mean
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
        self._nearest = self.layout.nearest
        self._forward = self._nearest @ driven @ np.linalg.pinv(self._inverse @ driven)

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
        """Return the closest feasible twist.

        Raises:
            InvalidCommand: a twist that is not finite.
        """
        check_finite(twist)
        return projected(twist, self._nearest) if self.layout.undriven.size else twist

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


MIRRORED_YAW = np.array((1.0, 1.0, -1.0))
"""The program uses the lever arm with the opposite sign, which inverts yaw."""


class HolonomicQpBase(HolonomicBase):
    """Min wheel velocities whose forces along x, y and about the middle add up to the twist.

    ::

        minimise  x' P x / 2,  P = diag(r) / |r|
        subject to  A x = (vx, vy, wz),  column i of A: r_i (t_x, t_y, t_x p_y - t_y p_x)

    with ``r``, ``t`` and ``p`` as in :class:`~motion_nodes.core.bases.holonomic.HolonomicBase`. Its
    optimum is linear in the twist, so one matrix solves it: exactly, and in microseconds.

    It treats wheel velocities as forces and does not satisfy rolling without slip. Three omni
    wheels at 120 degrees drive at two thirds of the commanded velocity, and yaw in the wrong
    direction. Use it only to reproduce Isaac Sim. :meth:`twist_from_wheels` assumes rolling wheels,
    so odometry is correct.

    Source: KKT conditions of an equality-constrained quadratic program (Boyd and Vandenberghe,
    Convex Optimization, 10.1.1): ``x = P^-1 A' (A P^-1 A')^-1 b``.
    """

    def __init__(self, config: HolonomicConfig) -> None:
        super().__init__(config)
        radii, layout = self.wheel_radii, self.layout
        self.constraint = self._sign * MIRRORED_YAW[:, None] * (radii[:, None] * layout.rows).T
        """``A``, shape (3, wheels)."""
        self.cost = radii / np.linalg.norm(radii)
        """Diagonal of ``P``, shape (wheels,)."""
        undriven = MIRRORED_YAW[:, None] * layout.undriven
        light = undriven / layout.weights[:, None]
        self._nearest = np.eye(3) - light @ np.linalg.solve(undriven.T @ light, undriven.T)
        # An orthonormal basis of the range of the constraints: the full space, for most bases.
        reach = np.linalg.svd(undriven)[0][:, undriven.shape[1] :]
        root = 1.0 / np.sqrt(self.cost)
        pinv = np.linalg.pinv(reach.T @ (self.constraint * root))
        self._inverse = root[:, None] * pinv @ reach.T


SOLVERS: dict[str, type[HolonomicBase]] = {"kinematic": HolonomicBase, "qp": HolonomicQpBase}
"""Class of each solver."""


class HolonomicDrive:
    """Wheel velocities directly from commands, without ramps and odometry."""

    def __init__(
        self,
        base: HolonomicBase,
        shape: CommandShape | None = None,
        max_wheel_speed: float = math.nan,
    ) -> None:
        """Create the drive.

        Args:
            base: its kinematics.
            shape: gains and velocity limits of the body; None: none.
            max_wheel_speed: max velocity of any wheel [rad/s]; faster commands are scaled as a
                whole. 0 or NaN: no limit.

        Raises:
            InvalidConfig: an infinite limit.
        """
        if math.isinf(max_wheel_speed):
            raise InvalidConfig(
                f"max_wheel_speed is {max_wheel_speed}; give a finite number, or 0 for no limit",
                field="max_wheel_speed",
            )
        self.base = base
        self.shape = shape or CommandShape()
        self._fastest = bound_above_zero(max_wheel_speed)

    def wheels(self, command: Sequence[float] | Array) -> Array:
        """Return wheel velocities [rad/s], shape (wheels,).

        Args:
            command: vx, vy [m/s] and wz [rad/s]; the infeasible component is dropped.

        Raises:
            InvalidCommand: wrong length, or a value that is not finite.
        """
        if len(command) != 3:
            raise InvalidCommand(
                f"{len(command)} values given; a command is vx, vy, wz", field="command"
            )
        twist = self.base.nearest_twist(Twist2(*map(float, command)))
        wheels = self.base.wheels_from_twist(self.shape.shaped(twist))
        fastest = float(np.abs(wheels).max())
        # Adding zero normalizes -0.0.
        return (wheels if fastest <= self._fastest else wheels * (self._fastest / fastest)) + 0.0


def wheels_from_arrays(
    wheel_radius: float | Sequence[float],
    wheel_positions: Sequence[Sequence[float]] | Array,
    wheel_orientations: Sequence[Sequence[float]] | Array,
    mecanum_angles: float | Sequence[float] = 90.0,
    wheel_axis: Sequence[float] = (1.0, 0.0, 0.0),
    up_axis: Sequence[float] = (0.0, 0.0, 1.0),
    names: Sequence[str] = (),
) -> tuple[HolonomicWheel, ...]:
    """Return wheels from arrays, as in Isaac Sim.

    Args:
        wheel_radius: radii [m], one for each wheel or one for all.
        wheel_positions: positions in the base frame [m], shape (wheels, 3).
        wheel_orientations: orientations in the base frame, quat_xyzw, shape (wheels, 4).
        mecanum_angles: roller angles [deg], one for each wheel or one for all.
        wheel_axis: spin axis in the wheel's own frame.
        up_axis: up direction in the base frame; the min rotation to z is applied to it and the
            other arguments.
        names: names of the wheels' joints; none: ``wheel_0`` and so on.

    Raises:
        InvalidConfig: inconsistent lengths, or invalid wheel parameters.
    """
    places = np.asarray(wheel_positions, dtype=np.float64)
    turns = np.asarray(wheel_orientations, dtype=np.float64)
    n = len(places)
    if places.shape != (n, 3) or turns.shape != (n, 4):
        raise InvalidConfig(
            f"wheel_positions of shape {places.shape} and wheel_orientations of shape "
            f"{turns.shape}; needed are (wheels, 3) and (wheels, 4)",
            field="wheel_positions" if places.shape != (n, 3) else "wheel_orientations",
        )
    radii = _for_each(wheel_radius, n, "wheel_radius")
    angles = _for_each(mecanum_angles, n, "mecanum_angles")
    names = tuple(names) or tuple(f"wheel_{i}" for i in range(n))
    if len(names) != n:
        raise InvalidConfig(f"{len(names)} names for {n} wheels", field="wheel_names")
    upright = _to_z(np.asarray(up_axis, dtype=np.float64))
    wheels = []
    for i, name in enumerate(names):
        try:
            turn = from_xyz_quat((0.0, 0.0, 0.0), turns[i])[:3, :3]
        except ValueError as error:
            raise InvalidConfig(
                f"wheel '{name}': wheel_orientations: {error}", field="wheel_orientations"
            ) from None
        x, y, _ = upright @ places[i]
        yaw = axis_yaw_of(upright @ turn @ np.asarray(wheel_axis, dtype=np.float64), name)
        wheels.append(
            HolonomicWheel(
                name=name,
                radius=float(radii[i]),
                x=float(x),
                y=float(y),
                axis_yaw=yaw,
                roller_angle_deg=float(angles[i]),
            )
        )
    return tuple(wheels)


def holonomic_base(config: HolonomicConfig, solver: str = "kinematic") -> HolonomicBase:
    """Return the base with a solver's wheel velocities.

    Raises:
        InvalidConfig: a solver that is not one of :data:`SOLVERS`.
    """
    if solver not in SOLVERS:
        raise InvalidConfig(f"solver '{solver}' is not known.{did_you_mean(solver, SOLVERS)}")
    return SOLVERS[solver](config)


def _for_each(values: float | Sequence[float], n: int, name: str) -> Array:
    """Return one value for each wheel."""
    given = np.asarray(values, dtype=np.float64).reshape(-1)
    if given.size not in (1, n):
        raise InvalidConfig(
            f"{name} has {given.size} entries for {n} wheels; give {n}, or 1 for all", field=name
        )
    return np.broadcast_to(given, (n,))


def _to_z(up: Array) -> Array:
    """Return the min rotation of an axis to z, shape (3, 3)."""
    length = float(np.linalg.norm(up)) if up.shape == (3,) else math.nan
    if not (math.isfinite(length) and length > 0.0):
        raise InvalidConfig(
            f"up_axis is {list(np.ravel(up))}; a direction such as (0, 0, 1) is needed",
            field="up_axis",
        )
    up = up / length
    # From straight down the rotation is not unique; use x.
    axis = np.array((up[1], -up[0], 0.0)) if math.hypot(up[0], up[1]) > 1e-9 else np.eye(3)[0]
    angle = math.atan2(math.hypot(up[0], up[1]), up[2])
    return rotation_about(axis / np.linalg.norm(axis), np.array(angle))
