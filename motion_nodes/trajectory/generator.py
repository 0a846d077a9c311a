# SPDX-License-Identifier: Apache-2.0
"""Generator of trajectories through joint waypoints, with limits and parameters set by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.cubic_time_scaling import SaturationSettings
from motion_nodes.trajectory.joint_path import checked_waypoints
from motion_nodes.trajectory.spline import timestamped_trajectory
from motion_nodes.trajectory.through_waypoints import WaypointOptions, through_waypoints
from motion_nodes.trajectory.timed_path import TimedPath
from motion_nodes.trajectory.trajectory import Infeasible
from motion_nodes.trajectory.trajectory_checks import check_point_count
from motion_nodes.typing import Array

METHODS = ("time_optimal", "saturation")
"""Methods whose motions pass through all waypoints."""


class JointTrajectoryGenerator:
    """Generates trajectories for some joints of a robot, without executing them.

    Malformed requests raise an error; infeasible ones return None, with the reason in
    :attr:`failure`.
    """

    def __init__(self, limits: JointLimits, method: str = "time_optimal") -> None:
        """Create with a robot's limits.

        Args:
            limits: of the joints; velocities must be finite.
            method: ``time_optimal`` or ``saturation``, see
                :class:`~motion_nodes.trajectory.through_waypoints.WaypointOptions`.

        Raises:
            InvalidConfig: unknown method.
        """
        if method not in METHODS:
            raise InvalidConfig(f"method '{method}'.{did_you_mean(method, METHODS)}")
        self.method = method
        self.limits = limits
        self.settings = SaturationSettings()
        self.failure = ""
        """Why the last request returned None; empty on success."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints in the order of waypoints."""
        return self.limits.names

    def compute_c_space_trajectory(self, waypoints: ArrayLike) -> TimedPath | None:
        """Return the trajectory through all waypoints, at rest at both ends.

        Args:
            waypoints: shape (k, n), k >= 2; repeated ones are skipped.

        Returns:
            The trajectory, or None.

        Raises:
            InvalidCommand: waypoints of wrong shape or not finite.
            InvalidConfig: for the method ``time_optimal``, unlimited accelerations.
        """
        points = checked_waypoints(waypoints, self.limits.names, least=2)
        check_point_count(len(points))
        options = WaypointOptions(self.method, saturation=self.settings)
        return self._attempt(lambda: through_waypoints(points, self.limits, options))

    def compute_timestamped_c_space_trajectory(
        self, waypoints: ArrayLike, times: ArrayLike, interpolation_mode: str = "cubic_spline"
    ) -> TimedPath | None:
        """Return the trajectory that passes through each waypoint at its time, or None.

        Args:
            waypoints: shape (k, n), k >= 2.
            times: increasing [s], shape (k,).
            interpolation_mode: ``cubic_spline`` or ``linear``.
        """
        points = checked_waypoints(waypoints, self.limits.names, least=2)
        check_point_count(len(points))
        return self._attempt(
            lambda: timestamped_trajectory(points, times, self.limits, interpolation_mode)
        )

    def _attempt(self, make: Callable[[], TimedPath]) -> TimedPath | None:
        self.failure = ""
        try:
            return make()
        except Infeasible as error:
            self.failure = str(error)
            return None

    def set_c_space_position_limits(self, lower: ArrayLike, upper: ArrayLike) -> None:
        """Set position limits [rad or m], each of shape (n,)."""
        low, high = self._values("lower limits", lower), self._values("upper limits", upper)
        wrong = np.flatnonzero(~(low < high))
        if len(wrong):
            j = int(wrong[0])
            raise InvalidConfig(
                f"position limits of joint {self.joint_names[j]} are {low[j]} to {high[j]}; the "
                "lower must be less than the upper"
            )
        self.limits = dataclasses.replace(self.limits, lower=low, upper=high)

    def get_c_space_position_limits(self) -> tuple[Array, Array]:
        """Return lower and upper limits [rad or m], each of shape (n,)."""
        return self.limits.lower, self.limits.upper

    def set_c_space_velocity_limits(self, limits: ArrayLike) -> None:
        """Set velocity limits [rad/s or m/s], shape (n,), positive and finite."""
        values = self._positive("velocity", limits)
        if not np.isfinite(values).all():
            raise InvalidConfig("velocity limits must be finite")
        self.limits = dataclasses.replace(self.limits, velocity=values)

    def get_c_space_velocity_limits(self) -> Array:
        """Return velocity limits [rad/s or m/s], shape (n,)."""
        return self.limits.velocity

    def set_c_space_acceleration_limits(self, limits: ArrayLike) -> None:
        """Set acceleration limits [rad/s^2 or m/s^2], shape (n,), positive; infinite: none."""
        values = self._positive("acceleration", limits)
        self.limits = dataclasses.replace(self.limits, acceleration=values)

    def get_c_space_acceleration_limits(self) -> Array:
        """Return acceleration limits [rad/s^2 or m/s^2], shape (n,)."""
        return self.limits.acceleration

    def set_c_space_jerk_limits(self, limits: ArrayLike) -> None:
        """Set jerk limits [rad/s^3 or m/s^3], shape (n,), positive; infinite: none."""
        self.limits = dataclasses.replace(self.limits, jerk=self._positive("jerk", limits))

    def get_c_space_jerk_limits(self) -> Array:
        """Return jerk limits [rad/s^3 or m/s^3], shape (n,)."""
        return self.limits.jerk

    def set_solver_param(self, name: str, value: float | str) -> bool:
        """Set a parameter of the saturation method.

        Args:
            name: a field of
                :class:`~motion_nodes.trajectory.cubic_time_scaling.SaturationSettings`.
            value: its new value.

        Returns:
            Whether the parameter exists and the value is valid; if not, nothing changed.
        """
        if name not in {field.name for field in dataclasses.fields(self.settings)}:
            return False
        try:
            self.settings = SaturationSettings(
                **(dataclasses.asdict(self.settings) | {name: value})
            )
        except InvalidConfig:
            return False
        return True

    def _values(self, what: str, values: ArrayLike) -> Array:
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (len(self.joint_names),):
            raise InvalidConfig(
                f"{what} have shape {array.shape}; there are {len(self.joint_names)} joints: "
                f"{', '.join(self.joint_names)}"
            )
        return array

    def _positive(self, what: str, values: ArrayLike) -> Array:
        array = self._values(f"{what} limits", values)
        for name, value in zip(self.joint_names, array, strict=True):
            if math.isnan(value) or value <= 0.0:
                raise InvalidConfig(f"{what} limit of joint {name} is {value}; it must be above 0")
        return array
