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
)
from motion_nodes.typing import Array

_PAIRS, _MOST_PAIRS = 4096, 1 << 22
"""Initial and max capacity for pairs of pieces."""
_STACK = 64


class SweepMemory:
    """A robot for the kernel, with scratch memory that grows on demand; used by one thread."""

    def __init__(self, bodies: PieceBodies, joints: int) -> None:
        """Allocate the memory; call :meth:`enter` before a check.

        Args:
            bodies: the robot.
            joints: number of the robot's joints.
        """
        # Imported on demand: Numba takes a quarter of a second to import.
        from motion_nodes.kernels.array_bridge import table_of
        from motion_nodes.kernels.collision.path_sweep import sweep

        self._bodies, self._joints = bodies, joints
        self._sweep, self._table_of = sweep, table_of
        self._surroundings: tuple[PieceWorld, float] | None = None
        self._of_bodies = table_of(bodies)
        self._reserve(_PAIRS)

    def enter(self, world: PieceWorld, clearance: float = 0.0) -> None:
        """Check against a world from now on.

        Args:
            world: the world.
            clearance: min allowed distance from it [m].
        """
        last = self._surroundings
        if last is None or last[0] is not world or last[1] != clearance:
            self._surroundings = world, clearance
            self._assemble()

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
            self._assemble()

    def _reserve(self, room: int) -> None:
        """Allocate memory for pairs of pieces."""
        bodies, self._room = self._bodies, room
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
        self._of_work = self._table_of(self.work)

    def _assemble(self) -> None:
        """Set the kernel's table: the fields of :class:`~.piece_arrays.Table`, in order."""
        assert self._surroundings is not None
        world, clearance = map(self._table_of, ((self._surroundings[0],), self._surroundings[1:]))
        self._table = np.concatenate((self._of_bodies, world, self._of_work, clearance))
