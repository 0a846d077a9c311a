# SPDX-License-Identifier: Apache-2.0
"""Robots and worlds of convex pieces as arrays, for kernels that check the exact geometry."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.typing import Array, IndexArray

POINTS, BOX, CYLINDER, CONE, HALF_SPACE = range(5)
"""Kinds of cores: convex hull of points; box (half edges); cylinder (radius and half length about
z); cone (radius of the base and half height about z, apex at the top); half space below z = 0
(only in the world, so never the first piece of a pair).
"""

BLOCK = 8
"""Pieces of the world per block, and blocks per branch."""
FREE, COLLISION, FULL = range(3)
"""Results: collision-free; in collision; not enough memory for the pairs."""


class Pieces(NamedTuple):
    """Convex pieces, see :mod:`motion_nodes.kernels.collision.path_sweep`."""

    kind: IndexArray
    """Kind of each core, shape (k,)."""
    size: Array
    """Sizes of each core, and its rounding radius [m], shape (k, 4)."""
    X: Array
    """Pose in the body's row, or in the world, shape (k, 3, 4)."""
    reach: Array
    """Radius of the sphere about the pose's origin that contains the piece [m], shape (k,)."""
    first: IndexArray
    """First point of each piece, and the total, shape (k + 1,)."""
    points: Array
    """Points in the frames of their pieces [m], shape (p, 3)."""


class PieceBodies(NamedTuple):
    """A robot: its kinematics, see ``PackedArrays``, and the bodies fixed to its rows."""

    parent: IndexArray
    kind: IndexArray
    X_PJ: Array
    """Joint frames in their parents; the first one is the base in the world; shape (f, 4, 4)."""
    axis: Array
    joint: IndexArray
    multiplier: Array
    offset: Array
    row: IndexArray
    """Row that each body is fixed to, shape (b,)."""
    ball: Array
    """Bounding sphere of each body in its row: centre and radius [m], shape (b, 4)."""
    first: IndexArray
    """First piece of each body, and the total, shape (b + 1,)."""
    chain_first: IndexArray
    """Start of each body's moving rows in ``chain``, and the total, shape (b + 1,)."""
    chain: IndexArray
    """Moving rows between each body and the base, starting at the body."""
    pairs: IndexArray
    """Checked pairs of bodies, and the numbers of rows that move only one of them, shape (p, 4)."""
    apart: Array
    """Min allowed distance of each pair [m], shape (p,)."""
    pieces: Pieces


class PieceWorld(NamedTuple):
    """The world: its pieces, sorted by location, unbounded ones first."""

    pieces: Pieces
    owner: IndexArray
    """Object of each piece, shape (k,)."""
    boxes: Array
    """Bounding box of each piece: min x y z and max x y z [m], shape (k, 6)."""
    blocks: Array
    """Bounding boxes of ``BLOCK`` pieces each [m], 6 columns as ``boxes``."""
    branches: Array
    """Bounding boxes of ``BLOCK`` blocks each [m], 6 columns as ``boxes``."""
    checked: NDArray[np.int8]
    """Whether an object and a body are checked, shape (objects, b)."""


class SweepWorkspace(NamedTuple):
    """Scratch of one thread."""

    X: Array
    """Poses of the rows, shape (f, 3, 4)."""
    centres: Array
    """Centres of the robot's pieces [m], shape (k, 3)."""
    motion: Array
    """Bound of a body's motion relative to each row above it [m], shape (b, f + 1)."""
    pose: Array
    """Poses of two pieces, shape (2, 3, 4)."""
    gjk: Array
    """Scratch of the distance computation, shape (6, 3)."""
    q: Array
    """A configuration, and the max motion of each joint around it [rad or m], shape (2, n)."""
    ends: Array
    """Stack of path segments: path parameters of their ends, shape (s, 2)."""
    lists: IndexArray
    """First and end of each segment's rows in ``candidates``, shape (s, 2)."""
    candidates: IndexArray
    """Two pieces, and their pair of bodies, or -1 - body for the world; shape (c, 3)."""


class Table(NamedTuple):
    """Inputs of a sweep except the path."""

    bodies: PieceBodies
    world: PieceWorld
    work: SweepWorkspace
    clearance: float
    """Min allowed distance from the world [m]."""


def example() -> Table:
    """Return an empty table, from whose types :func:`~.array_bridge.reader` is generated."""
    i, x = np.empty(0, np.int32), np.empty(0)
    xx, xxx = np.empty((0, 0)), np.empty((0, 0, 0))
    ii = np.empty((0, 0), np.int32)
    pieces = Pieces(i, xx, xxx, x, i, xx)
    bodies = PieceBodies(i, i, xxx, xx, i, x, x, i, xx, i, i, i, ii, x, pieces)
    world = PieceWorld(pieces, i, xx, xx, xx, np.empty((0, 0), np.int8))
    return Table(bodies, world, SweepWorkspace(xxx, xx, xx, xxx, xx, xx, xx, ii, ii), 0.0)
