# SPDX-License-Identifier: Apache-2.0
"""The memory that collision kernels read: what stands where.

One table of whole numbers (``FIELDS``) holds counts and the addresses of arrays; a change makes new
arrays and a new table, so whoever holds an old table can go on using it. Poses of obstacles are in
the robot's base.

The robot is *groups*, which move as one (links that fixed joints join), and *bodies*, sets of
spheres that are fixed to a group. The world is *leaves*, convex pieces of objects, in blocks of one
register full; a block of blocks is a *branch*.
"""

from __future__ import annotations

from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.ik.ik_memory import FieldLayout

SPHERE, BOX, ALIGNED_BOX, CYLINDER, CAPSULE, CONE, HALF_SPACE, TRIANGLE, PLANES = range(9)
"""Kinds of leaves."""

LEAF = 24
"""float32 of a leaf: kind and object (int32 both), spare, then 20 numbers, see ``PARAMETERS``."""

PARAMETERS = FieldLayout(R=9, t=3, size=8)
"""Numbers of a leaf. A point x of the base is at ``R x + t`` in the leaf's frame. Sizes: radius of
a sphere; half edges of a box; radius and half length of a cylinder or a capsule; radius and half
height of a cone; of a triangle with corners (0, 0, 0), (b, 0, 0), (c, d, 0): b, c, d; of planes
the first one and how many (int32)."""

FIELDS = FieldLayout(
    place=1,  # address of the robot's own function: inputs in lanes -> poses of groups in lanes
    joints=1,  # in a configuration
    inputs=1,  # of that function: the configuration, then joints that stand still
    standing=1,  # positions of the latter, float32
    turns=1,  # full turn of each joint of a configuration, or 0 [rad], float64
    inverse_steps=1,  # 1 / greatest step on an edge, float64
    groups=1,
    bodies=1,
    spheres=1,  # in all
    body_groups=1,  # of each body, int32
    body_firsts=1,  # first sphere of each body, and the total, int32
    body_centres=1,  # of the bounding spheres in the group, (bodies, 3) float32
    body_radii=1,  # of the bounding spheres, with the clearance from the world, float32
    body_self_radii=1,  # the same with half the clearance: two of them make the whole
    sphere_centres=1,  # in the group, (spheres, 3) float32
    sphere_radii=1,
    sphere_self_radii=1,
    pairs=1,  # how many pairs of bodies must not touch
    pair_bodies=1,  # (pairs, 2) int32
    leaf_count=1,  # of the world
    branches=1,
    branch_boxes=1,  # (branches, 6, lanes) float32: least x y z, greatest x y z of each block
    block_boxes=1,  # (blocks, 6, lanes) float32: the same of each leaf
    leaves=1,  # (blocks * lanes, LEAF) float32
    checked=1,  # (objects, bodies) int8: whether they must not touch
    planes=1,  # (planes, 4) float32: outward normal and offset, in the base
)

WRAP_LIMIT = 1e6
"""Beyond it no joint value counts as a position, after full turns were taken off [rad or m]."""
LONGEST_EDGE = 1e7
"""Longest edge in steps that is checked; longer ones are not free."""


def field(flow: FunctionBuilder, name: str) -> str:
    """Return a whole number of the table."""
    return flow.get("%h", FIELDS[name], "i64")


def array(flow: FunctionBuilder, name: str) -> str:
    """Return an array of the table."""
    return flow.get("%h", FIELDS[name], "ptr")
