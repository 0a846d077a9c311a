# SPDX-License-Identifier: Apache-2.0
"""The RMPs of RMPflow: metrics and forces of joints, of the tool and of distances.

An RMP maps a state to a desired acceleration and a metric, its weight; its force is metric times
acceleration. ``p`` holds the coefficients of an RMP by name
(:mod:`motion_nodes.kernels.rmp.rmp_leaves` computes them from the settings).

Source: Cheng, Mukadam, Issac, Birchfield, Fox, Boots, Ratliff, RMPflow: A computational graph for
automatic motion policy generation (WAFR 2018); the forms of the RMPs are those that the parameters
of Isaac Sim's configuration files belong to (Isaac Sim documentation, RMPflow Tuning Guide).
Accelerations are in [rad/s^2 or m/s^2], those of the tool and of distances in [m/s^2].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from motion_nodes.kernels.formulas.ops import (
    SHIFTS,
    TINY,
    Matrix,
    Ops,
    Vector,
    dot,
    minus,
    scaled,
    times_vector,
)

_HALF = 0.5001 * math.log(2.0)
_EXPONENTIALS = {
    element: [
        float(c)
        for c in Chebyshev.interpolate(np.exp, degree, domain=[-_HALF, _HALF])
        .convert(kind=Polynomial, domain=[-1.0, 1.0], window=[-1.0, 1.0])
        .coef
    ]
    for element, degree in (("double", 9), ("float", 5))
}
"""Coefficients of polynomials that approximate exp(r) for |r| <= log(2) / 2 to 1e-13 and 1e-7."""
_RANGE = 40.0
"""Max magnitude of an exponent."""
_MOST_OF_REGION = 1.0 - 1e-6
"""Max fraction of the damping region at a velocity limit, so that the metric stays finite."""

Coefficients = Mapping[str, Any]


@dataclass(frozen=True)
class JointState:
    """One joint; with NumPy all joints as arrays."""

    q: Any
    """Position [rad or m]."""
    qd: Any
    """Velocity [rad/s or m/s]."""
    lower: Any
    """Lower position limit [rad or m]."""
    upper: Any
    """Upper position limit [rad or m]."""
    max_velocity: Any
    """Velocity limit [rad/s or m/s]."""
    region: Any
    """Distance from the velocity limit at which damping begins [rad/s or m/s]."""
    offset: Any
    """Default posture minus position [rad or m]."""
    distance: Any
    """Norm of the offsets of all joints [rad or m]."""


@dataclass(frozen=True)
class ToolState:
    """The tool, in the base frame."""

    x: Vector
    """Position [m]."""
    v: Vector
    """Velocity [m/s]."""
    goal: Vector
    """Target position; any value if there is none [m]."""


def exponential(ops: Ops, z: Any) -> Any:
    """Return exp(z), with z clamped to -40..40; relative error below 1e-13 (float32: 5e-6).

    Source: exp(z) = 2^n exp(r) with |r| <= log(2) / 2; exp(r) is interpolated at Chebyshev points
    and evaluated by Estrin's scheme, which has the shortest chain of dependent operations.
    """
    shift = SHIFTS[ops.element]
    x = ops.maximum(-_RANGE, ops.minimum(_RANGE, z))
    shifted = x * (1.0 / math.log(2.0)) + shift
    x = x - (shifted - shift) * math.log(2.0)
    terms: list[Any] = [*_EXPONENTIALS[ops.element]]
    while len(terms) > 1:
        pairs = [a + b * x for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
        x = x * x
    return terms[0] * ops.power_of_two(shifted)


def gate(ops: Ops, z: Any) -> Any:
    """Return the logistic gate 1 / (1 + exp(z)): 1 far below zero, 0 far above."""
    return ops.divide(1.0, 1.0 + exponential(ops, z))


def collision(ops: Ops, x: Any, xd: Any, p: Sequence[Any], push: Any = None) -> tuple[Any, Any]:
    """Return acceleration [m/s^2] and metric of a sphere at a distance from an obstacle.

    Args:
        ops: operations.
        x: signed distance [m]; below 0 counts as 0.
        xd: its time derivative [m/s].
        p: coefficients in the order of ``rmp_leaves.collision_coefficients``.
        push: result of :func:`repulsion`, if already computed.
    """
    damping, per_damping, damping_eps, per_gate = p[:4]
    per_radius, metric, per_metric, metric_eps = p[6:]
    if push is None:
        push = repulsion(ops, x, p)
    x = ops.maximum(x, 0.0)
    # The gate of the approach and both quotients share one division, the slowest operation.
    a, b = x * per_damping + damping_eps, x * per_metric + metric_eps
    product = a * b
    inverse = ops.divide(1.0, exponential(ops, xd * per_gate) * product + product)
    brake = xd * inverse * (damping * b)
    fade = ops.maximum(1.0 - x * per_radius, 0.0)
    weight = fade * fade * (metric * a) * inverse
    return push - brake, weight


def repulsion(ops: Ops, x: Any, p: Sequence[Any]) -> Any:
    """Return the repulsive acceleration [m/s^2]; arguments as for :func:`collision`."""
    return p[4] * exponential(ops, -(ops.maximum(x, 0.0) * p[5]))


def cspace_target(ops: Ops, s: JointState, p: Coefficients) -> tuple[Any, Any]:
    """Return metric and force towards the default posture.

    Beyond a threshold of the distance the position term has constant magnitude.
    """
    threshold = p["threshold"]
    pull = p["gain"] * ops.divide(threshold, ops.maximum(s.distance, threshold))
    return p["metric"], p["metric"] * (pull * s.offset - p["damping"] * s.qd)


def inertia(ops: Ops, s: JointState, p: Coefficients) -> tuple[Any, Any]:
    """Return the metric that weights zero acceleration, and zero force."""
    return p["inertia"], 0.0


def joint_limit(ops: Ops, s: JointState, p: Coefficients) -> tuple[Any, Any]:
    """Return metric and force away from both limits of a joint."""
    per_range = ops.divide(1.0, s.upper - s.lower)
    metric: Any = 0.0
    force: Any = 0.0
    for room, toward in ((s.q - s.lower, per_range), (s.upper - s.q, -per_range)):
        push, weight = limit(ops, room * per_range, s.qd * toward, p)
        metric = metric + weight * per_range * per_range
        force = force + weight * push * toward
    return metric, force


def limit(ops: Ops, x: Any, xd: Any, p: Coefficients) -> tuple[Any, Any]:
    """Return acceleration [1/s^2] and metric at a distance from a position limit.

    Args:
        ops: operations.
        x: distance as a fraction of the range; below 0 counts as 0.
        xd: its time derivative [1/s].
        p: coefficients.
    """
    x = ops.maximum(x, 0.0)
    stretched = x * p["per_potential_length"]
    push = ops.divide(p["potential"], stretched * stretched + p["potential_eps"])
    approach = gate(ops, xd * p["per_gate"])
    weight = ops.divide(approach * p["metric"], x * p["per_length"] + p["eps"])
    return push - p["damper"] * xd, weight


def joint_velocity_cap(ops: Ops, s: JointState, p: Coefficients) -> tuple[Any, Any]:
    """Return metric and force that damp a joint close to its velocity limit."""
    excess = ops.absolute(s.qd) - (s.max_velocity - s.region)
    beyond = ops.maximum(excess, 0.0)
    ratio = ops.minimum(ops.divide(beyond, s.region), _MOST_OF_REGION)
    weight = ops.divide(p["metric"], 1.0 - ratio * ratio)
    weight = ops.choose(ops.less(0.0, excess), weight, 0.0)
    sign = ops.choose(ops.less(s.qd, 0.0), -1.0, 1.0)
    return weight, -(weight * (p["damping"] * sign * beyond))


def target(ops: Ops, s: ToolState, p: Coefficients) -> tuple[Matrix, Vector]:
    """Return metric (3, 3) and force (3) of the tool towards its target position.

    Far from the target only the direction towards it is weighted, so that obstacles can push the
    tool sideways.
    """
    offset = minus(s.goal, s.x)
    squared = dot(offset, offset)
    length = ops.root(squared)
    per_length = ops.choose(ops.less(TINY, length), ops.divide(1.0, ops.maximum(length, TINY)), 0.0)
    n = scaled(per_length, offset)
    pull = ops.divide(p["gain"], length + p["eps"])
    desired = minus(scaled(pull, offset), scaled(p["damping"], s.v))
    least = p["least_alpha"]
    alpha = (1.0 - least) * exponential(ops, -(squared * p["alpha_exponent"])) + least
    boost = boosted(ops, squared, p)
    near, far = boost * alpha * p["near"], boost * (1.0 - alpha) * p["far"]
    M = [[far * n[i] * n[j] + (near if i == j else 0.0) for j in range(3)] for i in range(3)]
    return M, times_vector(M, desired)


def boosted(ops: Ops, squared: Any, p: Coefficients) -> Any:
    """Return the factor of a metric at a squared distance from the target position [m^2]."""
    beta = exponential(ops, -(squared * p["boost_exponent"]))
    return beta * p["boost"] + 1.0 - beta


def damping(ops: Ops, s: ToolState, p: Coefficients) -> tuple[Matrix, Vector]:
    """Return metric (3, 3) and force (3) that damp the tool, increasing with its speed."""
    speed = ops.root(dot(s.v, s.v))
    weight = p["metric"] * speed
    return _isotropic(weight), scaled(-(weight * p["gain"] * speed), s.v)


def tool_inertia(ops: Ops, s: ToolState, p: Coefficients) -> tuple[Matrix, Vector]:
    """Return the metric (3, 3) that weights zero acceleration of the tool, and zero force (3)."""
    return _isotropic(p["inertia"]), [0.0, 0.0, 0.0]


def _isotropic(weight: Any) -> Matrix:
    return [[weight if i == j else 0.0 for j in range(3)] for i in range(3)]


def axis_target(n: Vector, nd: Vector, goal: Vector, p: Coefficients) -> Vector:
    """Return the acceleration of an axis of the tool towards a target axis [1/s^2].

    Args:
        n: unit axis of the tool.
        nd: its time derivative [1/s].
        goal: target unit axis.
        p: coefficients.
    """
    return minus(scaled(p["gain"], minus(goal, n)), scaled(p["damping"], nd))


def axis_weight(ops: Ops, squared: Any, has_position: Any, p: Coefficients) -> Any:
    """Return the metric of an axis at a squared distance from the target position [m^2].

    Args:
        ops: operations.
        squared: the squared distance; any value without a target position.
        has_position: 1 with a target position, else 0.
        p: coefficients.
    """
    return p["metric"] * (1.0 + has_position * (boosted(ops, squared, p) - 1.0))
