# SPDX-License-Identifier: Apache-2.0
"""Distances of points to shapes, written once for collision tests, distances and RMPflow.

A shape is the set of points within a *rounding* radius of its *core*; a capsule, for example, is a
segment with a radius. Each formula finds the point of the core closest to a given point. Sources:
Ericson, Real-Time Collision Detection (2005), chapter 5, and elementary geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from motion_nodes.kernels.formulas.ops import TINY, Ops, dot


@dataclass(frozen=True)
class Nearest:
    """A point relative to the core of a shape."""

    squared: Any
    """Squared distance from the core [m^2]; 0 inside it."""
    offset: Sequence[Any]
    """Vector from the closest point of the core [m]; any value inside."""
    depth: Any = 0.0
    """Signed distance inside the core, at most 0 [m]; any value outside."""
    normal: Sequence[Any] = (1.0, 0.0, 0.0)
    """Unit vector along which that distance increases."""


Formula = Callable[[Ops, Sequence[Any], Sequence[Any]], Nearest]
"""``formula(ops, x, sizes)`` for a point x in the shape's frame [m]."""


@dataclass(frozen=True)
class ShapeFormula:
    """Formula of the distance to one kind of shape."""

    name: str
    """Identifier, for names of functions in generated code."""
    nearest: Formula
    """The formula."""
    revolved: bool = False
    """Whether the shape is a solid of revolution about z; its formula then takes and returns
    vectors of two elements, distance from the axis and z."""
    rounding: int | None = None
    """Index of the rounding radius among the sizes, if any; 3: after the three sizes that the
    formula receives."""
    rotated: bool = True
    """Whether the orientation matters; False for spheres and for shapes whose axes are always
    parallel to those of the base."""


@dataclass(frozen=True)
class SignedDistance:
    """Signed distance of a point to the core of a shape."""

    value: Any
    """Negative inside [m]."""
    direction: list[Any]
    """Unit vector along which it increases, in the shape's frame."""
    inside: Any
    """Condition: whether the point is in the core."""
    length: Any
    """Distance from the core, 0 inside [m]."""


