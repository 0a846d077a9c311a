# SPDX-License-Identifier: Apache-2.0
"""Decorator for kernels that Numba compiles once for every robot. Importing it imports Numba.

Numba caches compiled kernels per source file and does not detect a change of a kernel in another
file. Its cache therefore goes to a folder whose name is a hash of all kernel sources and versions.

No intermediate code of LLVM is kept in memory. Numba's cache files contain the machine code of a
kernel and its bitcode, from which other kernels are compiled that call it. Numba parses the bitcode
when it loads a kernel, although nothing is compiled in most processes: for the kernels of planning
this takes 0.1 s and 15 MB. Here it is parsed when another kernel is linked with it. Only the cache
files of this package's kernels have the symbols for it; those of other packages are read and
written as Numba does.

Cache files have checksums, and a damaged one counts as missing. Numba unpickles these files, which
fails in many ways if one is damaged. The permissions of the folder are checked where it is selected
(:mod:`motion_nodes.kernels.cache`).

A kernel that several processes need at the same time is compiled by one of them, which holds a lock
file; the others wait and load the result.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm
import numba
from numba.core import config, event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

import motion_nodes
from motion_nodes import kernels
from motion_nodes.kernels import cache
from motion_nodes.kernels.cache import ROOM, lock, open_private
from motion_nodes.kernels.compute_clock import begin_compiling, end_compiling

_LOG = logging.getLogger(__name__)
_MAGIC = b"motion_nodes numba 1\n"
_HEAD = len(_MAGIC) + 32
_TURN_TIMEOUT = 60.0
"""Max wait for another process that compiles a kernel, before compiling it as well [s]."""
Function = TypeVar("Function", bound=Callable[..., object])


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


class CheckedCacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """Index and data files of one kernel."""

    _lock: int | None
    """Open lock file while this process compiles the kernel."""
    _elsewhere: tuple[CheckedCacheFile, ...]
    """Files of the same kernel in other folders, read only."""

    @classmethod
    def of(
        cls,
        before: IndexDataCacheFile,
        root: Path | None = None,
        elsewhere: Sequence[Path] = (),
        name: str = "",
    ) -> CheckedCacheFile:
        """Return the counterpart of one of Numba's cache files.

        Args:
            before: Numba's.
            root: another folder of cached kernels; None for Numba's.
            elsewhere: other folders, read only.
            name: of the subfolder; empty for Numba's, whose name contains a hash of the path of
                the sources' folder.
        """
        made = cls.__new__(cls)
        made.__dict__.update(before.__dict__)
        path = Path(before._cache_path)
        made._cache_path = str((root or path.parent) / (name or path.name))
        made._index_path = str(Path(made._cache_path) / before._index_name)
        made._lock = None
        made._elsewhere = tuple(cls.of(before, other, name=name) for other in elsewhere)
        return made

    def load(self, key: Any) -> Any:
        """Return the code saved under a key; None if this process has to compile it."""
        found = super().load(key)
        for other in self._elsewhere:
            found = IndexDataCacheFile.load(other, key) if found is None else found
        if found is None and self._lock is None and self._take_turn():
            # Another process may have compiled it meanwhile.
            found = super().load(key)
            if found is not None:
                self._end_turn()
        return found

    def save(self, key: Any, data: Any) -> None:
        """Save compiled code and release the lock, so that other processes load it.

        A failure, such as a full disk, is logged and otherwise ignored.
        """
        try:
            super().save(key, with_symbols(data))
        except OSError as error:
            _LOG.warning("cannot store compiled code in %s: %s", self._cache_path, error)
        finally:
            self._end_turn()

    def _take_turn(self) -> bool:
        """Wait until no other process compiles this kernel; return whether it is now locked."""
        with contextlib.suppress(OSError):
            Path(self._cache_path).mkdir(parents=True, exist_ok=True)
            # Held until the code is saved, or this process ends.
            self._lock = open_private(Path(self._index_path).with_suffix(".lock"))
            if lock(self._lock, _TURN_TIMEOUT):
                return True
        self._end_turn()
        return False

    def _end_turn(self) -> None:
        held, self._lock = self._lock, None
        if held is not None:
            os.close(held)

    def _load_index(self) -> dict[Any, str]:
        loaded = _read(Path(self._index_path))
        if not isinstance(loaded, tuple) or loaded[:2] != (self._version, self._source_stamp):
            return {}
        return dict(loaded[2])

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return _read(Path(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _write(self, path: str, content: Any) -> None:
        payload = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Loads a kernel without importing what Numba compiles from (0.5 s, 18 MB)."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel for a signature; None if it has to be compiled."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def _leave_out_blas() -> None:
    """Import Numba's functions of arrays as on a machine without SciPy."""
    if "scipy.linalg" not in sys.modules:
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment] # its import fails
        try:
            import numba.np.arraymath  # noqa: F401
        finally:
            del sys.modules["scipy.linalg"]


