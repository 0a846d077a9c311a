# SPDX-License-Identifier: Apache-2.0
"""Reusable workspaces of a solver, with the inputs that do not change between solves.

Tables of random seeds contain configurations of a chain, with features to find those close to a
target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkSettings, IkTolerance, locked_position
from motion_nodes.errors import UnknownJoint
from motion_nodes.kernels.ik.ik_step import BLOCK, FEATURES, LANES, IkWorkspace
from motion_nodes.typing import Array

PIECE = 100
"""Blocks per piece of the table; each block gives one seed."""
_BEYOND = 2.5
"""Range of samples whose joints are then often at their limits, relative to that of the joints."""
_KEPT = 4
"""Number of stored pieces; further pieces are sampled each time."""
STEPS = 256
"""Steps between checks of the timeout: some 0.1 ms."""
_KEPT_TABLES = 2
"""Number of stored tables of random configurations, one per random seed in use."""


class StartTable:
    """Random configurations of a chain, sampled piece by piece on demand.

    Thread-safe: a piece that two threads create concurrently is the same.
    """

    def __init__(self, chain: IkChain, random_seed: int) -> None:
        self._chain = chain
        self._seed = random_seed
        self._pieces: dict[int, tuple[Array, NDArray[np.float32]]] = {}
        self._low, self._high = _range(chain)

    def piece(self, index: int) -> tuple[Array, NDArray[np.float32]]:
        """Return configurations, shape (PIECE * BLOCK, n), and features, (PIECE, FEATURES, BLOCK).

        They are uniform, in every second block after the first ones from beyond the range of the
        joints and then clipped: means of several uniform numbers (Irwin-Hall distribution) miss
        solutions.
        """
        piece = self._pieces.get(index)
        if piece is None:
            rng = np.random.default_rng([self._seed, index])
            count, n = PIECE * BLOCK, len(self._low)
            shares = rng.uniform(size=(count, n))
            # Solutions with several joints at their limits are hardly found from other
            # configurations; the first lanes have others, which solve most poses.
            block = np.arange(count) // BLOCK
            edge = (block >= LANES) & (block % 2 == 1)
            shares[edge] = np.clip(_BEYOND * (shares[edge] - 0.5) + 0.5, 0.0, 1.0)
            Q = self._low + shares * (self._high - self._low)
            X = self._chain.kinematics.pose_batch(Q, self._chain.tip)
            rows = np.empty((count, FEATURES))
            rows[:, 0] = np.einsum("ij,ij->i", X[:, :3, 3], X[:, :3, 3])
            rows[:, 1:4] = X[:, :3, 3]
            rows[:, 4:] = X[:, :3, :3].reshape(count, 9)
            blocks = rows.reshape(PIECE, BLOCK, FEATURES).transpose(0, 2, 1)
            piece = Q, np.ascontiguousarray(blocks, np.float32)
            if index < _KEPT:
                self._pieces[index] = piece
        return piece


def _range(chain: IkChain) -> tuple[Array, Array]:
    """Return the sampling range of each joint: within the limits, and within one turn."""
    centre, low, high = chain.centre, chain.lower.copy(), chain.upper.copy()
    turning = np.zeros(len(low), dtype=bool)
    turning[list(chain.turning)] = True
    low[turning], high[turning] = centre[turning] - math.pi, centre[turning] + math.pi
    # The rest: unlimited joints with relevant turns, and unlimited prismatic joints.
    low = np.where(np.isinf(low), centre - math.pi, low)
    return low, np.where(np.isinf(high), centre + math.pi, high)


class SolverMemory:
    """The kernel's workspace, prepared for one chain, settings and locked joints."""

    settings: IkSettings
    tolerance: IkTolerance
    free: NDArray[np.bool_]
    """Which error components are unconstrained, shape (6,)."""
    any_free: bool

    def __init__(self, chain: IkChain, settings: IkSettings, table: StartTable) -> None:
        self.chain = chain
        self.work = IkWorkspace(len(chain.joint_names))
        # Position weight [1/m]: makes 1 m of position error comparable to 1 rad. 2 / arm length
        # worked best in benchmarks.
        self.work.weight[0] = 2.0 / chain.size if chain.size > 1e-6 else 1.0
        # A single seed is copied here: getting the address of a new array takes longer.
        self._seed = np.empty(self.work.n)
        self._seed_address = int(self._seed.ctypes.data)
        self.settings = settings
        self._begun: tuple[int, int, bool] | None = None
        self._locked: dict[str, float] | None = None
        self._table = table
        self._write_tolerance(settings.tolerance)
        self._write_piece(0)

    def prepare(self, settings: IkSettings, table: StartTable, locked: Mapping[str, float]) -> None:
        """Write the inputs that depend on these, unless unchanged.

        Args:
            settings: of the solver.
            table: random configurations.
            locked: positions of locked joints [rad or m].

        Raises:
            UnknownJoint: a locked joint is not in the chain.
            InvalidCommand: a locked joint is outside its limits.
        """
        if self._locked is None or locked or self._locked:
            self._locked = None  # invalid until the limits are written
            self._write_limits(locked)
            self._locked = dict(locked)
        if self.settings is not settings:
            self._begun = None
            if self.tolerance is not settings.tolerance:
                self._write_tolerance(settings.tolerance)
            self.settings = settings
        if self._table is not table or self._piece != 0:
            self._table = table
            self._write_piece(0)

    def begin_with(self, starts: Array, *, wait: bool) -> None:
        """Begin with given seeds, shape (m, n), which must stay alive during the solve."""
        if len(starts) == 1:
            self._seed[...] = starts[0]
            self.begin(1, self._seed_address, wait=wait)
        else:
            self.begin(len(starts), starts.ctypes.data, wait=wait)

    def begin(self, given: int, address: int, *, wait: bool) -> None:
        """Write the inputs of a solve except the target.

        Args:
            given: number of given seeds.
            address: of the first of them.
            wait: whether the first of them is preferred.
        """
        if self._begun == (given, address, wait):
            return
        settings = self.settings
        attempts, steps = settings.attempts, STEPS
        if settings.max_iterations is not None:
            attempts = min(attempts, settings.max_iterations)
            steps = min(STEPS, max(1, settings.max_iterations // LANES))
        used = min(given, attempts)
        self.work.set(given=used, starts=address, attempts=min(attempts, used + PIECE))
        self.work.set(grant=steps, prefer=int(wait))
        self._begun = (given, address, wait)

    def forget(self) -> None:
        """Make the next :meth:`begin` write everything, because the kernel has changed it."""
        self._begun = None

    def grant_steps(self) -> bool:
        """Add to the step budget; return False if the max number of iterations is reached."""
        limit = self.settings.max_iterations
        if limit is None:
            return True  # same budget as before
        self._begun = None
        left = limit - self.work.get("iterations")
        if left >= LANES:
            self.work.set(grant=min(STEPS, left // LANES))
            return True
        # Fewer steps than lanes: deactivate the surplus lanes, and start no new ones.
        live = [1 << i for i in range(LANES) if self.work.get("live") >> i & 1]
        self.work.set(grant=1, live=sum(live[: max(left, 0)]), attempts=self.work.get("next"))
        return left > 0

    def next_piece(self, used: int) -> bool:
        """Continue with more random seeds.

        Args:
            used: number of seeds of the previous pieces.

        Returns:
            False if no seed is left.
        """
        left = self.settings.attempts - used
        limit = self.settings.max_iterations
        if left <= 0 or (limit is not None and self.work.get("iterations") >= limit):
            return False
        self._begun = None
        self._write_piece(self._piece + 1)
        self.work.set(given=0, next=0, attempts=min(left, PIECE), discard=(1 << LANES) - 1)
        return True

    def _write_piece(self, index: int) -> None:
        self._piece = index
        # Stored, because the kernel only has their addresses.
        self._arrays = self._table.piece(index)
        configurations, features = self._arrays
        self.work.set(table=configurations.ctypes.data, features=features.ctypes.data)

    def _write_limits(self, locked: Mapping[str, float]) -> None:
        work, chain = self.work, self.chain
        work.lower[:], work.upper[:] = chain.lower, chain.upper
        for name, value in locked.items():
            if name not in chain.joint_names:
                raise UnknownJoint(name, chain.joint_names, f"the chain to '{chain.tip}'")
            k = chain.joint_names.index(name)
            low, high = float(chain.lower[k]), float(chain.upper[k])
            work.lower[k] = work.upper[k] = locked_position(name, value, low, high)

    def _write_tolerance(self, tolerance: IkTolerance) -> None:
        work, axes, lengths = self.work, tolerance.axes, tolerance.lengths
        self.tolerance = tolerance
        self.free = tolerance.free
        self.any_free = bool(self.free.any())
        # Per-axis tolerance: use half of it as a dead zone.
        work.slack[:] = np.where(np.isfinite(axes), 0.5 * axes, np.where(self.free, np.inf, 0.0))
        work.box[:] = axes
        work.tolerance[:] = lengths**2
        counts = ~self.free
        work.importance[:] = float(counts[:3].any()) * work.weight[0] ** 2, float(counts[3:].any())


class MemoryPool:
    """Provides a workspace for each active solve; thread-safe."""

    def __init__(self, chain: IkChain, settings: IkSettings) -> None:
        """Sample the first random configurations of ``settings``."""
        self._chain = chain
        self._tables: dict[int, StartTable] = {}
        self._idle: list[SolverMemory] = []
        self._table(settings).piece(0)

    def take(self, settings: IkSettings, locked: Mapping[str, float]) -> SolverMemory:
        """Return an unused workspace; threads and nested validity checks have their own.

        Args:
            settings: settings to prepare it for.
            locked: positions of locked joints [rad or m].

        Raises:
            UnknownJoint: a locked joint is not in the chain.
            InvalidCommand: a locked joint is outside its limits.
        """
        table = self._table(settings)
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = SolverMemory(self._chain, settings, table)
        memory.prepare(settings, table, locked)
        return memory

    def give_back(self, memory: SolverMemory) -> None:
        """Return a workspace to the pool."""
        self._idle.append(memory)

    def _table(self, settings: IkSettings) -> StartTable:
        """Return the random configurations of some settings."""
        seed = settings.random_seed
        table = self._tables.get(seed)
        if table is None:
            table = StartTable(self._chain, seed)
            tables = dict(list(self._tables.items())[1 - _KEPT_TABLES :])
            self._tables = {**tables, seed: table}
        return table
