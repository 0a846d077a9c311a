# SPDX-License-Identifier: Apache-2.0
"""Memories of solves that are used again, and the random starts that they draw from."""

from __future__ import annotations

from collections.abc import Mapping

from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkSettings
from motion_nodes.ik.seeds import StartTable
from motion_nodes.ik.workspace import SolverMemory

_KEPT_TABLES = 8
"""Tables of random starts that are kept, one for each random seed in use."""


class MemoryPool:
    """Has a memory for each solve under way; may be used by several threads."""

    def __init__(self, chain: IkChain, settings: IkSettings) -> None:
        """Draw the first random starts of ``settings``."""
        self._chain = chain
        self._tables: dict[tuple[int, int], StartTable] = {}
        self._idle: list[SolverMemory] = []
        self._table(settings).piece(0)

    def take(self, settings: IkSettings, locked: Mapping[str, float]) -> SolverMemory:
        """Return a memory that nobody uses: threads, and judges that ask again, have their own.

        Args:
            settings: that it is prepared for.
            locked: joints that stay where they are.

        Raises:
            UnknownJoint: a locked joint is not one of the chain's.
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
        """Let others use a memory."""
        self._idle.append(memory)

    def _table(self, settings: IkSettings) -> StartTable:
        """Return the random starts of some settings."""
        key = (settings.random_seed, settings.sampling_order)
        table = self._tables.get(key)
        if table is None:
            table = StartTable(self._chain, *key)
            tables = dict(list(self._tables.items())[1 - _KEPT_TABLES :])
            self._tables = {**tables, key: table}
        return table
