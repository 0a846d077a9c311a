# SPDX-License-Identifier: Apache-2.0
"""Velocity commands for a policy: target poses and postures ahead of tool or joints.

The policy's RMPs attract to points. To move at a velocity, the target must be so far ahead that
attraction and damping of the RMP balance at that velocity. This lead also compensates the lag
behind a moving target.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.core.robot.poses import rotation_vector, turned
from motion_nodes.core.robot.rmpflow_settings import (
    AxisTarget,
    CspaceTarget,
    RmpflowSettings,
    TargetSettings,
)
from motion_nodes.tolerances import ZERO_SPEED
from motion_nodes.typing import Array

_MOST_PULL = 0.7  # fraction of an RMP's max attraction that may be used against its damping
_MOST_TURN = 0.5  # [rad] max lead
_LEASH = 0.02  # [m] max distance of the integrated position from the tool
_TURN_LEASH = 0.1  # [rad]
_JOINT_LEASH = 0.2  # [rad or m]


def position_lead(velocity: Array, leaf: TargetSettings) -> Array:
    """Return the lead of the target for the tool to move along with a velocity.

    In kp d / (d + eps) = kd v, attraction and damping of the RMP, solve for d.

    Args:
        velocity: in any frame [m/s], shape (3,).
        leaf: parameters of ``target_rmp``.

    Returns:
        Offset [m], shape (3,), along the velocity. It is bounded: beyond the max attraction of the
        RMP the tool lags behind.
    """
    speed = float(np.linalg.norm(velocity))
    if speed < ZERO_SPEED or leaf.accel_p_gain <= 0.0:
        return np.zeros(3)
    share = min(leaf.accel_d_gain * speed / leaf.accel_p_gain, _MOST_PULL)
    return np.asarray(velocity * (leaf.accel_norm_eps * share / (1.0 - share) / speed))


def rotation_lead(angular_velocity: Array, leaf: AxisTarget) -> Array:
    """Return the same for a rotation: a rotation vector [rad], shape (3,)."""
    if leaf.accel_p_gain <= 0.0:
        return np.zeros(3)
    ahead = angular_velocity * (leaf.accel_d_gain / leaf.accel_p_gain)
    return _shortened(ahead, _MOST_TURN)


def joint_lead(velocity: Array, leaf: CspaceTarget) -> Array:
    """Return the same for joints [rad or m], shape (n,), within the linear range of the RMP."""
    if leaf.position_gain <= 0.0:
        return np.zeros(len(velocity))
    ahead = velocity * (leaf.damping_gain / leaf.position_gain)
    return _shortened(ahead, leaf.robust_position_term_thresh)


def tool_lead(twist: Array, settings: RmpflowSettings) -> Array:
    """Return the lead of position [m] and rotation [rad] for a tool with a twist, shape (6,)."""
    v, w = twist[:3], twist[3:]
    leads = (position_lead(v, settings.target_rmp), rotation_lead(w, settings.axis_target_rmp))
    return np.concatenate(leads)


class TwistServo:
    """Integrates a tool twist to a target pose, with a bounded distance from the tool."""

    def __init__(self, X_WT: Array) -> None:
        """Start at the current tool pose in the world, shape (4, 4)."""
        self._X = X_WT.copy()

    def target(self, X_WT: Array, twist: Array, dt: float, lead: Array) -> Array:
        """Return the target pose of the tool in the world, shape (4, 4).

        Args:
            X_WT: current pose of the tool in the world, shape (4, 4).
            twist: linear [m/s] and angular velocity [rad/s] of the tool, in the world's axes (6,).
            dt: time since the last call [s].
            lead: of the target, as from :func:`tool_lead`, shape (6,).
        """
        v, w = twist[:3], twist[3:]
        self._X[:3, 3] += dt * v
        self._X[:3, :3] = turned(self._X[:3, :3], dt * w)
        self._X[:3, 3] = X_WT[:3, 3] + _shortened(self._X[:3, 3] - X_WT[:3, 3], _LEASH)
        away = np.array(rotation_vector(self._X[:3, :3] @ X_WT[:3, :3].T))
        self._X[:3, :3] = turned(X_WT[:3, :3], _shortened(away, _TURN_LEASH))
        X = np.eye(4)
        X[:3, 3] = self._X[:3, 3] + lead[:3]
        X[:3, :3] = turned(self._X[:3, :3], lead[3:])
        return X


class JogServo:
    """Integrates joint velocities to a target posture, with a bounded distance from the joints."""

    def __init__(self, q: Array, lower: Array, upper: Array) -> None:
        """Start at the current positions; stay within the joint limits, shape (n,) each."""
        self._q, self._lower, self._upper = q.copy(), lower, upper

    def target(self, q: Array, velocity: Array, dt: float, lead: Array) -> Array:
        """Return the target posture of the joints [rad or m], shape (n,).

        Args:
            q: current positions [rad or m], shape (n,).
            velocity: commanded velocities [rad/s or m/s], shape (n,).
            dt: time since the last call [s].
            lead: of the posture, as from :func:`joint_lead`, shape (n,).
        """
        self._q = np.clip(self._q + dt * velocity, q - _JOINT_LEASH, q + _JOINT_LEASH)
        return np.asarray(np.clip(self._q + lead, self._lower, self._upper))


def _shortened(vector: Array, most: float) -> Array:
    length = float(np.linalg.norm(vector))
    return vector if length <= most else np.asarray(vector * (most / length))
