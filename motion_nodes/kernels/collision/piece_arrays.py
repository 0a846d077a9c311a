# SPDX-License-Identifier: Apache-2.0
"""Robots and worlds of convex pieces as arrays, for kernels that look at their true shapes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.kinematic_arrays import Array, IndexArray

POINTS, BOX, CYLINDER, CONE, HALF_SPACE = range(5)
"""Kinds of cores: convex hull of points; half edges; radius and half length about z; radius of the
base and half height about z, apex at the top; everything below z = 0 (never moved, never first)."""

BLOCK = 8
"""Pieces of the world in a block, and blocks in a branch."""
FREE, COLLISION, FULL = range(3)
"""Results: nothing touches; something does; there was not enough memory for the pairs."""


class Pieces(NamedTuple):
    """Convex pieces, see :mod:`motion_nodes.kernels.collision.convex_distance`."""

    kind: IndexArray
    """Of the cores, shape (k,)."""
    size: Array
    """Of the cores, and the radius around them [m], shape (k, 4)."""
    X: Array
    """Pose in the link, or in the world, shape (k, 3, 4)."""
    reach: Array
    """Radius about the pose's origin that holds the piece [m], shape (k,)."""
    first: IndexArray
    """First point of each piece, and the total, shape (k + 1,)."""
    points: Array
    """In the frames of the pieces, shape (p, 3)."""


class PieceBodies(NamedTuple):
    """A robot: its kinematics, see ``PackedArrays``, and what is fixed to its rows."""

    parent: IndexArray
    kind: IndexArray
    X_PJ: Array
    """The first one is the pose of the base in the world, shape (f, 4, 4)."""
    axis: Array
    joint: IndexArray
    multiplier: Array
    offset: Array
    row: IndexArray
    """Row that each body is fixed to, shape (b,)."""
    ball: Array
    """Bounding sphere of each body in its row, shape (b, 4)."""
    first: IndexArray
    """First piece of each body, and the total, shape (b + 1,)."""
    chain_first: IndexArray
    """Where the moving rows of each body begin in ``chain``, and the total, shape (b + 1,)."""
    chain: IndexArray
    """Moving rows between each body and the base, from the body on."""
    pairs: IndexArray
    """PieceBodies that must not touch each other, and how many rows move one but not the other,
    (p, 4).
    """
    pieces: Pieces


class PieceWorld(NamedTuple):
    """The world: its pieces, near ones next to each other, those without an end first."""

    pieces: Pieces
    owner: IndexArray
    """Object of each piece, shape (k,)."""
    boxes: Array
    """Of each piece: minimum x y z and maximum x y z [m], shape (k, 6)."""
    blocks: Array
    """Boxes around each ``BLOCK`` pieces."""
    branches: Array
    """Boxes around each ``BLOCK`` blocks."""
    checked: NDArray[np.int8]
    """Whether an object and a body must not touch, shape (objects, b)."""


class SweepWorkspace(NamedTuple):
    """Scratch of one thread."""

    X: Array
    """Poses of the rows, shape (f, 3, 4)."""
    centres: Array
    """Of the robot's pieces, shape (k, 3)."""
    motion: Array
    """How far a body can move against each row above it [m], shape (b, f + 1)."""
    pose: Array
    """Of two pieces, shape (2, 3, 4)."""
    gjk: Array
    """Shape (6, 3)."""
    q: Array
    """A configuration, and the joints' motion around it, shape (2, n)."""
    ends: Array
    """Stack of pieces of the path, shape (s, 2)."""
    lists: IndexArray
    """And of what has to be looked at there, shape (s, 2)."""
    candidates: IndexArray
    """Pairs of pieces; of bodies, or -1 - body for the world, shape (c, 3)."""


class Table(NamedTuple):
    """All that a sweep needs beside the path."""

    bodies: PieceBodies
    world: PieceWorld
    work: SweepWorkspace
    clearance: float
    """Pieces that are nearer than that are in collision [m]."""


def example() -> Table:
    """Return an empty table, whose types tell kernels how to read one."""
    i, x = np.empty(0, np.int32), np.empty(0)
    xx, xxx = np.empty((0, 0)), np.empty((0, 0, 0))
    ii = np.empty((0, 0), np.int32)
    pieces = Pieces(i, xx, xxx, x, i, xx)
    bodies = PieceBodies(i, i, xxx, xx, i, x, x, i, xx, i, i, i, ii, pieces)
    world = PieceWorld(pieces, i, xx, xx, xx, np.empty((0, 0), np.int8))
    return Table(bodies, world, SweepWorkspace(xxx, xx, xx, xxx, xx, xx, xx, ii, ii), 0.0)
