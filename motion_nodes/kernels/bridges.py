# SPDX-License-Identifier: Apache-2.0
"""Bridges from Numba kernels: to arrays by one address, to generated code of robots and checkers.

Many arrays are passed to a kernel as one address. Numba unpacks each array argument of a call
separately, which costs a third of a microsecond per array. Here a named tuple of arrays and scalars
is written once to a table of addresses, shapes and values, which the kernel reads at almost no
cost.

A robot's generated code and a collision checker are called through the addresses of their
functions: the kernel is compiled once and cached, the robot is passed as an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from motion_nodes.kernels.jit import inlined
from motion_nodes.typing import Array

Item = TypeVar("Item", bound=tuple[Any, ...])
_ITEM = 8


def reader(example: Item) -> Callable[[int], Item]:
    """Return a function for kernels: from the address of a table to the tuple it was made of.

    Numba does not count references to these arrays; the owner of the tuple must keep them alive.

    Args:
        example: a tuple of the same types; its values are not used.
    """
    kind = numba.typeof(example)

    @intrinsic
    def read(typing: Any, table: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
            return _read(context, builder, kind, words, 0)[0]

        return kind(types.intp), generate

    return read  # type: ignore[no-any-return]


def _read(context: Any, builder: Any, kind: Any, words: Any, at: int) -> tuple[Any, int]:
    """Return a value and the index of the next table entry."""

    def word(place: int) -> Any:
        return builder.load(builder.gep(words, [ir.Constant(ir.IntType(64), place)]))

    if isinstance(kind, types.BaseTuple):  # type: ignore[attr-defined]
        parts = []
        for member in kind.types:
            part, at = _read(context, builder, member, words, at)
            parts.append(part)
        return context.make_tuple(builder, kind, parts), at
    if not isinstance(kind, types.Array):
        value = word(at)
        return (builder.bitcast(value, ir.DoubleType()) if kind is types.float64 else value), at + 1
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape = [word(at + 1 + axis) for axis in range(kind.ndim)]
    stride = ir.Constant(ir.IntType(64), size)
    strides: list[Any] = []
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    array = make_array(kind)(context, builder)
    data = builder.inttoptr(word(at), context.get_data_type(kind.dtype).as_pointer())
    populate_array(
        array, data=data, shape=shape, strides=strides, itemsize=ir.Constant(ir.IntType(64), size),
        meminfo=None,
    )  # fmt: skip
    return array._getvalue(), at + 1 + kind.ndim


@intrinsic
def call_one(typing: Any, address: Any, q: Any, out: Any) -> Any:
    """Call ``one(q, out)`` or ``lanes(q, out)`` of a program with a single result.

    Args (in a kernel): the function's address, and the addresses of q and result as integers
    (``array.ctypes.data``). They are not checked.
    """
    return _call(2)


@intrinsic
def call_both(typing: Any, address: Any, q: Any, pose: Any, jacobian: Any) -> Any:
    """Call ``both_one(q, pose, jacobian)`` or ``both_lanes``; arguments as for ``call_one``."""
    return _call(3)


def _call(pointers: int) -> tuple[Signature, Any]:
    """Return signature and code of a call with that many pointers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.VoidType(), [pointer] * pointers).as_pointer()
        target = builder.inttoptr(arguments[0], function)
        builder.call(target, [builder.inttoptr(a, pointer) for a in arguments[1:]])
        return context.get_dummy_value()

    return types.void(*[types.intp] * (pointers + 1)), generate


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
def c_call(typing: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Call the C function of :func:`motion_nodes.kernels.cycle_code.c_call`."""
    return _int_call(4)


@intrinsic
def _state(typing: Any, address: Any, q: Any, memory: Any) -> Any:
    return _int_call(2)


@intrinsic
def _edge(typing: Any, address: Any, a: Any, b: Any, memory: Any) -> Any:
    return _int_call(3)


def _int_call(pointers: int) -> tuple[Signature, Any]:
    """Return signature and code of a call with that many pointers that returns an int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.IntType(32), [pointer] * pointers).as_pointer()
        target = builder.inttoptr(arguments[0], function)
        return builder.call(target, [builder.inttoptr(a, pointer) for a in arguments[1:]])

    return types.int32(*[types.intp] * (pointers + 1)), generate