def square_distance(ops: Ops, shape: ShapeFormula, x: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """Return the squared distance of a point to the core of a shape, 0 inside [m^2]."""
    if not shape.revolved:
        return shape.nearest(ops, x, sizes).squared
    across = ops.root(dot(x[:2], x[:2]))
    return shape.nearest(ops, [across, x[2]], sizes).squared


def signed_distance(
    ops: Ops, shape: ShapeFormula, x: Sequence[Any], sizes: Sequence[Any]
) -> SignedDistance:
    """Return the signed distance of a point to the core of a shape; subtract the rounding.

    Args:
        ops: operations.
        shape: the shape.
        x: point in the shape's frame [m], three elements.
        sizes: sizes of the shape, up to three [m].
    """
    point, radial = x, [1.0, 0.0]
    if shape.revolved:
        across, radial = _unit(ops, x[:2], (1.0, 0.0))
        point = [across, x[2]]
    found = shape.nearest(ops, point, sizes)
    length = ops.root(found.squared)
    inside = ops.less(length, TINY)
    inverse = ops.divide(1.0, ops.maximum(length, TINY))
    direction = [
        ops.choose(inside, n, o * inverse) for n, o in zip(found.normal, found.offset, strict=True)
    ]
    if shape.revolved:
        outward, along = direction
        direction = [outward * radial[0], outward * radial[1], along]
    return SignedDistance(ops.choose(inside, found.depth, length), direction, inside, length)


def _unit(ops: Ops, offset: Sequence[Any], fallback: Sequence[float]) -> tuple[Any, list[Any]]:
    """Return length and direction of a vector; ``fallback`` where it is zero."""
    length = ops.root(dot(offset, offset))
    inverse = ops.divide(1.0, ops.maximum(length, TINY))
    zero = ops.less(length, TINY)
    return length, [ops.choose(zero, b, a * inverse) for a, b in zip(offset, fallback, strict=True)]


def with_sign_of(ops: Ops, size: Any, x: Any) -> Any:
    """Return ``size`` with the sign of ``x``; positive at 0."""
    return ops.choose(ops.less(x, 0.0), -size, size)


def ball(ops: Ops, x: Sequence[Any], sizes: Sequence[Any]) -> Nearest:
    """Sphere: a point with a radius."""
    return Nearest(dot(x, x), x)


def box(ops: Ops, x: Sequence[Any], sizes: Sequence[Any]) -> Nearest:
    """Box in two or three dimensions; sizes are half edges."""
    beyond = [ops.absolute(a) - half for a, half in zip(x, sizes, strict=False)]
    outside = [ops.maximum(b, 0.0) for b in beyond]
    depth: Any = beyond[0]
    face: list[Any] = [1.0]  # the first of equally close faces
    for value in beyond[1:]:
        nearer = ops.less(depth, value)
        face = [*(ops.choose(nearer, 0.0, f) for f in face), ops.choose(nearer, 1.0, 0.0)]
        depth = ops.maximum(value, depth)
    return Nearest(
        dot(outside, outside),
        [with_sign_of(ops, o, a) for o, a in zip(outside, x, strict=True)],
        depth,
        [with_sign_of(ops, f, a) for f, a in zip(face, x, strict=True)],
    )


def capsule(ops: Ops, x: Sequence[Any], sizes: Sequence[Any]) -> Nearest:
    """Capsule: a segment along z with a radius; sizes are radius and half length."""
    beyond = ops.maximum(ops.absolute(x[2]) - sizes[1], 0.0)
    size = [*x[:2], beyond]
    return Nearest(dot(size, size), [*x[:2], with_sign_of(ops, beyond, x[2])])


def cone(ops: Ops, x: Sequence[Any], sizes: Sequence[Any]) -> Nearest:
    """Cone in its half plane, base at -half, apex at +half.

    Sizes are radius, half height, and the inverse length of the slant [1/m].
    """
    radius, half, per_length = sizes
    height = half + half
    # The slant runs from the rim, here (0, 0), to the apex at (-radius, height).
    beyond_rim, above_base = x[0] - radius, x[1] + half
    up = (above_base * height - beyond_rim * radius) * (per_length * per_length)
    share = ops.minimum(ops.maximum(up, 0.0), 1.0)
    to_slant = [beyond_rim + share * radius, above_base - share * height]
    to_base = [ops.maximum(beyond_rim, 0.0), above_base]
    slant, base = dot(to_slant, to_slant), dot(to_base, to_base)
    outward = [height * per_length, radius * per_length]
    over_slant = beyond_rim * outward[0] + above_base * outward[1]
    depth = ops.maximum(over_slant, -above_base)
    nearer = ops.less(base, slant)
    below = ops.less(over_slant, -above_base)
    return Nearest(
        ops.choose(ops.less(depth, 0.0), 0.0, ops.minimum(base, slant)),
        [ops.choose(nearer, a, b) for a, b in zip(to_base, to_slant, strict=True)],
        depth,
        [ops.choose(below, a, b) for a, b in zip((0.0, -1.0), outward, strict=True)],
    )


def half_space(ops: Ops, x: Sequence[Any], sizes: Sequence[Any]) -> Nearest:
    """Half space below z = 0."""
    above = ops.maximum(x[2], 0.0)
    return Nearest(above * above, [0.0, 0.0, above], x[2], (0.0, 0.0, 1.0))


def triangle(ops: Ops, x: Sequence[Any], sizes: Sequence[Any]) -> Nearest:
    """Triangle (0, 0), (b, 0), (c, d) in the plane z = 0; sizes are b, c, d. It has no inside."""
    (u, v, w), (b, c, d) = x, sizes
    corners = ((0.0, 0.0), (b, 0.0), (c, d))
    nearest: Any = None
    for (au, av), (bu, bv) in zip(corners, (*corners[1:], corners[0]), strict=True):
        edge, to = [bu - au, bv - av], [u - au, v - av]
        share = dot(edge, to) * ops.divide(1.0, dot(edge, edge))
        share = ops.minimum(ops.maximum(share, 0.0), 1.0)
        offset = [to[0] - share * edge[0], to[1] - share * edge[1]]
        square, left = dot(offset, offset), edge[0] * to[1] - edge[1] * to[0]
        if nearest is None:
            nearest, beside, inner = square, offset, left
            continue
        nearer = ops.less(square, nearest)
        beside = [ops.choose(nearer, new, old) for new, old in zip(offset, beside, strict=True)]
        nearest, inner = ops.minimum(square, nearest), ops.minimum(left, inner)
    outside = ops.less(inner, 0.0)
    return Nearest(
        w * w + ops.choose(outside, nearest, 0.0),
        [*(ops.choose(outside, value, 0.0) for value in beside), w],
        normal=(0.0, 0.0, 1.0),
    )


BALL = ShapeFormula("sphere", ball, rounding=0, rotated=False)
BOX = ShapeFormula("box", box)
ALIGNED_BOX = ShapeFormula("aligned_box", box, rotated=False)
CYLINDER = ShapeFormula("cylinder", box, revolved=True)
CAPSULE = ShapeFormula("capsule", capsule, rounding=0)
CONE = ShapeFormula("cone", cone, revolved=True)
HALF_SPACE = ShapeFormula("half_space", half_space)
TRIANGLE = ShapeFormula("triangle", triangle)
