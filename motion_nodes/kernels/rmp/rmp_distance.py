# SPDX-License-Identifier: Apache-2.0
"""Signed distances of points to obstacles as expression graphs: value, direction, curvature.

The curvature is v^T H v, with H the second derivative of the distance: the second time derivative
of the distance at constant velocity. H = (1 - Dc - n n^T) / d, where c(x) is the closest point and
n the direction from it. Inside an obstacle it is taken as 0.

Obstacles are stored as in :class:`motion_nodes.kernels.rmp.rmp_memory.ObstacleArrays`.
"""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.kernels.expression_graph import (
    ExpressionGraph,
    Value,
    Vector,
    cross,
    dot,
    minus,
    plus,
    scaled,
    times_vector,
)
from motion_nodes.kernels.rmp.rmp_formulas import TINY


@dataclass(frozen=True)
class Distance:
    """Signed distance of a point to the surface of an obstacle."""

    value: Value
    n: Vector
    """Unit vector away from the obstacle, in the base frame."""
    rate: Value
    """Time derivative of the distance [m/s]."""
    curvature: Value
    """See the module [m/s^2]."""


@dataclass(frozen=True)
class _Local:
    """A point in the frame of an obstacle."""

    R: list[Vector]
    point: Vector
    velocity: Vector


def _local(p: Vector, v: Vector, obstacle: list[Value], at_velocity: int) -> _Local:
    R = [obstacle[0:3], obstacle[3:6], obstacle[6:9]]
    turned = [list(column) for column in zip(*R, strict=True)]
    offset = minus(p, obstacle[9:12])
    own = obstacle[at_velocity : at_velocity + 3]
    turn = obstacle[at_velocity + 3 : at_velocity + 6]
    relative = minus(v, plus(own, cross(turn, offset)))
    return _Local(R, times_vector(turned, offset), times_vector(turned, relative))


def from_box(tape: ExpressionGraph, p: Vector, v: Vector, obstacle: list[Value]) -> Distance:
    """Return the distance of a moving point to a box with rounded edges."""
    here = _local(p, v, obstacle, 16)
    half, rounding = obstacle[12:15], obstacle[15]
    sign = [tape.choose(tape.less(x, 0.0), -1.0, 1.0) for x in here.point]
    beyond = [s * x - h for s, x, h in zip(sign, here.point, half, strict=True)]
    outside = [tape.maximum(b, 0.0) for b in beyond]
    length = tape.root(dot(outside, outside))
    apart = tape.less(TINY, length)
    per_length = tape.divide(1.0, tape.maximum(length, TINY))
    # Inside, the closest face determines the direction.
    yz = tape.less(beyond[1], beyond[2])
    deepest = tape.maximum(beyond[0], tape.choose(yz, beyond[2], beyond[1]))
    x_first = tape.less(tape.choose(yz, beyond[2], beyond[1]), beyond[0])
    face = [
        tape.choose(x_first, 1.0, 0.0),
        tape.choose(x_first, 0.0, tape.choose(yz, 0.0, 1.0)),
        tape.choose(x_first, 0.0, tape.choose(yz, 1.0, 0.0)),
    ]
    n = [
        s * tape.choose(apart, o * per_length, f)
        for s, o, f in zip(sign, outside, face, strict=True)
    ]
    u = here.velocity
    rate = dot(n, u)
    # The closest point moves with the point while it projects onto the core, and is fixed beyond
    # its ends. A core without extent never does, not even for a point at exactly the same
    # coordinate.
    free = [tape.choose(tape.less(-TINY, b), x, 0.0) for b, x in zip(beyond, u, strict=True)]
    curvature = tape.choose(apart, (dot(free, free) - rate * rate) * per_length, 0.0)
    value = tape.choose(apart, length, deepest) - rounding
    return Distance(value, times_vector(here.R, n), rate, curvature)


def from_round(tape: ExpressionGraph, p: Vector, v: Vector, obstacle: list[Value]) -> Distance:
    """Return the distance of a moving point to a cylinder or cone, solved in its half section."""
    here = _local(p, v, obstacle, 20)
    half, below, above, normal_across, normal_along = obstacle[12:17]
    x, y, z = here.point
    ux, uy, uz = here.velocity
    across = tape.root(x * x + y * y)
    per_across = tape.divide(1.0, tape.maximum(across, TINY))
    on_axis = tape.less(across, TINY)
    ex = tape.choose(on_axis, 1.0, x * per_across)
    ey = tape.choose(on_axis, 0.0, y * per_across)
    # Bottom and top cover the full width, so that the axis is no special case.
    corners: list[tuple[Value, Value]] = [
        (-below, -half),
        (below, -half),
        (above, half),
        (-above, half),
    ]
    best: list[Value] = []
    for k in range(3):
        dx, dz, inner = _from_segment(
            tape, (across, z), corners[k], corners[k + 1], obstacle[17 + k]
        )
        found = [dx * dx + dz * dz, dx, dz, inner]
        if not best:
            best = found
        else:
            nearer = tape.less(found[0], best[0])
            best = [tape.choose(nearer, new, old) for new, old in zip(found, best, strict=True)]
    squared, dx, dz, inner = best
    length = tape.root(squared)
    per_length = tape.divide(1.0, tape.maximum(length, TINY))
    side = normal_across * (across - below) + normal_along * (z + half)
    z_sign = tape.choose(tape.less(z, 0.0), -1.0, 1.0)
    end = z_sign * z - half
    inside = tape.less(tape.maximum(end, side), 0.0)
    sign = tape.choose(inside, -1.0, 1.0)
    apart, at_end = tape.less(TINY, length), tape.less(side, end)
    n_across = tape.choose(apart, sign * dx * per_length, tape.choose(at_end, 0.0, normal_across))
    n_along = tape.choose(apart, sign * dz * per_length, tape.choose(at_end, z_sign, normal_along))
    u_across = ux * ex + uy * ey
    u_around_squared = ux * ux + uy * uy - u_across * u_across
    rate = n_across * u_across + n_along * uz
    corner = (u_across * u_across + uz * uz - rate * rate) * per_length * (1.0 - inner)
    bend = corner + n_across * u_around_squared * per_across
    outside = tape.choose(inside, 0.0, tape.choose(apart, bend, 0.0))
    n = times_vector(here.R, [n_across * ex, n_across * ey, n_along])
    return Distance(sign * length, n, rate, outside)


def _from_segment(
    tape: ExpressionGraph,
    point: tuple[Value, Value],
    start: tuple[Value, Value],
    end: tuple[Value, Value],
    per_squared_length: Value,
) -> tuple[Value, Value, Value]:
    """Return the offset from the closest point of a segment, and 1 if that is between its ends."""
    way = [end[0] - start[0], end[1] - start[1]]
    offset = [point[0] - start[0], point[1] - start[1]]
    share = dot(way, offset) * per_squared_length
    held = tape.maximum(0.0, tape.minimum(share, 1.0))
    within = tape.choose(tape.less(0.0, share), tape.choose(tape.less(share, 1.0), 1.0, 0.0), 0.0)
    nearest = scaled(held, way)
    return offset[0] - nearest[0], offset[1] - nearest[1], within
