# SPDX-License-Identifier: Apache-2.0
"""Generated code as a Python builtin, called with arrays directly.

A single call of the kinematics takes less than 0.1 us. ctypes or Numba's dispatcher would add two
to five times that, and the latter would recompile, in the middle of a control loop, if given a list
or integers. So the function that Python calls is generated as well: it requests each argument's
buffer, checks length and type, and calls the program. Only functions of Python's stable C API are
used (:pep:`3118` buffers, ``METH_FASTCALL``), so no array layout is assumed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from motion_nodes.kernels.llvm_builder import FunctionBuilder, IrValue, Pointer

# Source: CPython, Doc/c-api/buffer.rst and Include/pybuffer.h.
_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x01, 0x04, 0x38
_BUFFER_WORDS = 10  # size of Py_buffer in 8-byte words
_LENGTH, _DIMENSIONS, _FORMAT_AT = 16, 36, 40  # offsets of len, ndim and format [byte]
_METH_FASTCALL = 0x80

NEEDED = ("PyObject_GetBuffer", "PyBuffer_Release", "PyErr_Clear", "PyLong_FromLong")
"""Functions of Python called by the generated function."""

DECLARATIONS = """declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)
declare void @PyErr_Clear()
declare ptr @PyLong_FromLong(i64)"""

RunMany = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
"""``run_many(rows, count, results)``: address of the input rows, their number, and address of the
results; all float64."""
Run = Callable[..., int]
"""``run(q, out...)``: 0, or 1 without writing if an argument has the wrong type or size."""


def python_function(symbol: str, target: str, sizes: Sequence[int]) -> str:
    """Return the LLVM code of a function that Python can call.

    Args:
        symbol: its name.
        target: the function that takes the addresses of q and of each result.
        sizes: lengths of q and of each result, float64 elements. q must be one-dimensional.
    """
    flow = FunctionBuilder(self="ptr", args="ptr", count="i64")
    success, failure = flow.whole(0), flow.whole(1)
    views = [flow.allocated(_BUFFER_WORDS, "i64") for _ in sizes]

    def run(k: int) -> IrValue:
        """Request and check the buffers from argument ``k`` on, and call; return the status."""
        if k == len(sizes):
            flow.call("void", target, *(view.of("ptr").load() for view in views))
            return success
        # Results may have any shape; a q of shape (n, 1) or (1, n) is rejected.
        flags = IrValue(flow, "i32", str(_C_CONTIGUOUS | _FORMAT | (_WRITABLE if k else 0)))
        argument = flow.pointer("args", "ptr").load(k)
        got = flow.call("i32", "PyObject_GetBuffer", argument, views[k], flags)
        with flow.when(got.differs(0)):
            flow.call("void", "PyErr_Clear")
        with flow.when(got.equals(0), status=failure) as exported:
            valid = _valid(views[k].of("i8"), sizes[k], is_input=k == 0)
            with flow.when(valid, status=failure) as checked:
                checked["status"] = run(k + 1)
            exported["status"] = checked["status"]
            flow.call("void", "PyBuffer_Release", views[k])
        return exported["status"]

    with flow.when(flow.argument("count").equals(len(sizes)), status=failure) as complete:
        complete["status"] = run(0)
    flow.ret(flow.call("ptr", "PyLong_FromLong", complete["status"]))
    return flow.function(symbol, linkage="")


def _valid(view: Pointer, size: int, *, is_input: bool) -> IrValue:
    """Return whether a buffer has ``size`` float64 elements, and an input one dimension."""
    length = view.at(_LENGTH).of("i64")
    given = view.at(_FORMAT_AT).of("ptr").load()
    present = view.at(_FORMAT_AT).of("i64").load().differs(0)
    letters = view.flow.pointer(present.choose(given, length)).of("i16").load()
    double = letters.equals(int.from_bytes(b"d" + bytes(1), "little"))
    valid = length.load().equals(8 * size) & present & double
    if is_input:
        valid = valid & view.at(_DIMENSIONS).of("i32").load().equals(1)
    return valid


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
