# SPDX-License-Identifier: Apache-2.0
"""Open-loop holonomic drive: gains, velocity limits, wheel velocities; Isaac Sim's inputs.

Wheel velocities of a holonomic base by Isaac Sim's quadratic program, solved in closed
form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from motion_nodes.core.bases.base import Twist2, bound_above_zero, check_finite
from motion_nodes.core.bases.holonomic import (
    HolonomicBase,
    HolonomicConfig,
    HolonomicWheel,
    axis_yaw_of,
    projected,
)
from motion_nodes.core.bases.twist_limiter import CommandShape
from motion_nodes.core.robot.poses import from_xyz_quat, rotation_about
from motion_nodes.errors import InvalidCommand, InvalidConfig, did_you_mean
from motion_nodes.typing import Array

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
        """Create from a validated configuration."""
        super().__init__(config)
        radii, layout = self.wheel_radii, self.layout
        self.constraint = self._sign * MIRRORED_YAW[:, None] * (radii[:, None] * layout.rows).T
        """``A``, shape (3, wheels)."""
        self.cost = radii / np.linalg.norm(radii)
        """Diagonal of ``P``, shape (wheels,)."""
        undriven = MIRRORED_YAW[:, None] * layout.undriven
        light = undriven / layout.weights[:, None]
        self._feasible = np.eye(3) - light @ np.linalg.solve(undriven.T @ light, undriven.T)
        # An orthonormal basis of the range of the constraints: the full space, for most bases.
        reach = np.linalg.svd(undriven)[0][:, undriven.shape[1] :]
        root = 1.0 / np.sqrt(self.cost)
        self._solve = root[:, None] * np.linalg.pinv(reach.T @ (self.constraint * root)) @ reach.T

    def nearest_twist(self, twist: Twist2) -> Twist2:
        """Return the closest twist for which the program is feasible.

        Raises:
            InvalidCommand: a twist that is not finite.
        """
        check_finite(twist)
        return projected(twist, self._feasible) if self.layout.undriven.size else twist

    def wheels_from_twist(self, twist: Twist2) -> Array:
        """Return the optimum [rad/s], shape (wheels,).

        Raises:
            InvalidCommand: for a twist that is not finite.
        """
        check_finite(twist)
        wheels: Array = self._solve.dot(twist)
        return wheels


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
