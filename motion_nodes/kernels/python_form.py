# SPDX-License-Identifier: Apache-2.0
"""Generated code as a Python builtin: pass arrays without any layer in between.

A single call of the kinematics takes less than 0.1 us. ctypes or Numba's dispatcher would add two
to five times that, and the latter would recompile, in the middle of a control loop, if given a list
or integers. So the function that Python calls is generated as well: it requests each argument's
buffer, checks length and type, and calls the program. Only functions of Python's stable C API are
used (:pep:`3118` buffers, ``METH_FASTCALL``), so no array layout is assumed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

# Source: CPython, Doc/c-api/buffer.rst and Include/pybuffer.h.
_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x01, 0x04, 0x38
_BUFFER_WORDS = 10  # size of Py_buffer in 8-byte words
_LENGTH, _DIMENSIONS, _FORMAT_AT = 16, 36, 40  # offsets of len, ndim and format [byte]
_METH_FASTCALL = 0x80

NEEDED = ("PyObject_GetBuffer", "PyBuffer_Release", "PyErr_Clear", "PyLong_FromLong")
"""Functions called by the generated function."""

DECLARATIONS = """declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
declare void @PyErr_Clear()
declare ptr @PyLong_FromLong(i64)"""

Run = Callable[..., int]
"""``run(q, out...)``: 0 on success; 1 if an argument has the wrong type or size, and nothing is
written."""


def python_function(symbol: str, target: str, sizes: Sequence[int]) -> str:
    """Return the LLVM code of a function that Python can call.

    Args:
        symbol: its name.
        target: the function that takes the addresses of q and of each result.
        sizes: lengths of q and of each result, float64 elements. q must be one-dimensional.
    """
    last = len(sizes) - 1
    parts = [
        f"define ptr @{symbol}(ptr %self, ptr %args, i64 %count) nounwind {{",
        "entry:",
        *(f"  %view{k} = alloca [{_BUFFER_WORDS} x i64], align 8" for k in range(len(sizes))),
        f"  %complete = icmp eq i64 %count, {len(sizes)}",
        "  br i1 %complete, label %get0, label %end",
    ]
    for k, size in enumerate(sizes):
        parts.append(_get(k, "run" if k == last else f"get{k + 1}", size, is_input=k == 0))
    pointers = [f"  %data{k} = load ptr, ptr %view{k}, align 8" for k in range(len(sizes))]
    arguments = ", ".join(f"ptr %data{k}" for k in range(len(sizes)))
    parts += [
        "run:",
        *pointers,
        f"  call void @{target}({arguments})",
        f"  br label %release{last}",
    ]
    for k in range(last, -1, -1):
        parts.append(_release(k, came_from="run" if k == last else f"release{k + 1}", last=last))
    parts += [
        "end:",
        "  %result = phi i64 [1, %entry], [1, %failed0], [%status0, %release0]",
        "  %number = call ptr @PyLong_FromLong(i64 %result)",
        "  ret ptr %number",
        "}",
        "",
    ]
    return "\n".join(parts)


def _get(k: int, then: str, size: int, *, is_input: bool) -> str:
    """Request the buffer of argument ``k`` and check it."""
    flags = _C_CONTIGUOUS | _FORMAT | (0 if is_input else _WRITABLE)
    after_failure = f"release{k - 1}" if k else "end"
    # Results may have any shape; a q of shape (n, 1) or (1, n) is rejected.
    one_dimension = f"icmp eq i32 %dimensions{k}, 1" if is_input else "icmp eq i32 0, 0"
    return f"""get{k}:
  %place{k} = getelementptr ptr, ptr %args, i64 {k}
  %object{k} = load ptr, ptr %place{k}, align 8
  %got{k} = call i32 @PyObject_GetBuffer(ptr %object{k}, ptr %view{k}, i32 {flags})
  %exported{k} = icmp eq i32 %got{k}, 0
  br i1 %exported{k}, label %check{k}, label %failed{k}
failed{k}:
  call void @PyErr_Clear()
  br label %{after_failure}
check{k}:
  %length_at{k} = getelementptr i8, ptr %view{k}, i64 {_LENGTH}
  %length{k} = load i64, ptr %length_at{k}, align 8
  %fits{k} = icmp eq i64 %length{k}, {8 * size}
  %dimensions_at{k} = getelementptr i8, ptr %view{k}, i64 {_DIMENSIONS}
  %dimensions{k} = load i32, ptr %dimensions_at{k}, align 4
  %shaped{k} = {one_dimension}
  %format_at{k} = getelementptr i8, ptr %view{k}, i64 {_FORMAT_AT}
  %given{k} = load ptr, ptr %format_at{k}, align 8
  %missing{k} = icmp eq ptr %given{k}, null
  %format{k} = select i1 %missing{k}, ptr %length_at{k}, ptr %given{k}
  %letters{k} = load i16, ptr %format{k}, align 1
  %double{k} = icmp eq i16 %letters{k}, {int.from_bytes(b"d" + bytes(1), "little")}
  %present{k} = xor i1 %missing{k}, true
  %both{k} = and i1 %fits{k}, %shaped{k}
  %typed{k} = and i1 %double{k}, %present{k}
  %good{k} = and i1 %both{k}, %typed{k}
  br i1 %good{k}, label %{then}, label %release{k}"""


def _release(k: int, came_from: str, last: int) -> str:
    """Release the buffer of argument ``k`` and pass on whether the program ran."""
    done = "0" if k == last else f"%status{k + 1}"
    sources = [f"[{done}, %{came_from}]", f"[1, %check{k}]"]
    if k < last:
        sources.append(f"[1, %failed{k + 1}]")
    return f"""release{k}:
  %status{k} = phi i64 {", ".join(sources)}
  call void @PyBuffer_Release(ptr %view{k})
  br label %{f"release{k - 1}" if k else "end"}"""


class _MethodDefinition(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


# Python keeps only a pointer to these.
_definitions: list[_MethodDefinition] = []


def builtin(address: int, name: str) -> Run:
    """Return the Python function with the code of :func:`python_function` at an address."""
    definition = _MethodDefinition(name.encode(), address, _METH_FASTCALL, None)
    _definitions.append(definition)
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.POINTER(_MethodDefinition), ctypes.c_void_p, ctypes.c_void_p
    )
    new_function = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Run = new_function(ctypes.byref(definition), None, None)
    return function
