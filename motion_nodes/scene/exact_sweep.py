# SPDX-License-Identifier: Apache-2.0
"""The compiled sweep of the exact geometry, with memory that grows on demand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.collision.piece_arrays import (
    FREE,
    FULL,
    PieceBodies,
    PieceWorld,
    SweepWorkspace,
    Table,
)
from motion_nodes.model.tree import Array

_PAIRS, _MOST_PAIRS = 4096, 1 << 22
"""Initial and max capacity for pairs of pieces."""
_STACK = 64


class SweepMemory:
    """A robot and a world for the kernel, with scratch memory that grows on demand."""

    def __init__(
        self, bodies: PieceBodies, world: PieceWorld, joints: int, clearance: float = 0.0
    ) -> None:
        """Allocate the memory.

        Args:
            bodies: the robot.
            world: the world.
            joints: number of the robot's joints.
            clearance: min allowed distance from the world [m].
        """
        # Imported on demand: Numba takes a quarter of a second to import.
        from motion_nodes.kernels.array_bridge import table_of
        from motion_nodes.kernels.collision.path_sweep import sweep

        self.bodies, self.world = bodies, world
        self._joints, self._clearance = joints, clearance
        self._sweep, self._table_of = sweep, table_of
        self._reserve(_PAIRS)

    def sweep(
        self,
        path: Array,
        places: Array,
        roots: int = 0,
        finest: float = 0.0,
        most: int = 1,
    ) -> tuple[bool, Array, NDArray[np.int32]]:
        """Check a path, see :func:`motion_nodes.kernels.collision.path_sweep.sweep`.

        Args:
            path: waypoints of all joints, shape (k, n).
            places: their path parameters, shape (k,).
            roots: number of initial segments.
            finest: length up to which a segment with a collision-free middle is collision-free.
            most: max number of contacts.

        Returns:
            Whether it is collision-free, the kernel's statistics, and the contacts.
        """
        variation = np.zeros_like(path)
        np.cumsum(np.abs(np.diff(path, axis=0)), axis=0, out=variation[1:])
        contacts, out = np.empty((most, 3), np.int32), np.empty(4)
        return self._run(path, places, variation, roots, finest, contacts, out), out, contacts

    def free_states(self, Q: Array) -> NDArray[np.bool_]:
        """Return which configurations of all joints, shape (m, n), are collision-free."""
        place, still = np.zeros(1), np.zeros((1, Q.shape[1]))
        contacts, out = np.empty((1, 3), np.int32), np.empty(4)
        free = [self._run(q, place, still, 0, 0.0, contacts, out) for q in Q[:, np.newaxis]]
        return np.array(free, np.bool_)

    def _run(self, *arguments: Any) -> bool:
        """Call the kernel, with more memory if needed; return whether the path is free."""
        while True:
            found = self._sweep(self._table, *arguments)
            if found != FULL or self._room >= _MOST_PAIRS:
                return bool(found == FREE)
            self._reserve(4 * self._room)

    def _reserve(self, room: int) -> None:
        """Allocate memory for pairs of pieces."""
        bodies, self._room = self.bodies, room
        rows = len(bodies.parent)
        self.work = SweepWorkspace(
            X=np.zeros((rows, 3, 4)),
            centres=np.zeros((len(bodies.pieces.kind), 3)),
            motion=np.zeros((len(bodies.row), rows + 1)),
            pose=np.zeros((2, 3, 4)),
            gjk=np.zeros((6, 3)),
            q=np.zeros((2, self._joints)),
            ends=np.zeros((_STACK, 2)),
            lists=np.zeros((_STACK, 2), np.int32),
            candidates=np.zeros((room, 3), np.int32),
        )
        self._kept = Table(bodies, self.world, self.work, self._clearance)
        self._table = self._table_of(self._kept)
