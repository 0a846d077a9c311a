# SPDX-License-Identifier: Apache-2.0
"""Motions through joint waypoints, by a named method."""

from __future__ import annotations

from dataclasses import dataclass, field

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.blended_path import CornerBlending, blended_path
from motion_nodes.trajectory.cubic_time_scaling import SaturationSettings, saturated_spline
from motion_nodes.trajectory.path_efforts import PathEfforts
from motion_nodes.trajectory.spline import position_excess, segment_shares, spline_path
from motion_nodes.trajectory.time_parameterization import (
    distinct_waypoints,
    scaled_limits,
    time_optimal,
    within_limits,
)
from motion_nodes.trajectory.timed_path import TimedPath
from motion_nodes.trajectory.trajectory import Infeasible
from motion_nodes.typing import Array

METHODS = ("time_optimal", "lines", "saturation")


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
