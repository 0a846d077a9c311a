# SPDX-License-Identifier: Apache-2.0
"""Cubic splines over time that are made faster until a limit is reached.

This is what Isaac Sim's joint-space generator (Lula) means by time-optimal: at some moment a
velocity, an acceleration or a jerk is at its limit. The settings carry its names; what each does is
told by its documentation, how it is computed is ours. The fastest motion along the spline is
:func:`motion_nodes.trajectory.time_parameterization.time_optimal`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.joint_path import JointPath
from motion_nodes.trajectory.spline import (
    SPLIT_METHODS,
    cubic_use,
    over_time,
    segment_shares,
    spline_path,
)
from motion_nodes.trajectory.timed_path import LimitUse, TimedPath

Array = NDArray[np.float64]

_ROUNDING = 1e-12
_SHORTEST_SHARE = 0.5
"""A segment is shortened to no less than this at once, for its neighbours feel it too."""


@dataclass(frozen=True)
class SaturationSettings:
    """Settings of the saturation method."""

    max_segment_iterations: int = 5
    """How often segments with room are shortened each by itself, per round."""
    max_aggregate_iterations: int = 50
    """Rounds: segments, then all together until a limit is reached."""
    convergence_dt: float = 0.001
    """[s] A round that gains less is the last."""
    max_dilation_iterations: int = 100
    """How often the whole may be stretched at the end until every limit is kept."""
    dilation_dt: float = 0.001
    """[s] Least stretch, where the exact one was not enough."""
    min_time_span: float = 0.01
    """[s] Least time between two waypoints."""
    time_split_method: str = "uniform"
    """How the time is shared out at first: uniform, chord_length or centripetal."""

    def __post_init__(self) -> None:
        """Check all values."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "time_split_method":
                if value not in SPLIT_METHODS:
                    raise InvalidConfig(f"{field.name} is {value!r}; allowed: {SPLIT_METHODS}")
            elif isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidConfig(f"{field.name} is {value!r}; it must be a number")
            elif not (math.isfinite(value) and value >= 0):
                raise InvalidConfig(f"{field.name} is {value}; it must be finite and at least 0")
            elif field.name.endswith("iterations") and value != int(value):
                raise InvalidConfig(f"{field.name} is {value}; it must be a whole number")
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
        points: waypoints, no two that follow each other equal, shape (k, n).
        limits: of the n joints; infinite ones are none.
        settings: None: those of the source.

    Returns:
        The trajectory, or None where the settings did not let it come within the limits.
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
    """Return by how much each segment would have to be stretched to be at its limit."""
    return np.asarray([LimitUse(*row).stretch for row in use.tolist()])


def _saturated(
    points: Array, spans: Array, limits: JointLimits, settings: SaturationSettings
) -> JointPath:
    """Return the spline stretched or shrunk as a whole until a limit is just reached."""
    stretch = float(_needed_stretch(cubic_use(_spline(points, spans, limits), limits)).max())
    return _spline(points, np.maximum(spans * stretch, settings.min_time_span), limits)


def _dilated(
    path: JointPath, points: Array, limits: JointLimits, settings: SaturationSettings
) -> TimedPath | None:
    """Return the trajectory, stretched where segments of least length left it beyond a limit."""
    for k in range(int(settings.max_dilation_iterations) + 1):
        stretch = float(_needed_stretch(cubic_use(path, limits)).max())
        if stretch <= 1.0 + _ROUNDING:
            return over_time(path)
        if k > 0:
            stretch = max(stretch, 1.0 + settings.dilation_dt / path.length)
        path = _spline(points, np.diff(path.breaks) * stretch, limits)
    return None
