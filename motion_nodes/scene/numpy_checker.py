# SPDX-License-Identifier: Apache-2.0
"""Python callbacks in place of generated checks, so that planner kernels run without them."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.scene.contacts import KernelChecker

_NUMBERS = ctypes.POINTER(ctypes.c_double)
_State = ctypes.CFUNCTYPE(ctypes.c_int32, _NUMBERS, ctypes.c_void_p)
_Edge = ctypes.CFUNCTYPE(ctypes.c_int32, _NUMBERS, _NUMBERS, ctypes.c_void_p)


class Checks(Protocol):
    """The checks that are called."""

    joint_names: tuple[str, ...]

    def is_free(self, q: Array) -> bool: ...  # noqa: D102
    def edge_free(self, a: Array, b: Array) -> bool: ...  # noqa: D102


def generic_kernel(checks: Checks) -> KernelChecker:
    """Return addresses of functions that acquire the GIL and call ``checks``."""
    shape = (len(checks.joint_names),)

    def state(q: Any, _: object) -> int:
        return int(checks.is_free(np.ctypeslib.as_array(q, shape)))

    def edge(a: Any, b: Any, _: object) -> int:
        start, end = (np.ctypeslib.as_array(x, shape) for x in (a, b))
        return int(checks.edge_free(start, end))

    calls = (_State(state), _Edge(edge))
    addresses = [ctypes.cast(call, ctypes.c_void_p).value or 0 for call in calls]
    return KernelChecker(addresses[0], addresses[1], 0, calls)
