# SPDX-License-Identifier: Apache-2.0
"""Pass many arrays to a Numba kernel as one address.

Numba unpacks each array argument of a call separately, which costs a third of a microsecond per
array. Here a named tuple of arrays and scalars is written once to a table of addresses, shapes and
values, which the kernel reads at almost no cost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

Item = TypeVar("Item", bound=tuple[Any, ...])
_WORD = 8


def table_of(item: tuple[Any, ...]) -> NDArray[np.int64]:
    """Return the table of a named tuple, shape (k,); nested tuples are flattened in order.

    Args:
        item: contiguous arrays, integers and floats. The caller keeps it alive while the table is
            in use.

    Returns:
        Per array its address and shape, per scalar its bits.
    """
    words: list[int] = []
    _write(item, words)
    return np.array(words, np.int64)


def _write(item: Any, words: list[int]) -> None:
    if isinstance(item, tuple):
        for part in item:
            _write(part, words)
    elif isinstance(item, np.ndarray):
        assert item.flags.c_contiguous
        words += [item.ctypes.data, *item.shape]
    elif isinstance(item, float):
        words += struct.unpack("q", struct.pack("d", item))
    else:
        words.append(int(item))


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