if not kernels.uses_blas:
    _leave_out_blas()


def prepare_to_load() -> None:
    """Initialize the runtime of compiled kernels, as the first one that is loaded does."""
    rtsys.initialize(cpu_target.target_context)


def with_checksums(
    dispatcher: Callable[..., object], elsewhere: Sequence[Path] = (), name: str = ""
) -> None:
    """Make a Numba dispatcher store its compiled code in files with checksums.

    Args:
        dispatcher: of the kernel.
        elsewhere: other folders from which code is loaded.
        name: of the subfolder; empty for Numba's, which depends on where the sources are
            installed.
    """
    cache: Any = getattr(dispatcher, "_cache", None)
    if hasattr(cache, "_cache_file"):
        cache.__class__ = KernelCache
        cache._cache_file = CheckedCacheFile.of(cache._cache_file, None, elsewhere, name)


def _read(path: Path) -> Any:
    """Return the saved object; None if the file is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    payload = content[_HEAD:]
    if content[:_HEAD] != _MAGIC + hashlib.sha256(payload).digest():
        _LOG.warning("%s is damaged and will be compiled anew", path)
        return None
    return pickle.loads(payload)


class _CompilerLock(event.Listener):  # type: ignore[misc]
    """Pauses the compute clock while Numba compiles or loads code, or waits for its lock."""

    def on_start(self, event: object) -> None:
        begin_compiling()

    def on_end(self, event: object) -> None:
        end_compiling()


event.register("numba:compiler_lock", _CompilerLock())
use_kernel_libraries()


def kernel(function: Function) -> Function:
    """Compile a function with Numba at its first call, without the GIL, and cache the result.

    No fastmath: NaN is a valid value ("no value") and must be preserved.
    """
    return _kept(function)


def bare_kernel(function: Function) -> Function:
    """Compile a kernel that allocates no arrays and calls only bare and inlined parts.

    Numba counts array references atomically at each call, which dominates the run time of kernels
    that consist of many small functions. Reference counting is disabled here.
    """
    return _kept(function, _nrt=False)


def part(function: Function) -> Function:
    """Compile a function into the kernels that call it; it is not cached separately.

    For the small functions of a kernel: they compile and load faster.
    """
    return _part(function)


def bare_part(function: Function) -> Function:
    """Compile a part that allocates no arrays; see :func:`bare_kernel`."""
    return _part(function, _nrt=False)


def fused_part(function: Function) -> Function:
    """Compile a bare part whose products and sums may be rounded once, as one instruction."""
    return _part(function, _nrt=False, fastmath={"contract"})


def inlined(function: Function) -> Function:
    """Compile a small part that allocates no arrays inline at each call."""
    return _part(function, _nrt=False, forceinline=True)


def _kept(function: Function, **options: bool) -> Function:
    folder = _folder()
    before = config.CACHE_DIR
    try:
        if folder is not None:
            config.CACHE_DIR = str(folder)
        jit = numba.njit(cache=folder is not None, nogil=True, error_model="numpy", **options)
        dispatcher = jit(function)
        elsewhere = () if folder is None else _elsewhere(folder)
        with_checksums(dispatcher, elsewhere, _subfolder(function))
        return cast(Function, dispatcher)
    finally:
        config.CACHE_DIR = before


def _part(function: Function, **options: object) -> Function:
    jit = numba.njit(
        nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )
    return cast(Function, jit(function))


def _subfolder(function: Function) -> str:
    """Return the name of a kernel's folder, independent of where this package is installed."""
    code = getattr(function, "__code__", None)
    source = Path(code.co_filename if code is not None else "")
    return "_".join(source.parent.relative_to(ROOM.parent).parts) if ROOM in source.parents else ""


@functools.cache
def _folder() -> Path | None:
    """Return the folder for Numba's cache, or None if none is writable."""
    root = cache.writable_folder()
    if root is None:
        return None
    sha = hashlib.sha256(f"{motion_nodes.__version__}\n{numba.__version__}\n".encode())
    for source in sorted(ROOM.rglob("*.py")):
        sha.update(source.name.encode() + source.read_bytes())
    return root / f"numba-{sha.hexdigest()[:16]}"


@functools.cache
def _elsewhere(folder: Path) -> tuple[Path, ...]:
    """Return other folders that may hold kernels, such as a read-only home."""
    others = (root / folder.name for root in cache.readable_folders())
    return tuple(other for other in others if other != folder and other.is_dir())


def is_compiled(name: str) -> bool | None:
    """Return whether kernels were marked as compiled; None without a cache folder.

    Args:
        name: of the mark, see :func:`mark_compiled`.
    """
    folder = _folder()
    return None if folder is None else (folder / f"{name}.done").is_file()


def mark_compiled(name: str) -> None:
    """Mark kernels as compiled for this version and these sources.

    Args:
        name: of the mark; any file name.
    """
    folder = _folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.done").touch()
