# SPDX-License-Identifier: Apache-2.0
"""Cubic splines over time, scaled until a limit is reached.

This is the meaning of time-optimal in Isaac Sim's joint-space generator (Lula): at some time a
velocity, an acceleration or a jerk is at its limit. The settings have its names and the documented
meaning; the computation is our own. The fastest motion along the spline is
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
"""Min factor by which a segment is shortened at once, because its neighbours are affected, too."""


@dataclass(frozen=True)
class SaturationSettings:
    """Settings of the saturation method."""

    max_segment_iterations: int = 5
    """Iterations per round in which segments with slack are shortened individually."""
    max_aggregate_iterations: int = 50
    """Max number of rounds: individual segments, then a global scaling to the limits."""
    convergence_dt: float = 0.001
    """Min improvement per round [s]."""
    max_dilation_iterations: int = 100
    """Max number of final dilations until all limits are satisfied."""
    dilation_dt: float = 0.001
    """Min dilation, if the exact one was not enough [s]."""
    min_time_span: float = 0.01
    """Min time between two waypoints [s]."""
    time_split_method: str = "uniform"
    """Initial distribution of the time: uniform, chord_length or centripetal."""

    def __post_init__(self) -> None:
        """Validate all values."""
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
        if stretch <= 1.0 + _ROUNDING:
            return over_time(path)
        if k > 0:
            stretch = max(stretch, 1.0 + settings.dilation_dt / path.length)
        path = _spline(points, np.diff(path.breaks) * stretch, limits)
    return None
