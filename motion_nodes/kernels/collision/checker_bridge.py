# SPDX-License-Identifier: Apache-2.0
"""For Numba kernels: ask a collision checker through the addresses of its C functions.

The kernel is compiled once and kept on disk; which robot it plans for is an argument.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from motion_nodes.kernels.jit import inlined
from motion_nodes.kernels.kinematic_arrays import Array

_ITEM = 8


class Checker(NamedTuple):
    """A collision checker as kernels take it; whoever passes it keeps what it points to alive."""

    state: int
    """Address of ``int32 state(const double* q, const void* memory)``; 1 is free."""
    edge: int
    """Address of ``int32 edge(const double* a, const double* b, const void* memory)``; 1 is free.

    ``b`` is checked, ``a`` need not be.
    """
    memory: int
    """Address of what both work on."""


@inlined
def state_free(checker: Checker, Q: Array, row: int) -> bool:
    """Return whether the configuration in a row of Q, shape (m, n), collides with nothing."""
    q = address(Q) + row * Q.shape[1] * _ITEM
    return bool(_state(checker.state, q, checker.memory) == 1)


@inlined
def edge_free(checker: Checker, A: Array, a: int, B: Array, b: int) -> bool:
    """Return whether nothing is in the straight way from row ``a`` of A to row ``b`` of B.

    Both have the shape (m, n) and lie in memory without gaps, which is not checked.
    """
    start = address(A) + a * A.shape[1] * _ITEM
    end = address(B) + b * B.shape[1] * _ITEM
    return bool(_edge(checker.edge, start, end, checker.memory) == 1)


@intrinsic
def address(typing: Any, array: Any) -> Any:
    """Return where an array's first number is; ``array.ctypes.data`` takes longer to compile."""

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
    """Return signature and code of a call with so many pointers that returns an int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.IntType(32), [pointer] * pointers).as_pointer()
        target = builder.inttoptr(arguments[0], function)
        return builder.call(target, [builder.inttoptr(a, pointer) for a in arguments[1:]])

    return types.int32(*[types.intp] * (pointers + 1)), generate
