# SPDX-License-Identifier: Apache-2.0
"""Decorator for kernels that Numba compiles once for every robot. Importing it imports Numba.

Numba caches compiled kernels per source file and does not detect a change of a kernel in another
file. Its cache therefore goes to a folder whose name is a hash of all kernel sources and versions.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numba
from numba.core import config, event

import motion_nodes
from motion_nodes import kernels
from motion_nodes.kernels import cache
from motion_nodes.kernels.compute_clock import begin_compiling, end_compiling
from motion_nodes.kernels.kernel_library import use_kernel_libraries
from motion_nodes.kernels.numba_cache import with_checksums
from motion_nodes.kernels.sources import ROOM

Function = TypeVar("Function", bound=Callable[..., object])


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
