# SPDX-License-Identifier: Apache-2.0
"""Validation of trajectories by a sequence of named checks.

The first problem is reported with joint, point and numbers; the trajectory is rejected.

A playback rate is computed at which limits are satisfied between the points, too. Many generators
satisfy acceleration limits at their points only: between two points whose accelerations differ, the
interpolation exceeds them. Slowing the whole trajectory down preserves its path: at rate r,
velocities are multiplied by r and accelerations by r^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.bounds import NAMES, POINTS, check_count, repeated
from motion_nodes.core.robot.limits import JointLimits, beyond
from motion_nodes.core.trajectory.joint_trajectory import (
    JointTrajectory,
    evaluate,
    polynomial_between,
)
from motion_nodes.errors import InvalidCommand
from motion_nodes.tolerances import LIMIT_SHARE, POSITION_ROUNDING, STANDING_SPEED
from motion_nodes.typing import Array

MAX_POINTS = POINTS
"""Max number of points; more are considered an error of the sender."""
MAX_OUTSIDE = 0.1
"""Max limit violation from which a joint may return inside [rad or m]."""
OUTSIDE_START = 0.01
"""Max distance between the start of such a motion and the joint [rad or m]."""
START_TOO_FAR = "the trajectory starts with joint"
"""First words of the error if a trajectory starts too far from the reference of its joints."""
ACCELERATION_TOLERANCE = 0.03
"""Relative tolerance of acceleration limits."""
MIN_RATE = 0.5
"""Min playback rate; trajectories that need a lower one are followed with a lag."""
_PLACES = 17
"""Number of samples of each interval."""
_MIN_INTERVAL = 1e-3
"""Intervals shorter than this are below the resolution of controllers [s]."""


@dataclass(frozen=True)
class Problem:
    """A failed check of a trajectory."""

    check: str
    """Name of the check that failed."""
    text: str
    """Description: the value, the allowed range, the place."""


def validate(trajectory: JointTrajectory, limits: JointLimits) -> Problem | None:
    """Check a trajectory against the limits of its joints.

    Args:
        trajectory: the trajectory; its format is already validated.
        limits: of the trajectory's joints, in its order.

    Returns:
        The first problem, or None.
    """
    for check in (_positions, _velocities, _segment_speeds, _accelerations):
        text = check(trajectory, limits)
        if text is not None:
            return Problem(check.__name__.strip("_"), text)
    return None


def validate_joined_speeds(
    trajectory: JointTrajectory, limits: JointLimits, slack: float
) -> Problem | None:
    """Check the velocity from the current state to a trajectory's first point.

    Args:
        trajectory: connected to the current state; otherwise it passes.
        limits: of its joints.
        slack: tolerance of the distance [rad or m]. Clients have the measured positions, not the
            reference, and may have timed the first point by them.
    """
    if trajectory.begin is None:
        return None
    way = np.abs(trajectory.positions[0] - trajectory.begin.position)
    time = float(trajectory.times[0])
    excess = (way - slack) / time > limits.velocity * (1.0 + LIMIT_SHARE)
    if not excess.any():
        return None
    j = int(np.argmax(excess))
    return Problem(
        "joined_speeds",
        f"joint {trajectory.joint_names[j]} would have to move at {way[j] / time:.4g} to be at "
        f"point 0 in {time:g} s; its velocity limit is {limits.velocity[j]:.4g}",
    )


def validate_start(
    trajectory: JointTrajectory, first: Array, reference: Array, tolerance: float
) -> Problem | None:
    """Check that a trajectory that begins at time 0 begins at the current reference.

    Args:
        trajectory: the trajectory.
        first: positions at which it is entered [rad or m], shape (n,): its first point, or a later
            one if it began before now.
        reference: current reference positions of its joints [rad or m], shape (n,).
        tolerance: max distance [rad or m]; 0 for any.

    Returns:
        The problem, or None.
    """
    if tolerance <= 0.0 or trajectory.times[0] > 0.0:
        return None
    away = np.abs(first - reference)
    j = int(np.argmax(away))
    if away[j] <= tolerance:
        return None
    return Problem(
        "start",
        f"{START_TOO_FAR} {trajectory.joint_names[j]} at {first[j]:.4f}, but it is "
        f"at {reference[j]:.4f}; they may differ by {tolerance:g}",
    )


def validate_return(
    trajectory: JointTrajectory, reference: Array, limits: JointLimits
) -> Problem | None:
    """Check that a trajectory that begins outside limits begins at the current reference.

    Otherwise it could first move the joints further outside.

    Args:
        trajectory: accepted by :func:`validate`.
        reference: current reference positions of its joints [rad or m], shape (n,).
        limits: of its joints.
    """
    first = trajectory.positions[0]
    outside = limit_excess(limits, first) > POSITION_ROUNDING
    away = np.where(outside, np.abs(first - reference), 0.0)
    j = int(np.argmax(away))
    if away[j] <= OUTSIDE_START:
        return None
    return Problem(
        "return",
        f"the trajectory starts with joint {trajectory.joint_names[j]} at {first[j]:.6g}, outside "
        f"its limits {limits.lower[j]:.6g} to {limits.upper[j]:.6g}, but it is at "
        f"{reference[j]:.6g}; a trajectory may start outside limits only at the reference",
    )


def limit_excess(limits: JointLimits, q: Array) -> Array:
    """Return the limit violations of joints [rad or m], 0 inside, shape like ``q``."""
    return np.asarray(np.maximum(np.maximum(limits.lower - q, q - limits.upper), 0.0))


def check_point_count(count: int) -> None:
    """Reject extremely long trajectories before they are processed.

    Raises:
        InvalidCommand: none or more than :data:`MAX_POINTS`.
    """
    if count == 0:
        raise InvalidCommand("the trajectory has no points")
    if count > MAX_POINTS:
        raise InvalidCommand(f"the trajectory has {count} points; the max is {MAX_POINTS}")


def _positions(trajectory: JointTrajectory, limits: JointLimits) -> str | None:
    q = trajectory.positions
    excess = limit_excess(limits, q)
    outside = excess > POSITION_ROUNDING
    if outside[0].any() and trajectory.times[0] <= 0.0:
        # Joints outside their limits may return, but not move further outside or leave again.
        inwards = (np.diff(excess, axis=0) <= POSITION_ROUNDING).all(axis=0)
        outside &= ~(inwards & ~outside[-1] & (excess[0] <= MAX_OUTSIDE))
    at = _first(outside)
    if at is None:
        return None
    i, j = at
    low, high = float(limits.lower[j]), float(limits.upper[j])
    return (
        f"position {beyond(q[i, j], low, high)} of joint {trajectory.joint_names[j]} at point {i} "
        f"is outside its limits {low:.6g} to {high:.6g}"
    )


def _velocities(trajectory: JointTrajectory, limits: JointLimits) -> str | None:
    return _bounded(trajectory, trajectory.velocities, limits.velocity, "velocity")


def _accelerations(trajectory: JointTrajectory, limits: JointLimits) -> str | None:
    return _bounded(trajectory, trajectory.accelerations, limits.acceleration, "acceleration")


def _segment_speeds(trajectory: JointTrajectory, limits: JointLimits) -> str | None:
    if len(trajectory.times) < 2:
        return None
    way, spans = np.abs(np.diff(trajectory.positions, axis=0)), np.diff(trajectory.times)[:, None]
    mean = way / spans
    at = _first(mean > limits.velocity * (1.0 + LIMIT_SHARE))
    if at is None:
        return None
    i, j = at
    return (
        f"joint {trajectory.joint_names[j]} would have to move at {mean[i, j]:.4g} between points "
        f"{i} and {i + 1}; its velocity limit is {limits.velocity[j]:.4g}"
    )


def _bounded(
    trajectory: JointTrajectory, values: Array | None, limit: Array, what: str
) -> str | None:
    if values is None:
        return None
    at = _first(np.abs(values) > limit * (1.0 + LIMIT_SHARE))
    if at is None:
        return None
    i, j = at
    return (
        f"{what} {values[i, j]:.4g} of joint {trajectory.joint_names[j]} at point {i} exceeds its "
        f"limit {limit[j]:.4g}"
    )


def _first(mask: NDArray[np.bool_]) -> tuple[int, int] | None:
    if not mask.any():
        return None
    i, j = np.argwhere(mask)[0]
    return int(i), int(j)


def joint_order(given: Sequence[str], joint_names: Sequence[str]) -> list[int]:
    """Return the index of each given joint in the controller's order.

    Raises:
        InvalidCommand: no joints, or one given twice.
        UnknownJoint: an unknown name.
    """
    from motion_nodes.core.robot.limits import joint_indices

    if not given:
        raise InvalidCommand("the trajectory names no joints")
    check_count(len(given), NAMES, "joint_names")
    twice = repeated(given)
    if twice:
        raise InvalidCommand(f"the trajectory names joint {', '.join(twice)} more than once")
    return [int(i) for i in joint_indices(given, joint_names)]


def playback_rate(trajectory: JointTrajectory, limits: JointLimits) -> float:
    """Return the max playback rate, a factor up to 1, within velocity and acceleration limits.

    Args:
        trajectory: with velocities, at rest at its first point; otherwise the rate is 1.
        limits: of its joints, in its order.
    """
    velocities = trajectory.velocities
    if velocities is None or len(velocities) < 2 or np.abs(velocities[0]).max() > STANDING_SPEED:
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
    if use_v > 1.0 + LIMIT_SHARE:
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
