# SPDX-License-Identifier: Apache-2.0
"""How a policy is doing, and whether it gets on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.rmpflow.progress import TargetProgress

_ANGLE_WEIGHT = 0.1  # [m/rad] errors of orientation beside those of position, for progress


@dataclass(frozen=True)
class PolicyStatus:
    """How a policy is doing, after its last step."""

    position_error: float
    """Of the tool [m]; NaN without a target position."""
    orientation_error: float
    """Of the tool [rad]; NaN without a target orientation."""
    posture_error: float
    """Greatest distance of a joint from the posture [rad or m]."""
    stuck: bool
    """Whether the target came no nearer for a while."""
    stopping: bool
    """Whether :meth:`RmpflowPolicy.stop` holds."""
    speed_scalar: float
    """Speed as a part of the policy's own; 1 without smoothing."""


@dataclass(frozen=True)
class Errors:
    """Distances from a goal; NaN for what the goal leaves open."""

    position: float
    orientation: float
    posture: float


def errors_of(goal: Goal, X_BT: Array, q: Array) -> Errors:
    """Return how far a tool at ``X_BT`` and joints at ``q`` are from a goal."""
    position = orientation = float("nan")
    # Plain numbers: for so few of them they are several times as fast as arrays.
    if goal.position is not None:
        position = math.dist(goal.position.tolist(), X_BT[:3, 3].tolist())
    if goal.rotation is not None:
        (a, b, c), (d, e, f), (g, h, i) = (goal.rotation.T @ X_BT[:3, :3]).tolist()
        orientation = math.atan2(math.hypot(h - f, c - g, d - b), a + e + i - 1.0)
    return Errors(position, orientation, float(np.abs(goal.posture - q).max(initial=0.0)))


def error_of(goal: Goal, errors: Errors) -> float:
    """Return how far the goal is in one number [m, rad / 10]."""
    if goal.position is None and goal.rotation is None:
        return _ANGLE_WEIGHT * errors.posture
    error = 0.0 if goal.position is None else errors.position
    return error if goal.rotation is None else error + _ANGLE_WEIGHT * errors.orientation


def watch(progress: TargetProgress, goal: Goal, errors: Errors, duration: float) -> None:
    """Tell whoever watches for progress how far the goal is."""
    parts = [] if goal.position is None else [goal.position]
    if goal.rotation is not None:
        parts.append(_ANGLE_WEIGHT * goal.rotation.ravel())
    if not parts:
        parts.append(_ANGLE_WEIGHT * goal.posture)
    progress.update(np.concatenate(parts), error_of(goal, errors), duration)
