# SPDX-License-Identifier: Apache-2.0
"""The kinds of leaves that collision code knows, and the registration of further ones."""

from __future__ import annotations

from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.collision.collision_memory import (
    ALIGNED_BOX,
    BOX,
    CAPSULE,
    CONE,
    CYLINDER,
    HALF_SPACE,
    PLANES,
    SPHERE,
    TRIANGLE,
)
from motion_nodes.kernels.expression_graph import ExpressionGraph
from motion_nodes.kernels.formulas import shapes
from motion_nodes.kernels.formulas.shapes import ShapeFormula, signed_distance

KINDS: dict[int, ShapeFormula] = {
    SPHERE: shapes.BALL,
    BOX: shapes.BOX,
    ALIGNED_BOX: shapes.ALIGNED_BOX,
    CYLINDER: shapes.CYLINDER,
    CAPSULE: shapes.CAPSULE,
    CONE: shapes.CONE,
    HALF_SPACE: shapes.HALF_SPACE,
    TRIANGLE: shapes.TRIANGLE,
}
"""Shape of each kind of leaf, except ``PLANES``, the inside of a hull."""

_OWN = len(KINDS)


def add_kind(shape: ShapeFormula) -> int:
    """Register a shape for collision checks, distances and RMPflow; return its kind of leaf.

    Register before the first use: existing tables and code do not include the shape.

    Raises:
        InvalidConfig: another shape has this name.
    """
    for kind, known in KINDS.items():
        if known == shape:
            return kind
        if known.name == shape.name:
            raise InvalidConfig(
                f"a shape '{shape.name}' is already registered; use another name.", field=shape.name
            )
    kind = max(*KINDS, PLANES) + 1
    KINDS[kind] = shape
    return kind


def added_shapes() -> tuple[ShapeFormula, ...]:
    """Return the shapes that :func:`add_kind` added."""
    return tuple(KINDS.values())[_OWN:]


def remove_kind(kind: int) -> None:
    """Remove a kind that :func:`add_kind` returned."""
    if kind > PLANES:
        KINDS.pop(kind, None)


def added_digest() -> str:
    """Return a hash of the formulas of added shapes; empty if there are none."""
    digests = []
    for shape in added_shapes():
        tape = ExpressionGraph()
        x, sizes = ([tape.input(3 * k + i) for i in range(3)] for k in range(2))
        found = signed_distance(tape, shape, x, sizes)
        graph = tape.digest((found.value, *found.direction))
        digests.append(f" {shape.name} {shape.revolved} {shape.rounding} {shape.rotated} {graph}")
    return "".join(digests)
