# SPDX-License-Identifier: Apache-2.0
"""Cubic splines over time, scaled until a limit is reached.

This is the meaning of time-optimal in Isaac Sim's joint-space generator (Lula): at some time a
velocity, an acceleration or a jerk is at its limit. The settings have its names and the documented
meaning; the computation is our own. The fastest motion along the spline is
:func:`motion_nodes.trajectory.time_parameterization.time_optimal`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.trajectory.joint_path import JointPath
from motion_nodes.trajectory.spline import (
    SPLIT_METHODS,
    cubic_use,
    over_time,
    segment_shares,
    spline_path,
)
from motion_nodes.trajectory.timed_path import LimitUse, TimedPath
from motion_nodes.typing import Array

_ROUNDING = 1e-12
_SHORTEST_SHARE = 0.5
"""Min factor by which a segment is shortened at once, because its neighbours are affected, too."""


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
        if stretch <= 1.0 + _ROUNDING:
            return over_time(path)
        if k > 0:
            stretch = max(stretch, 1.0 + settings.dilation_dt / path.length)
        path = _spline(points, np.diff(path.breaks) * stretch, limits)
    return None
