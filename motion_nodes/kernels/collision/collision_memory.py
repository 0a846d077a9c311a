# SPDX-License-Identifier: Apache-2.0
"""Memory layout read by the collision kernels.

One table of integers (``FIELDS``) holds counts and addresses of arrays. Every change creates new
arrays and a new table, so existing tables stay valid. Poses of obstacles are in the robot's base
frame.

The robot consists of *groups*, links joined by fixed joints, and *bodies*, sets of spheres fixed to
a group. The world consists of *leaves*, the convex pieces of objects, in blocks of one SIMD
register; a block of blocks is a *branch*.

Further kinds of leaves can be registered.
"""

from __future__ import annotations

from motion_nodes.errors import InvalidConfig
from motion_nodes.kernels.expression_graph import ExpressionGraph
from motion_nodes.kernels.formulas import shapes
from motion_nodes.kernels.formulas.shapes import ShapeFormula, signed_distance
from motion_nodes.kernels.llvm_builder import FunctionBuilder
from motion_nodes.kernels.memory_layout import FieldLayout, Fields

SPHERE, BOX, ALIGNED_BOX, CYLINDER, CAPSULE, CONE, HALF_SPACE, TRIANGLE, PLANES = range(9)
"""Kinds of leaves."""
LEAF = 24
"""float32 values per leaf: kind and object (both int32), 2 unused, then ``PARAMETERS`` (20)."""
PARAMETERS = FieldLayout(R=9, t=3, size=8)
"""Values of a leaf. A point x in the base frame is at ``R x + t`` in the leaf's frame. Sizes [m]:
radius of a sphere; half edges of a box; radius and half length of a cylinder or a capsule; radius,
half height and inverse slant length [1/m] of a cone; b, c, d of a triangle with corners (0, 0, 0),
(b, 0, 0), (c, d, 0); first index and count (int32) of planes. The fourth is the rounding radius.
"""
FIELDS = FieldLayout(
    place=1,  # address of the robot's function: inputs in lanes -> poses of groups in lanes
    joints=1,  # number of joints of a configuration
    inputs=1,  # number of inputs of that function: the configuration, then the fixed joints
    standing=1,  # positions of the fixed joints [rad or m], float32
    turns=1,  # period of each joint of a configuration, or 0 [rad], float64
    inverse_steps=1,  # 1 / max step on an edge, float64
    groups=1,
    bodies=1,
    spheres=1,  # total number of spheres
    body_groups=1,  # group of each body, int32
    body_firsts=1,  # first sphere of each body, and the total, int32
    body_centres=1,  # centres of the bounding spheres in the group frame, (bodies, 3) float32
    body_radii=1,  # radii of the bounding spheres plus the clearance to the world, float32
    body_self_radii=1,  # the same without clearance, for self-collision pairs
    sphere_centres=1,  # centres of the spheres in the group frame, (spheres, 3) float32
    sphere_radii=1,
    sphere_self_radii=1,
    pairs=1,  # number of checked body pairs
    pair_bodies=1,  # checked body pairs, (pairs, 2) int32
    leaf_count=1,  # number of leaves of the world
    branches=1,
    branch_boxes=1,  # (branches, 6, lanes) float32: min x y z, max x y z of each block
    block_boxes=1,  # (blocks, 6, lanes) float32: the same for each leaf
    leaves=1,  # (blocks * lanes, LEAF) float32
    checked=1,  # (objects, bodies) int8: whether the pair is checked
    planes=1,  # (planes, 4) float32: outward normal and offset, in the base frame
)
WRAP_LIMIT = 1e6
"""Max absolute joint position after removing full turns [rad or m]; beyond it: in collision."""
LONGEST_EDGE = 1e7
"""Max length of an edge [steps]; longer edges are reported as in collision."""
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


def table_of(flow: FunctionBuilder) -> Fields:
    """Return the table, the argument ``h`` of a function."""
    return Fields(flow.pointer("h"), FIELDS)


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
