# SPDX-License-Identifier: Apache-2.0
"""The RMPs of RMPflow as expression graphs; ``motion_nodes.rmpflow.rmps`` has them in NumPy.

Parameters are given as the coefficients :data:`rmp_memory.PARAMETERS`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.kernels.expression_graph import ExpressionGraph, Value
from motion_nodes.kernels.formulas.linear_algebra import Vector, dot, minus, scaled

_TERMS = 13
_SQUARINGS = 6
_RANGE = 40.0
TINY = 1e-9
"""Vectors shorter than this have no direction [m]."""


class NumpyOps:
    """The operations of an expression graph, evaluated with NumPy."""

    minimum = staticmethod(np.minimum)
    maximum = staticmethod(np.maximum)
    less = staticmethod(np.less)
    choose = staticmethod(np.where)
    divide = staticmethod(np.divide)
    root = staticmethod(np.sqrt)


def exponential(tape: ExpressionGraph, z: Value) -> Value:
    """Return exp(z), with z clamped to -40..40; relative error below 1e-10.

    Source: exp(z) = exp(z / 64)^64, the inner one by its Taylor series.
    """
    bounded = tape.maximum(-_RANGE, tape.minimum(_RANGE, z))
    small = bounded * 2.0**-_SQUARINGS
    total: Value = 1.0 / math.factorial(_TERMS - 1)
    for k in range(_TERMS - 2, -1, -1):
        total = total * small + 1.0 / math.factorial(k)
    for _ in range(_SQUARINGS):
        total = total * total
    return total


def gate(tape: ExpressionGraph, z: Value) -> Value:
    """Return the logistic gate 1 / (1 + exp(z)): 1 far below zero, 0 far above."""
    return tape.divide(1.0, 1.0 + exponential(tape, z))


def collision(
    tape: ExpressionGraph, x: Value, xd: Value, p: Sequence[Value]
) -> tuple[Value, Value]:
    """Return acceleration and metric of a sphere at signed distance x [m]; p as in the memory."""
    damping, per_damping, damping_eps, per_gate, repulsion = p[:5]
    per_repulsion, per_radius, metric, per_metric, metric_eps = p[5:]
    x = tape.maximum(x, 0.0)
    approach = gate(tape, xd * per_gate)
    push = repulsion * exponential(tape, -(x * per_repulsion))
    brake = tape.divide(damping * approach * xd, x * per_damping + damping_eps)
    fade = tape.maximum(1.0 - x * per_radius, 0.0)
    weight = tape.divide(approach * fade * fade * metric, x * per_metric + metric_eps)
    return push - brake, weight


def joint_limit(
    tape: ExpressionGraph, x: Value, xd: Value, p: Mapping[str, Value]
) -> tuple[Value, Value]:
    """Return acceleration and metric at a distance x from a limit, as a fraction of the range."""
    x = tape.maximum(x, 0.0)
    stretched = x * p["limit.per_potential_length"]
    push = tape.divide(p["limit.potential"], stretched * stretched + p["limit.potential_eps"])
    approach = gate(tape, xd * p["limit.per_gate"])
    weight = tape.divide(approach * p["limit.metric"], x * p["limit.per_length"] + p["limit.eps"])
    return push - p["limit.damper"] * xd, weight


def velocity_cap(
    tape: ExpressionGraph, qd: Value, most: Value, region: Value, p: Mapping[str, Value]
) -> tuple[Value, Value]:
    """Return acceleration and metric of a joint close to its velocity limit."""
    speed = tape.maximum(qd, -qd)
    excess = speed - (most - region)
    ratio = tape.minimum(tape.divide(tape.maximum(excess, 0.0), region), 1.0 - 1e-6)
    weight = tape.divide(p["cap.metric"], 1.0 - ratio * ratio)
    fast = tape.less(0.0, excess)
    sign = tape.choose(tape.less(qd, 0.0), -1.0, 1.0)
    return -(p["cap.damping"] * sign * tape.maximum(excess, 0.0)), tape.choose(fast, weight, 0.0)


@dataclass(frozen=True)
class GraphDirection:
    """Length and direction of a vector."""

    length: Value
    n: Vector


def direction(tape: ExpressionGraph, offset: Vector) -> GraphDirection:
    """Return length and direction of a vector; the direction of a zero vector is zero."""
    length = tape.root(dot(offset, offset))
    per_length = tape.choose(
        tape.less(TINY, length), tape.divide(1.0, tape.maximum(length, TINY)), 0.0
    )
    return GraphDirection(length, scaled(per_length, offset))


def boosted(tape: ExpressionGraph, squared: Value, exponent: Value, boost: Value) -> Value:
    """Return the factor of a metric at a squared distance from the goal."""
    beta = exponential(tape, -(squared * exponent))
    return beta * boost + 1.0 - beta


def target(
    tape: ExpressionGraph, x: Vector, xd: Vector, goal: Vector, p: Mapping[str, Value]
) -> tuple[Vector, list[list[Value]], Value]:
    """Return acceleration and metric of the tool, and its squared distance from the goal [m^2]."""
    offset = minus(goal, x)
    d = direction(tape, offset)
    pull = tape.divide(p["target.gain"], d.length + p["target.eps"])
    desired = minus(scaled(pull, offset), scaled(p["target.damping"], xd))
    squared = dot(offset, offset)
    least = p["target.least_alpha"]
    alpha = (1.0 - least) * exponential(tape, -(squared * p["target.alpha_exponent"])) + least
    boost = boosted(tape, squared, p["target.boost_exponent"], p["target.boost"])
    near, far = boost * alpha * p["target.near"], boost * (1.0 - alpha) * p["target.far"]
    M = [[far * d.n[i] * d.n[j] + (near if i == j else 0.0) for j in range(3)] for i in range(3)]
    return desired, M, squared
