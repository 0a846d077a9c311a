# SPDX-License-Identifier: Apache-2.0
"""Memory shared by compiled code and NumPy: named fields of 8-byte elements, tables of arrays."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.llvm_builder import IrValue, Number, Pointer


class FieldLayout(dict[str, int]):
    """Offsets of consecutive named fields, in units of 8 bytes."""

    def __init__(self, **sizes: int) -> None:
        super().__init__()
        self.size = 0
        for name, size in sizes.items():
            self[name] = self.size
            self.size += size


class Fields:
    """The fields of a memory, in generated code."""

    def __init__(self, memory: Pointer, layout: FieldLayout) -> None:
        self.memory = memory
        self._layout = layout

    def at(self, name: str, index: int = 0) -> Pointer:
        """Return the address of an element of a field."""
        return self.memory.at(self._layout[name] + index)

    def real(self, name: str, index: int = 0) -> IrValue:
        """Return a float64 element."""
        return self.at(name, index).load()

    def whole(self, name: str, index: int = 0) -> IrValue:
        """Return an integer element."""
        return self.at(name, index).of("i64").load()

    def pointer(self, name: str, target: str = "double") -> Pointer:
        """Return the address stored in an element, of values of a type."""
        return self.memory.flow.pointer(self.at(name).of("ptr").load(), target)

    def set(self, **values: Number) -> None:
        """Write integers, float64 numbers or addresses."""
        for name, value in values.items():
            self.at(name).of("i64" if isinstance(value, int) else "double").store(value)


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
