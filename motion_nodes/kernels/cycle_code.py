# SPDX-License-Identifier: Apache-2.0
"""Functions of control cycles: Python over a named tuple of arrays, run as machine code.

A cycle function takes one named tuple of arrays, and returns an integer. Numba compiles it once per
machine, in a process of its own; the object file is kept in the cache of compiled code and loaded
by llvmlite alone, so that a controller does not pay for importing Numba (a quarter of a second, 100
MB). A call takes 0.3 us whatever the number of arrays. Until the code is there, on the first start
on a machine, Python runs the function itself: the same results, only slower.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import inspect
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Generic, TypeVar

import numpy as np

from motion_nodes.kernels import cache, native
from motion_nodes.kernels.memory_layout import table_of

State = TypeVar("State", bound=tuple[Any, ...])
Part = TypeVar("Part", bound=Callable[..., Any])
TIMEOUT = 600.0
"""[s] Max time of the process that compiles."""
NICENESS = 5
"""Of that process, while controllers run."""
ENTRY = "cycle_function"
"""Symbol of a function in its object file."""
_DECLARED: list[CycleFunction[Any]] = []
"""Functions of all imported modules."""
_LOG = logging.getLogger(__name__)
_Run = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)  # keeps the GIL: calls take microseconds
_Call = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 4)


class CycleFunction(Generic[State]):
    """A function of one named tuple of arrays, integers and floats.

    It may use arithmetic, ``math``, loops over elements, :func:`c_call`, and functions marked as
    :func:`cycle_part`; it must not allocate arrays or raise errors.
    """

    def __init__(self, function: Callable[[State], int], example: State) -> None:
        """Declare a function; see :func:`cycle_function`."""
        self.function, self.example = function, example
        self.run: Callable[[int], int] | None = None
        """The machine code, called with the address of a table; None until it is loaded."""
        self._code: native.LoadedCode | None = None
        self._wanted = _types(example)
        _DECLARED.append(self)
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self._requested = False

    @property
    def name(self) -> str:
        """``module:function``."""
        return f"{self.function.__module__}:{self.function.__name__}"

    def bind(self, state: State) -> BoundCycle[State]:
        """Return a call on a state; the first one loads the code, or has it compiled.

        Raises:
            TypeError: fields of other types than those that the code is compiled for.
        """
        given = _types(state)
        if given != self._wanted:
            wrong = ", ".join(word for word in given if word not in self._wanted)
            raise TypeError(f"{self.name} has a state of other types: {wrong}")
        self._request()
        return BoundCycle(self, state)

    def key(self) -> str:
        """Return the key of the code in the cache: of all it is compiled from, and of this CPU.

        Raises:
            OSError: there are no sources.
        """
        words = [self.name, *_types(self.example), *_ingredients(self.function, set())]
        words += [native.toolchain(), str(native.host_cpu())]
        words.append(cache.source_digest(("cycle_compiler", "memory_layout", "bridges")))
        return "cycle-" + hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]

    def load(self) -> bool:
        """Load the code from the cache, unless it is loaded; return whether it is there."""
        with self._loading:
            if self.run is not None:
                return True  # another thread may run it: it is never replaced
            code = cache.read_entry(self.key())
            if code is None:
                return False
            try:
                self._code = native.LoadedCode(code, native.host_cpu())
                self.run = _Run(self._code.address(ENTRY))
            except (LookupError, RuntimeError) as error:
                _LOG.warning("compiled code of %s cannot be loaded: %s", self.name, error)
            return self.run is not None

    def _request(self) -> None:
        with self._lock:
            if self._requested:
                return
            self._requested = True
        # Without sources, or a folder, Python runs the function.
        with contextlib.suppress(OSError):
            if not self.load() and cache.writable_folder() is not None:
                _COMPILER.add(self)


class BoundCycle(Generic[State]):
    """A cycle function with its state."""

    __slots__ = ("_address", "_function", "_table", "state")

    def __init__(self, function: CycleFunction[State], state: State) -> None:
        self._function, self.state = function, state
        self._table = table_of(state)
        self._address = int(self._table.ctypes.data)

    def __call__(self) -> int:
        """Run the function."""
        run = self._function.run
        return run(self._address) if run is not None else self._function.function(self.state)


def _types(state: tuple[Any, ...]) -> list[str]:
    """Return names and types of the fields of a state."""
    words: list[str] = []
    for name, value in zip(state._fields, state, strict=True):  # type: ignore[attr-defined]
        if isinstance(value, tuple):
            words += [name, *_types(value)]
        else:
            words.append(f"{name} {np.asarray(value).dtype} {np.ndim(value)}")
    return words


@functools.cache  # parts belong to several functions
def _source(function: Any) -> str:
    return inspect.getsource(function)


def _ingredients(function: Any, seen: set[Any]) -> list[str]:
    """Return the sources of a function and of its parts, and the values of their constants."""
    if function in seen:
        return []
    seen.add(function)
    words = [_source(function)]
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType) and hasattr(value, "cycle_part"):
            words += _ingredients(value, seen)
        elif isinstance(value, int | float):
            words.append(f"{name} = {value!r}")
    return words


def cycle_function(example: State) -> Callable[[Callable[[State], int]], CycleFunction[State]]:
    """Return a decorator for a function of a control cycle.

    Args:
        example: a state with arrays of the same types and dimensions, of any size.
    """
    return lambda function: CycleFunction(function, example)


def zeros(kind: type[State], n: int, masks: Iterable[str] = (), **other: object) -> State:
    """Return a state whose fields are zero.

    Args:
        kind: the named tuple.
        n: length of the arrays.
        masks: names of boolean fields; the others are float64.
        other: fields of another shape or type.
    """
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    arrays: dict[str, object] = {
        name: np.zeros(n, np.bool_ if name in masks else np.float64) for name in names
    }
    return kind(**{**arrays, **other})


def cycle_part(function: Part) -> Part:
    """Mark a function as one that cycle functions of its module call."""
    function.cycle_part = True  # type: ignore[attr-defined]
    return function


def c_call(function: int, a: int, b: int, c: int, d: int) -> int:
    """Call a C function from a cycle function; it keeps the GIL.

    Args:
        function: address of a function that returns an int.
        a: first argument, an integer or a pointer.
        b: second argument; further ones than the function has are ignored.
        c: third argument.
        d: fourth argument.

    Returns:
        Its result.
    """
    return int(_Call(int(function))(int(a), int(b), int(c), int(d)))


c_call.bridge = "c_call"  # type: ignore[attr-defined]  # what compiled code calls instead


class _Compiler:
    """Compiles functions in one other process, from a thread."""

    def __init__(self) -> None:
        self._waiting: list[CycleFunction[Any]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, function: CycleFunction[Any]) -> None:
        with self._lock:
            self._waiting.append(function)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="compiler", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                functions, self._waiting = self._waiting, []
                if not functions:
                    self._thread = None
                    return
            with cache.turn("cycle-functions"):
                compile_apart([each for each in functions if not each.load()], NICENESS)


_COMPILER = _Compiler()


def compile_apart(functions: Iterable[CycleFunction[Any]], niceness: int = 0) -> None:
    """Compile functions in another process and load them; a failure is logged.

    Args:
        functions: to be compiled.
        niceness: of the process, so that controllers of this machine are not delayed.
    """
    functions = list(functions)
    if not functions:
        return
    command = [sys.executable, "-m", "motion_nodes.kernels.cycle_compiler"]
    command += [str(os.getpid()), str(niceness), *(each.name for each in functions)]
    try:
        subprocess.run(command, check=True, timeout=TIMEOUT, capture_output=True, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or "").strip().splitlines()[-1:]
        _LOG.warning("control cycles are not compiled, they run slower: %s %s", error, said)
        return
    for each in functions:
        each.load()


def compile_cycles() -> None:
    """Load the functions declared so far, or compile them now."""
    compile_apart([each for each in _DECLARED if each.run is None and not each.load()])


def find(name: str) -> CycleFunction[Any]:
    """Return a function by its name, ``module:function``."""
    members = vars(importlib.import_module(name.partition(":")[0])).values()
    return next(m for m in members if isinstance(m, CycleFunction) and m.name == name)
