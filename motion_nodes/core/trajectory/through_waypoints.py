# SPDX-License-Identifier: Apache-2.0
"""Motions through joint waypoints by a named method, with limits and parameters set by name.

Cubic splines over time are scaled until a limit is reached. This is the meaning of time-optimal in
Isaac Sim's joint-space generator (Lula): at some time a velocity, an acceleration or a jerk is at
its limit. The settings have its names and the documented meaning; the computation is our own. The
fastest motion along the spline is
:func:`motion_nodes.core.trajectory.time_parameterization.time_optimal`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_path import (
    CornerBlending,
    JointPath,
    blended_path,
    checked_waypoints,
)
from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.spline import (
    SPLIT_METHODS,
    cubic_use,
    over_time,
    position_excess,
    segment_shares,
    spline_path,
    timestamped_trajectory,
)
from motion_nodes.core.trajectory.time_parameterization import (
    distinct_waypoints,
    scaled_limits,
    time_optimal,
    within_limits,
)
from motion_nodes.core.trajectory.timed_path import LimitUse, PathEfforts, TimedPath
from motion_nodes.core.trajectory.trajectory_checks import check_point_count
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import EXACT_RATIO
from motion_nodes.typing import Array

_SHORTEST_SHARE = 0.5
"""Min factor by which a segment is shortened at once, because its neighbours are affected, too."""
METHODS = ("time_optimal", "lines", "saturation")
GENERATOR_METHODS = ("time_optimal", "saturation")
"""Methods whose motions pass through all waypoints."""


@dataclass(frozen=True)
class SaturationSettings:
    """Settings of the saturation method."""

    max_segment_iterations: int = setting(
        5,
        doc="Max number of iterations per round that shorten single segments; 0: none.",
        ge=0,
        le=10_000,
    )
    max_aggregate_iterations: int = setting(
        50, doc="Max number of rounds; at least one iteration is made.", ge=0, le=10_000
    )
    convergence_dt: float = setting(
        0.001,
        doc="Reduction of the duration below which the iterations end; 0: never.",
        unit="s",
        ge=0.0,
        le=10.0,
    )
    max_dilation_iterations: int = setting(
        100,
        doc="Max number of dilations of the whole trajectory until all limits are "
        "respected; 0: none.",
        ge=0,
        le=10_000,
    )
    dilation_dt: float = setting(
        0.001, doc="Increase of the duration per dilation.", unit="s", ge=0.0, le=10.0
    )
    min_time_span: float = setting(
        0.01, doc="Min time between two waypoints.", unit="s", ge=0.0, le=10.0
    )
    time_split_method: str = setting(
        "uniform", doc="Initial distribution of time among the segments.", one_of=SPLIT_METHODS
    )

    def __post_init__(self) -> None:
        """Validate all values."""
        check_settings(self)
        if self.max_segment_iterations + self.max_aggregate_iterations < 1:
            raise InvalidConfig(
                "max_segment_iterations and max_aggregate_iterations are both 0; at least one "
                "iteration is needed"
            )


def saturated_spline(
    points: Array, limits: JointLimits, settings: SaturationSettings | None = None
) -> TimedPath | None:
    """Return a cubic spline over time, at rest at both ends, that reaches a limit.

    Args:
        points: waypoints, consecutive ones distinct, shape (k, n).
        limits: of the n joints; may be infinite.
        settings: None: the defaults of Lula.

    Returns:
        The trajectory, or None if the settings did not permit to satisfy the limits.
    """
    given = SaturationSettings() if settings is None else settings
    shares = segment_shares(points, given.time_split_method)
    best = _saturated(points, np.maximum(shares, 1e-9), limits, given)
    for _ in range(int(given.max_aggregate_iterations)):
        spans = np.diff(best.breaks)
        for _ in range(int(given.max_segment_iterations)):
            use = _needed_stretch(cubic_use(_spline(points, spans, limits), limits))
            spans = np.maximum(spans * np.clip(use, _SHORTEST_SHARE, 1.0), given.min_time_span)
        faster = _saturated(points, spans, limits, given)
        gain = best.length - faster.length
        if gain > 0.0:
            best = faster
        if gain < given.convergence_dt:
            break
    return _dilated(best, points, limits, given)


def _spline(points: Array, spans: Array, limits: JointLimits) -> JointPath:
    return spline_path(limits.names, points, spans, at_rest=True)


def _needed_stretch(use: Array) -> Array:
    """Return the factor by which each segment would have to be stretched to be at its limit."""
    return np.asarray([LimitUse(*row).stretch for row in use.tolist()])


def _saturated(
    points: Array, spans: Array, limits: JointLimits, settings: SaturationSettings
) -> JointPath:
    """Return the spline, scaled globally to its limits."""
    stretch = float(_needed_stretch(cubic_use(_spline(points, spans, limits), limits)).max())
    return _spline(points, np.maximum(spans * stretch, settings.min_time_span), limits)


def _dilated(
    path: JointPath, points: Array, limits: JointLimits, settings: SaturationSettings
) -> TimedPath | None:
    """Return the trajectory, dilated if segments of min duration exceed a limit."""
    for k in range(int(settings.max_dilation_iterations) + 1):
        stretch = float(_needed_stretch(cubic_use(path, limits)).max())
        if stretch <= 1.0 + EXACT_RATIO:
            return over_time(path)
        if k > 0:
            stretch = max(stretch, 1.0 + settings.dilation_dt / path.length)
        path = _spline(points, np.diff(path.breaks) * stretch, limits)
    return None


@dataclass(frozen=True)
class WaypointOptions:
    """Method and options for a motion through waypoints."""

    method: str = "time_optimal"
    """``time_optimal``: time-optimal along a spline through the waypoints; ``lines``: the same
    along straight lines with blended corners; ``saturation``: a cubic spline over time that reaches
    a limit somewhere."""
    jerk_limited: bool = True
    """Whether jerk limits are respected, if there are any."""
    velocity_scaling: float = 1.0
    """Velocity scaling factor, above 0 to 1; 0 means 1."""
    acceleration_scaling: float = 1.0
    """Scaling factor of acceleration and jerk limits; 0 means 1."""
    blending: CornerBlending = field(default_factory=CornerBlending)
    """Blending of the corners between lines."""
    saturation: SaturationSettings = field(default_factory=SaturationSettings)
    """Settings of the method of that name."""
    efforts: PathEfforts | None = None
    """Effort limits; not considered by the saturation method."""

    def __post_init__(self) -> None:
        """Raise an error for an unknown method."""
        if self.method not in METHODS:
            raise InvalidConfig(
                f"method '{self.method}'.{did_you_mean(self.method, METHODS)}", field="method"
            )


def through_waypoints(points: Array, limits: JointLimits, options: WaypointOptions) -> TimedPath:
    """Return the motion through waypoints, at rest at both ends.

    Args:
        points: finite, shape (k, n), k >= 2; repeated ones are skipped.
        limits: of the n joints.
        options: the method and its options.

    Raises:
        Infeasible: waypoints, or a spline between them, outside the limits; no motion.
        InvalidConfig: a limit that is missing or not positive, or a scaling factor out of range.
    """
    points = within_limits(points, limits)
    points = distinct_waypoints(points)
    scaled = scaled_limits(
        limits,
        options.velocity_scaling,
        options.acceleration_scaling,
        options.jerk_limited,
        accelerations_needed=options.method != "saturation",
    )
    if options.method == "lines":
        lines = blended_path(limits.names, points, scaled.velocity, options.blending)
        return time_optimal(lines, scaled, efforts=options.efforts)
    if options.method == "saturation":
        motion = saturated_spline(points, scaled, options.saturation)
        if motion is None:
            raise Infeasible(
                "no spline within the limits was found in "
                f"{options.saturation.max_dilation_iterations} dilations"
            )
    else:
        shares = segment_shares(points, "centripetal", scaled.velocity)
        path = spline_path(limits.names, points, shares)
        motion = time_optimal(path, scaled, efforts=options.efforts)
    problem = position_excess(motion.path, limits)
    if problem is not None:
        raise Infeasible(problem + "; use more closely spaced waypoints there")
    return motion


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
                :class:`WaypointOptions`.

        Raises:
            InvalidConfig: unknown method.
        """
        if method not in GENERATOR_METHODS:
            raise InvalidConfig(f"method '{method}'.{did_you_mean(method, GENERATOR_METHODS)}")
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
                :class:`SaturationSettings`.
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
