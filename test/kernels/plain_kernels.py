# SPDX-License-Identifier: Apache-2.0
"""Numba kernels as plain Python: parts can be called singly, without compilation."""

import collections
import importlib
import sys
import types
from typing import Any

import numpy as np

PREFIX = "motion_nodes.kernels."


def _same(function: Any) -> Any:
    return function


class Nearest:
    """Nearest neighbours by brute force, in place of the kernels' index."""

    def __init__(self, period: np.ndarray, leaves: int) -> None:
        self.names, self.used = np.empty((2, leaves)), np.zeros((2, 2), np.int64)
        self.points: list[list[np.ndarray]] = [[], []]
        self.period, self.queried = period, np.empty(0)

    def query(self, q: np.ndarray, weights: np.ndarray) -> None:
        self.queried = q * weights

    def insert(self, tree: int, node: int) -> None:
        self.points[tree][node:] = [self.queried]

    def nearest(self, tree: int) -> tuple[int, float]:
        away = np.array(self.points[tree]) - self.queried
        away -= self.period * np.round(away / self.period)
        squares = (away**2).sum(axis=1)
        return int(squares.argmin()), float(squares.min() ** 0.5)


def _stand_ins() -> dict[str, types.ModuleType]:
    """Return Python stand-ins of the modules that need a compiler.

    The functions of a checker are called with configurations, those of a robot with arrays; tables
    are passed as they are.
    """
    contents = {
        "jit": {
            **dict.fromkeys(("kernel", "bare_kernel", "part", "inlined"), _same),
            **dict.fromkeys(("bare_part", "fused_part"), _same),
        },
        "bridges": {
            "reader": lambda example: _same,
            "Checker": collections.namedtuple("Checker", "state edge memory"),
            "address": _same,
            "state_free": lambda checker, Q, row: checker.state(Q[row]),
            "edge_free": lambda checker, A, a, B, b: checker.edge(A[a], B[b]),
            "call_both": lambda both, q, X, J: both(q, X, J),
        },
        "search.rrt_nearest": {
            **{"Index": Nearest, "make_index": Nearest, "grown": _same, "NO_TURN": 1e9, "LEAF": 8},
            **{name: getattr(Nearest, name) for name in ("query", "insert", "nearest")},
        },
    }
    found = {}
    for name, functions in contents.items():
        module = types.ModuleType(PREFIX + name)
        vars(module).update(functions)
        found[module.__name__] = module
    return found


def plain(module: types.ModuleType) -> Any:
    """Return a copy of a kernel module, and of all that it imports, as plain Python."""
    before = {name: m for name, m in sys.modules.items() if name.startswith(PREFIX)}
    for name in before:
        del sys.modules[name]
    sys.modules.update(_stand_ins())
    try:
        return importlib.import_module(module.__name__)
    finally:
        for name in [name for name in sys.modules if name.startswith(PREFIX)]:
            del sys.modules[name]
        sys.modules.update(before)
        for name, original in before.items():
            parent, _, own = name.rpartition(".")
            setattr(sys.modules[parent], own, original)
