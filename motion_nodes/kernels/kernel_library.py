# SPDX-License-Identifier: Apache-2.0
"""Libraries of Numba's compiled kernels that keep no intermediate code of LLVM in memory.

Numba's cache files contain the machine code of a kernel and its bitcode, from which other kernels
are compiled that call it. Numba parses the bitcode when it loads a kernel, although nothing is
compiled in most processes: for the kernels of planning this takes 0.1 s and 15 MB. Here it is
parsed when another kernel is linked with it. Only the cache files of this package's kernels have
the symbols for it; those of other packages are read and written as Numba does.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of one kernel; its bitcode is parsed on demand."""

    _shared_module: Any
    """Parsed bitcode."""
    _bitcode = b""
    """Of a library from a cache file."""

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple[str, str, Any]) -> Any:
        name, kind, content = state
        if kind != "object" or len(content) != 3:  # of another package's function
            return super()._unserialize(codegen, state)
        code, bitcode, symbols = content
        library = super()._unserialize(codegen, (name, kind, (code, _no_bitcode())))
        codegen._engine._defined_symbols |= symbols
        library._shared_module, library._bitcode = None, bitcode
        return library

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None and self._bitcode:
            self._shared_module = llvm.parse_bitcode(self._bitcode)
        return super()._get_module_for_linking()


def with_symbols(data: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the content of a cache file with the symbols that the kernel defines.

    Args:
        data: a compiled function as Numba saves it; the first item is its library.
    """
    (name, kind, content), *rest = data
    if kind != "object":
        return data
    module = llvm.parse_bitcode(content[1])
    symbols = frozenset(
        symbol.name
        for defined in (module.functions, module.global_variables)
        for symbol in defined
        if not symbol.is_declaration
    )
    return (name, kind, (*content, symbols)), *rest


def use_kernel_libraries() -> None:
    """Make Numba create libraries of this class."""
    JITCPUCodegen._library_class = KernelLibrary


@functools.cache
def _no_bitcode() -> bytes:
    """Return the bitcode of an empty module."""
    return bytes(llvm.parse_assembly("").as_bitcode())
