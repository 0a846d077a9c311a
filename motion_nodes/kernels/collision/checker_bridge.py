# SPDX-License-Identifier: Apache-2.0
"""Call a collision checker from Numba kernels through the addresses of its C functions.

The kernel is compiled once and cached; the robot is passed as an argument.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from motion_nodes.kernels.jit import inlined
from motion_nodes.typing import Array

_ITEM = 8


class Checker(NamedTuple):
    """A collision checker as passed to kernels; the caller keeps the referenced memory alive."""

    state: int
    """Address of ``int32 state(const double* q, const void* memory)``; 1 is collision-free."""
    edge: int
    """Address of ``int32 edge(const double* a, const double* b, const void* memory)``.

    Returns 1 if collision-free; ``b`` is checked, ``a`` is not.
    """
    memory: int
    """Address of the memory passed to both functions."""


@inlined
def state_free(checker: Checker, Q: Array, row: int) -> bool:
    """Return whether the configuration in a row of Q [rad or m], shape (m, n), is collision-free.

    Q must be contiguous, which is not checked.
    """
    q = address(Q) + row * Q.shape[1] * _ITEM
    return bool(_state(checker.state, q, checker.memory) == 1)


@inlined
def edge_free(checker: Checker, A: Array, a: int, B: Array, b: int) -> bool:
    """Return whether the straight edge from row ``a`` of A to row ``b`` of B is collision-free.

    The start is not checked. Both arrays [rad or m] have shape (m, n) and must be contiguous, which
    is not checked.
    """
    start = address(A) + a * A.shape[1] * _ITEM
    end = address(B) + b * B.shape[1] * _ITEM
    return bool(_edge(checker.edge, start, end, checker.memory) == 1)


@intrinsic
def address(typing: Any, array: Any) -> Any:
    """Return the address of the first element; faster to compile than ``array.ctypes.data``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.intp(array), generate


@intrinsic
def _state(typing: Any, address: Any, q: Any, memory: Any) -> Any:
    return _call(2)


@intrinsic
def _edge(typing: Any, address: Any, a: Any, b: Any, memory: Any) -> Any:
    return _call(3)


def _call(pointers: int) -> tuple[Signature, Any]:
    """Return signature and code of a call with that many pointers that returns an int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.IntType(32), [pointer] * pointers).as_pointer()
        target = builder.inttoptr(arguments[0], function)
        return builder.call(target, [builder.inttoptr(a, pointer) for a in arguments[1:]])

    return types.int32(*[types.intp] * (pointers + 1)), generate
