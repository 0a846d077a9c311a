# SPDX-License-Identifier: Apache-2.0
"""The RMPs of RMPflow: desired accelerations and metrics.

An RMP maps a position x and a velocity xd in its task space to a desired acceleration and a metric:
its weight, a scalar or a matrix. Plain formulas on numbers and arrays;
:mod:`motion_nodes.rmpflow.numpy_policy` combines them.

Source: Cheng, Mukadam, Issac, Birchfield, Fox, Boots, Ratliff, RMPflow: A computational graph for
automatic motion policy generation (WAFR 2018); the forms of the RMPs are those that the parameters
of Isaac Sim's configuration files belong to (Isaac Sim documentation, RMPflow Tuning Guide).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.model.rmpflow_settings import (
    AxisTarget,
    Collision,
    CspaceTarget,
    Damping,
    JointLimit,
    TargetSettings,
)
from motion_nodes.model.tree import Array

_EXPONENT_RANGE = 40.0
_MOST_OF_REGION = 1.0 - 1e-6


def sigmoid(z: ArrayLike) -> Array:
    """Return 1 / (1 + exp(-z))."""
    bounded = np.clip(np.asarray(z, np.float64), -_EXPONENT_RANGE, _EXPONENT_RANGE)
    return np.asarray(1.0 / (1.0 + np.exp(-bounded)))


def cspace_target(q: Array, qd: Array, posture: Array, p: CspaceTarget) -> tuple[Array, float]:
    """Return the acceleration towards a posture and its metric, a scalar.

    Args:
        q: positions [rad or m], shape (n,).
        qd: velocities [rad/s or m/s], shape (n,).
        posture: target positions [rad or m], shape (n,).
        p: parameters; beyond ``robust_position_term_thresh`` the position term is constant.
    """
    offset = posture - q
    length = float(np.linalg.norm(offset))
    share = min(1.0, p.robust_position_term_thresh / length) if length > 0.0 else 1.0
    return p.position_gain * share * offset - p.damping_gain * qd, p.metric_scalar


def joint_limit(x: ArrayLike, xd: ArrayLike, p: JointLimit) -> tuple[Array, Array]:
    """Return the acceleration away from a joint limit and its metric.

    Args:
        x: distance from the limit as a fraction of the range; below 0 counts as 0.
        xd: its time derivative [1/s].
        p: parameters.
    """
    x, xd = np.maximum(np.asarray(x, np.float64), 0.0), np.asarray(xd, np.float64)
    stretched = x / p.accel_potential_exploder_length_scale
    push = p.accel_potential_gain / (stretched * stretched + p.accel_potential_exploder_eps)
    gate = sigmoid(-xd / p.metric_velocity_gate_length_scale)
    metric = gate * p.metric_scalar / (x / p.metric_length_scale + p.metric_exploder_eps)
    return push - p.accel_damper_gain * xd, metric


def joint_velocity_cap(
    qd: ArrayLike, max_velocity: ArrayLike, region: ArrayLike, gain: float, weight: float
) -> tuple[Array, Array]:
    """Return the acceleration that damps joints close to their velocity limit, and its metric.

    Args:
        qd: velocities [rad/s or m/s].
        max_velocity: velocity limit [rad/s or m/s].
        region: distance from the limit at which damping begins [rad/s or m/s].
        gain: of the damping [1/s].
        weight: metric where the damping begins.
    """
    qd, region = np.asarray(qd, np.float64), np.asarray(region, np.float64)
    excess = np.abs(qd) - (np.asarray(max_velocity, np.float64) - region)
    ratio = np.clip(excess / region, 0.0, _MOST_OF_REGION)
    metric = np.where(excess > 0.0, weight / (1.0 - ratio * ratio), 0.0)
    return -gain * np.sign(qd) * np.maximum(excess, 0.0), metric


def target(x: Array, xd: Array, goal: Array, p: TargetSettings) -> tuple[Array, Array]:
    """Return the acceleration of the tool towards a position, shape (3,), and its metric, (3, 3).

    Far from the goal only the direction towards it is weighted, so that obstacles may push
    sideways.

    Args:
        x: position of the tool [m], shape (3,).
        xd: velocity of the tool [m/s], shape (3,).
        goal: target position [m], shape (3,).
        p: parameters.
    """
    offset = goal - x
    d = float(np.linalg.norm(offset))
    acceleration = p.accel_p_gain * offset / (d + p.accel_norm_eps) - p.accel_d_gain * xd
    alpha, boost = target_alpha(d, p), target_boost(d, p)
    n = offset / d if d > 0.0 else np.zeros(3)
    near, far = alpha * p.max_metric_scalar, (1.0 - alpha) * p.min_metric_scalar
    return acceleration, boost * (near * np.eye(3) + far * np.outer(n, n))


def target_alpha(d: float, p: TargetSettings) -> float:
    """Return the isotropic weight at a distance d from the goal [m], 0..1."""
    near = np.exp(-0.5 * (d / p.metric_alpha_length_scale) ** 2)
    return float((1.0 - p.min_metric_alpha) * near + p.min_metric_alpha)


def target_boost(d: float, p: TargetSettings | AxisTarget) -> float:
    """Return the factor of the metric at a distance d from the goal [m]."""
    beta = np.exp(-0.5 * (d / p.proximity_metric_boost_length_scale) ** 2)
    return float(beta * p.proximity_metric_boost_scalar + 1.0 - beta)


def axis_target(
    n: Array, nd: Array, goal: Array, d: float | None, p: AxisTarget
) -> tuple[Array, float]:
    """Return the acceleration of one axis of the tool towards another, and its metric, a scalar.

    Args:
        n: unit axis, shape (3,).
        nd: its time derivative [1/s], shape (3,).
        goal: target unit axis, shape (3,).
        d: distance of the tool from its target position [m]; None without one.
        p: parameters.
    """
    boost = 1.0 if d is None else target_boost(d, p)
    return p.accel_p_gain * (goal - n) - p.accel_d_gain * nd, boost * p.metric_scalar


def collision(x: ArrayLike, xd: ArrayLike, p: Collision) -> tuple[Array, Array]:
    """Return the acceleration of a sphere away from an obstacle and its metric.

    Args:
        x: signed distance [m]; below 0 counts as 0.
        xd: its time derivative [m/s].
        p: parameters.
    """
    x, xd = np.maximum(np.asarray(x, np.float64), 0.0), np.asarray(xd, np.float64)
    approach = sigmoid(-xd / p.damping_velocity_gate_length_scale)
    push = p.repulsion_gain * np.exp(-x / p.repulsion_std_dev)
    damping = p.damping_gain * approach * xd / (x / p.damping_std_dev + p.damping_robustness_eps)
    fade = np.maximum(1.0 - x / p.metric_modulation_radius, 0.0)
    scale = p.metric_scalar / (x / p.metric_exploder_std_dev + p.metric_exploder_eps)
    return push - damping, approach * fade * fade * scale


def damping(xd: Array, p: Damping) -> tuple[Array, float]:
    """Return the acceleration that damps the tool, shape (3,), and its metric, a scalar.

    Args:
        xd: velocity of the tool [m/s], shape (3,).
        p: parameters; ``inertia`` is the metric of zero acceleration.
    """
    speed = float(np.linalg.norm(xd))
    return -p.accel_d_gain * speed * xd, p.metric_scalar * speed


def capped(acceleration: Array, most: float) -> Array:
    """Return an acceleration with its norm limited to ``most``, same direction."""
    norm = float(np.linalg.norm(acceleration))
    return acceleration * (most / norm) if norm > most else acceleration
