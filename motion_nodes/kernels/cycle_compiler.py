# SPDX-License-Identifier: Apache-2.0
"""Compiles functions of control cycles with Numba: ``python -m`` this module, with their names.

A process of its own, because Numba stays in memory once it is imported.
"""

from __future__ import annotations

import os
import sys
from types import FunctionType
from typing import Any

import numba

from motion_nodes.kernels import bridges, cache, native
from motion_nodes.kernels.bridges import reader
from motion_nodes.kernels.cycle_code import ENTRY, CycleFunction, find
from motion_nodes.kernels.parent_death import die_with

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def object_code(function: CycleFunction[Any]) -> bytes:
    """Return the object file of a function, for this CPU.

    Numba's function returns a status, the result by address, and errors by another address; the
    appended one returns the result alone, as cycle functions raise no errors.
    """
    read, body = reader(function.example), _compiled(function.function)
    entry = numba.njit(
        "int64(intp)", no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS
    )(lambda table: body(read(table)))  # fmt: skip
    (signature,) = entry.signatures
    symbol = entry.overloads[signature].fndesc.llvm_func_name
    wrapper = f"""
define i64 @{ENTRY}(i64 %table) {{
  %result = alloca i64
  %error = alloca ptr
  %status = call i32 @{symbol}(ptr %result, ptr %error, i64 %table)
  %value = load i64, ptr %result
  ret i64 %value
}}
"""
    return native.compiled(entry.inspect_llvm(signature) + wrapper, native.host_cpu())


def _compiled(function: Any) -> Any:
    """Return a function for Numba, after the parts that it may call."""
    for name, value in list(function.__globals__.items()):
        if isinstance(value, FunctionType) and hasattr(value, "bridge"):
            function.__globals__[name] = getattr(bridges, value.bridge)
        elif isinstance(value, FunctionType) and hasattr(value, "cycle_part"):
            # Before the part's own module is searched: parts may call each other.
            function.__globals__[name] = None
            function.__globals__[name] = _compiled(value)
    return numba.njit(**_OPTIONS)(function)


def main() -> None:
    """Compile functions into the cache.

    The command line has the id of the process that waits, the niceness, and their names.
    """
    parent, niceness, *names = sys.argv[1:]
    die_with(int(parent))  # which may have ended during the imports
    os.nice(int(niceness))
    # The keys are those of the sources, before parts are replaced by compiled ones.
    functions = {function.key(): function for function in map(find, names)}
    for key, function in functions.items():
        cache.write_entry(key, object_code(function))


if __name__ == "__main__":
    main()
