# SPDX-License-Identifier: Apache-2.0
"""How a policy is doing, and whether it gets on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.evaluation import Goal
from motion_nodes.rmpflow.progress import Progress

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
    if goal.position is not None:
        position = float(np.linalg.norm(goal.position - X_BT[:3, 3]))
    if goal.rotation is not None:
        R = goal.rotation.T @ X_BT[:3, :3]
        sine = np.linalg.norm((R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]))
        orientation = math.atan2(float(sine), float(np.trace(R)) - 1.0)
    return Errors(position, orientation, float(np.abs(goal.posture - q).max(initial=0.0)))


def watch(progress: Progress, goal: Goal, errors: Errors, duration: float) -> None:
    """Tell whoever watches for progress how far the goal is."""
    if goal.position is None and goal.rotation is None:
        progress.update(_ANGLE_WEIGHT * goal.posture, _ANGLE_WEIGHT * errors.posture, duration)
        return
    parts, error = [], 0.0
    if goal.position is not None:
        parts.append(goal.position)
        error += errors.position
    if goal.rotation is not None:
        parts.append(_ANGLE_WEIGHT * goal.rotation.ravel())
        error += _ANGLE_WEIGHT * errors.orientation
    progress.update(np.concatenate(parts), error, duration)
