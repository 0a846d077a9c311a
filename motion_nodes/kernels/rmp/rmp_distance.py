# SPDX-License-Identifier: Apache-2.0
"""Signed distance of a moving point to an obstacle: value, direction, rate and curvature.

The curvature is v^T H v, with H the second derivative of the distance: the second time derivative
of the distance at constant velocity. Inside an obstacle it is taken as 0. Direction and curvature
come from the distance formula (:mod:`motion_nodes.kernels.formulas.shapes`), evaluated on moving
values.

Obstacles are stored as in :class:`motion_nodes.kernels.rmp.rmp_memory.ObstacleArrays`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from motion_nodes.kernels.formulas.linear_algebra import (
    Vector,
    cross,
    dot,
    minus,
    plus,
    scaled,
    times_vector,
    transposed,
)
from motion_nodes.kernels.formulas.motion import TINY, MotionOps, Moving, moving
from motion_nodes.kernels.formulas.ops import Ops
from motion_nodes.kernels.formulas.shapes import BALL, ShapeFormula, signed_distance


@dataclass(frozen=True)
class Distance:
    """Signed distance of a point to the surface of an obstacle."""

    value: Any
    """Signed distance [m]."""
    away: Vector
    """Vector away from the obstacle in the base frame, not normalized."""
    rate: Any
    """Time derivative of the distance [m/s]."""
    curvature: Any
    """Second time derivative at constant velocity [m/s^2]; 0 inside."""
    per_length: Any = 1.0
    """1 / length of ``away``."""

    @property
    def n(self) -> Vector:
        """Unit vector away from the obstacle."""
        return scaled(self.per_length, self.away)


def relative_velocity(
    p: Sequence[Any], v: Sequence[Any], obstacle: Sequence[Any]
) -> tuple[Vector, Any]:
    """Return the velocity of a point relative to an obstacle [m/s], and its square.

    Arguments as for :func:`distance`; for an obstacle at rest the velocity is ``v``.
    """
    offset = minus(p, obstacle[9:12])
    relative = minus(v, plus(obstacle[16:19], cross(obstacle[19:22], offset)))
    return relative, dot(relative, relative)


def distance(
    ops: Ops, shape: ShapeFormula, p: Sequence[Any], v: Sequence[Any], obstacle: Sequence[Any]
) -> Distance:
    """Return the distance of a point to an obstacle, both moving.

    Args:
        ops: operations.
        shape: shape of the obstacle.
        p: position of the point in the base frame [m], shape (3,).
        v: its velocity [m/s], shape (3,).
        obstacle: the 22 values of a row, see :class:`ObstacleArrays`.
    """
    return moved_distance(ops, shape, p, *relative_velocity(p, v, obstacle), obstacle)


def moved_distance(
    ops: Ops,
    shape: ShapeFormula,
    p: Sequence[Any],
    relative: Vector,
    squared: Any,
    obstacle: Sequence[Any],
) -> Distance:
    """Return the distance, given the relative velocity and its square; see :func:`distance`."""
    R = [list(obstacle[3 * i : 3 * i + 3]) for i in range(3)]
    offset = minus(p, obstacle[9:12])
    if shape is BALL:
        return _from_ball(ops, offset, relative, squared, obstacle[15])
    if shape.rotated:
        back = transposed(R)
        offset, relative = times_vector(back, offset), times_vector(back, relative)
    x = [Moving(a, b) for a, b in zip(offset, relative, strict=True)]
    sizes = [Moving(size) for size in obstacle[12:15]]
    found = signed_distance(MotionOps(ops), shape, x, sizes)
    n = [moving(component).value for component in found.direction]
    curvature = ops.choose(found.inside, 0.0, found.length.bend)
    rate = dot(n, relative)
    n = times_vector(R, n) if shape.rotated else n
    return Distance(found.value.value - obstacle[15], n, rate, curvature)


def _from_ball(ops: Ops, offset: Vector, relative: Vector, squared: Any, radius: Any) -> Distance:
    """Return the distance from a ball; equal to that of its formula, with fewer operations."""
    length = ops.root(dot(offset, offset))
    inside = ops.less(length, TINY)
    per_length = ops.divide(1.0, ops.choose(inside, 1.0, length))
    away = [ops.choose(inside, 1.0, offset[0]), *offset[1:]]
    rate = dot(away, relative) * per_length
    curvature = ops.choose(inside, 0.0, (squared - rate * rate) * per_length)
    return Distance(length - radius, away, rate, curvature, per_length)
