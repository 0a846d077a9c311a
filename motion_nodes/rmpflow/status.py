# SPDX-License-Identifier: Apache-2.0
"""Status and errors of a policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from typing import NamedTuple

from motion_nodes.model.joint_turns import JointTurns
from motion_nodes.rmpflow.numpy_policy import ANGLE_WEIGHT, Goal
from motion_nodes.rmpflow.progress import TargetProgress
from motion_nodes.typing import Array


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


class Errors(NamedTuple):
    """Distances from a goal; NaN for unconstrained components."""

    position: float
    orientation: float
    posture: float


def errors_of(goal: Goal, X_BT: Array, q: Array, turns: JointTurns | None = None) -> Errors:
    """Return the errors of tool and joints relative to a goal [m, rad].

    Args:
        goal: the goal.
        X_BT: pose of the tool in the base, shape (4, 4).
        q: joint positions [rad or m], shape (n,).
        turns: which of them are continuous; None: none.
    """
    position = orientation = float("nan")
    # Plain floats: several times as fast as arrays of this size.
    (*x, u), (*y, v), (*z, w), _ = X_BT.tolist()
    if goal.position is not None:
        position = math.dist(goal.position.tolist(), (u, v, w))
    if goal.rotation is not None:
        orientation = _angle(goal.rotation.tolist(), (x, y, z))
    if turns is not None and turns.any:
        posture = float(turns.distance(q, goal.posture).max(initial=0.0))
    else:
        posture = max(map(abs, map(sub, goal.posture.tolist(), q.tolist())), default=0.0)
    return Errors(position, orientation, posture)


def _angle(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    """Return the angle between two rotations, given by rows [rad].

    Source: R = first^T second has the trace 1 + 2 cos(angle), and the entries of R - R^T are those
    of 2 sin(angle) times the axis.
    """
    (a, b, c), (d, e, f), (g, h, i) = first
    (j, k, m), (n, o, p), (q, r, s) = second
    trace = a * j + d * n + g * q + b * k + e * o + h * r + c * m + f * p + i * s
    x = c * k + f * o + i * r - (b * m + e * p + h * s)
    y = a * m + d * p + g * s - (c * j + f * n + i * q)
    z = b * j + e * n + h * q - (a * k + d * o + g * r)
    return math.atan2(math.hypot(x, y, z), trace - 1.0)


def error_of(goal: Goal, errors: Errors) -> float:
    """Return the distance from the goal as one number [m, rad / 10]."""
    if goal.position is None and goal.rotation is None:
        return ANGLE_WEIGHT * errors.posture
    error = 0.0 if goal.position is None else errors.position
    return error if goal.rotation is None else error + ANGLE_WEIGHT * errors.orientation


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
    error = error_of(goal, errors) if remaining is None else remaining
    progress.update(goal.coordinates, error, duration)
