# SPDX-License-Identifier: Apache-2.0
"""Reusable solver workspaces, and the tables of random seeds."""

from __future__ import annotations

from collections.abc import Mapping

from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkSettings
from motion_nodes.ik.seeds import StartTable
from motion_nodes.ik.workspace import SolverMemory

_KEPT_TABLES = 8
"""Number of stored tables of random configurations, one per random seed in use."""


class MemoryPool:
    """Provides a workspace for each active solve; thread-safe."""

    def __init__(self, chain: IkChain, settings: IkSettings) -> None:
        """Sample the first random configurations of ``settings``."""
        self._chain = chain
        self._tables: dict[tuple[int, int], StartTable] = {}
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
        key = (settings.random_seed, settings.sampling_order)
        table = self._tables.get(key)
        if table is None:
            table = StartTable(self._chain, *key)
            tables = dict(list(self._tables.items())[1 - _KEPT_TABLES :])
            self._tables = {**tables, key: table}
        return table
