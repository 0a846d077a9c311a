# SPDX-License-Identifier: Apache-2.0
"""Status and errors of a policy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.rmpflow.progress import TargetProgress

# [m/rad] weight of orientation errors relative to position errors, for progress
_ANGLE_WEIGHT = 0.1


@dataclass(frozen=True)
class PolicyStatus:
    """Status of a policy after its last step."""

    position_error: float
    """Position error of the tool [m]; NaN without a target position."""
    orientation_error: float
    """Orientation error of the tool [rad]; NaN without a target orientation."""
    posture_error: float
    """Max distance of a joint from the posture [rad or m]."""
    stuck: bool
    """Whether there was no progress for the patience time."""
    stopping: bool
    """Whether :meth:`RmpflowPolicy.stop` is active."""
    speed_scalar: float
    """Time scaling factor relative to the policy's own speed; 1 without smoothing."""


@dataclass(frozen=True)
class Errors:
    """Distances from a goal; NaN for unconstrained components."""

    position: float
    orientation: float
    posture: float


def errors_of(goal: Goal, X_BT: Array, q: Array) -> Errors:
    """Return the errors [m, rad] of a tool at ``X_BT`` and joints at ``q`` relative to a goal."""
    position = orientation = float("nan")
    # Plain floats: several times as fast as arrays of this size.
    if goal.position is not None:
        position = math.dist(goal.position.tolist(), X_BT[:3, 3].tolist())
    if goal.rotation is not None:
        (a, b, c), (d, e, f), (g, h, i) = (goal.rotation.T @ X_BT[:3, :3]).tolist()
        orientation = math.atan2(math.hypot(h - f, c - g, d - b), a + e + i - 1.0)
    return Errors(position, orientation, float(np.abs(goal.posture - q).max(initial=0.0)))


def error_of(goal: Goal, errors: Errors) -> float:
    """Return the distance from the goal as one number [m, rad / 10]."""
    if goal.position is None and goal.rotation is None:
        return _ANGLE_WEIGHT * errors.posture
    error = 0.0 if goal.position is None else errors.position
    return error if goal.rotation is None else error + _ANGLE_WEIGHT * errors.orientation


def watch(
    progress: TargetProgress,
    goal: Goal,
    errors: Errors,
    duration: float,
    remaining: float | None = None,
) -> None:
    """Update the progress check.

    Args:
        progress: the check.
        goal: the goal.
        errors: distances from it.
        duration: time since the last update [s].
        remaining: measure of the distance from the goal; default: that of :func:`error_of`.
    """
    parts = [] if goal.position is None else [goal.position]
    if goal.rotation is not None:
        parts.append(_ANGLE_WEIGHT * goal.rotation.ravel())
    if not parts:
        parts.append(_ANGLE_WEIGHT * goal.posture)
    error = error_of(goal, errors) if remaining is None else remaining
    progress.update(np.concatenate(parts), error, duration)
