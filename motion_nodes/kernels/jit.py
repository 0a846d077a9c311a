# SPDX-License-Identifier: Apache-2.0
"""The decorator for kernels that Numba compiles once for every robot. Importing it imports Numba.

Numba keeps compiled kernels per source file and does not see when a kernel in another file, which
the first one calls, has changed. So its files go to a folder of our cache whose name is a hash of
all kernel sources and versions.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numba
from numba.core import config

import motion_nodes
from motion_nodes.kernels import cache
from motion_nodes.kernels.numba_cache import with_checksums
from motion_nodes.kernels.sources import ROOM

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function with Numba at its first call, without the GIL, and keep the result.

    No fastmath: NaN means "no value" in places and must survive.
    """
    return _kept(function)


def bare_kernel(function: Function) -> Function:
    """Compile a kernel that makes no arrays, of bare and inlined parts only.

    Numba counts who uses an array, at each call and with atomic instructions; where kernels consist
    of many small functions most of the time goes there. Nothing is counted in this one.
    """
    return _kept(function, _nrt=False)


def part(function: Function) -> Function:
    """Compile a function into the kernels that call it; it is not kept by itself.

    For the many small functions that a kernel may consist of: quicker to compile, and to load.
    """
    return _part(function)


def bare_part(function: Function) -> Function:
    """Compile a part that makes no arrays; see :func:`bare_kernel`."""
    return _part(function, _nrt=False)


def inlined(function: Function) -> Function:
    """Compile a part that makes no arrays into each place that calls it; for the small ones."""
    return _part(function, _nrt=False, forceinline=True)


def _kept(function: Function, **options: bool) -> Function:
    folder = _folder()
    before = config.CACHE_DIR
    try:
        if folder is not None:
            config.CACHE_DIR = str(folder)
        jit = numba.njit(cache=folder is not None, nogil=True, error_model="numpy", **options)
        dispatcher = jit(function)
        with_checksums(dispatcher)
        return cast(Function, dispatcher)
    finally:
        config.CACHE_DIR = before


def _part(function: Function, **options: bool) -> Function:
    jit = numba.njit(
        nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )
    return cast(Function, jit(function))


@functools.cache
def _folder() -> Path | None:
    """Return the folder for Numba's files, or None where none can be written."""
    root = cache.writable_folder()
    if root is None:
        return None
    sha = hashlib.sha256(f"{motion_nodes.__version__}\n{numba.__version__}\n".encode())
    for source in sorted(ROOM.rglob("*.py")):
        sha.update(source.name.encode() + source.read_bytes())
    return root / f"numba-{sha.hexdigest()[:16]}"


def is_compiled(name: str) -> bool | None:
    """Return whether kernels were marked as compiled; None where nothing can be kept."""
    folder = _folder()
    return None if folder is None else (folder / f"{name}.done").is_file()


def mark_compiled(name: str) -> None:
    """Mark kernels as compiled for this version and its kernels' sources."""
    folder = _folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.done").touch()
