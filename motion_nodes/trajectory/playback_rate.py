# SPDX-License-Identifier: Apache-2.0
"""Playback rate at which a trajectory satisfies limits between its points, too.

Many generators satisfy acceleration limits at their points only: between two points whose
accelerations differ, the interpolation exceeds them. Slowing the whole trajectory down preserves
its path: at rate r, velocities are multiplied by r and accelerations by r^2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.limits import JointLimits
from motion_nodes.trajectory.joint_trajectory import (
    JointTrajectory,
    evaluate,
    polynomial_between,
)
from motion_nodes.typing import Array

ACCELERATION_TOLERANCE = 0.03
"""Relative tolerance of acceleration limits."""
VELOCITY_TOLERANCE = 1e-3
"""Relative tolerance of velocity limits."""
MIN_RATE = 0.5
"""Min playback rate; trajectories that need a lower one are followed with a lag."""
STANDING = 1e-3
"""Max velocity of a joint at rest [rad/s or m/s]."""
_PLACES = 17
"""Number of samples of each interval."""
_MIN_INTERVAL = 1e-3
"""Intervals shorter than this are below the resolution of controllers [s]."""


def playback_rate(trajectory: JointTrajectory, limits: JointLimits) -> float:
    """Return the max playback rate, a factor up to 1, within velocity and acceleration limits.

    Args:
        trajectory: with velocities, at rest at its first point; otherwise the rate is 1.
        limits: of its joints, in its order.
    """
    velocities = trajectory.velocities
    if velocities is None or len(velocities) < 2 or np.abs(velocities[0]).max() > STANDING:
        return 1.0
    spans = np.diff(trajectory.times)
    long = np.flatnonzero(spans >= _MIN_INTERVAL)
    if not len(long):
        return 1.0
    speed, acceleration = _peaks(trajectory, long)
    with np.errstate(divide="ignore", invalid="ignore"):
        use_v = float(np.nan_to_num(speed / limits.velocity).max())
        use_a = float(np.nan_to_num(acceleration / limits.acceleration).max())
    rate = 1.0
    if use_v > 1.0 + VELOCITY_TOLERANCE:
        rate = 1.0 / use_v
    if use_a > 1.0 + ACCELERATION_TOLERANCE:
        rate = min(rate, use_a**-0.5)
    return rate if rate >= MIN_RATE else 1.0


def _peaks(trajectory: JointTrajectory, intervals: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return the max velocity and acceleration of each joint in some intervals, shape (n,)."""

    def points(rows: NDArray[np.intp]) -> tuple[Array, Array | None, Array | None]:
        q, v, a = trajectory.positions, trajectory.velocities, trajectory.accelerations
        return q[rows], None if v is None else v[rows], None if a is None else a[rows]

    start, end = points(intervals), points(intervals + 1)
    T = (trajectory.times[intervals + 1] - trajectory.times[intervals])[:, None]
    pieces = polynomial_between(start, end, T)
    speed = acceleration = np.zeros(len(trajectory.joint_names))
    for u in np.linspace(0.0, 1.0, _PLACES):
        sample = evaluate(pieces, u * T)
        speed = np.maximum(speed, np.abs(sample.velocity).max(axis=0))
        acceleration = np.maximum(acceleration, np.abs(sample.acceleration).max(axis=0))
    return speed, acceleration
