# SPDX-License-Identifier: Apache-2.0
"""Computation of cached data by several processes that need the same data at the same time.

All nodes of a robot need its compiled kinematics and the convex parts of its meshes at their first
start. Each result is computed by one process, under a lock of the file system that ends with the
process; the others compute another one meanwhile, or wait and read it from the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar

from motion_nodes.kernels import cache
from motion_nodes.kernels.private_files import lock, open_private

WAIT = 300.0
"""[s] Time after which a result that another process computes is computed here, too."""

_SUFFIX = ".lock"

_waits: ContextVar[bool] = ContextVar("waits", default=True)


class ComputedElsewhere(Exception):
    """Another process computes this result."""


@contextlib.contextmanager
def turn(key: str) -> Iterator[None]:
    """Wait until no other thread or process computes the result of a key.

    Args:
        key: of the disk cache; the result should be looked up again inside.

    Raises:
        ComputedElsewhere: another one computes it, within :func:`in_turns`.
    """
    folder = cache.writable_folder()
    if folder is None:
        yield
        return
    path = folder / f"{key}{_SUFFIX}"
    try:
        descriptor = open_private(path)
    except OSError:  # computed without a lock, at worst twice
        yield
        return
    try:
        # After the time, and on file systems without locks, it is computed without one.
        with contextlib.suppress(OSError):
            if not lock(descriptor, WAIT if _waits.get() else 0.0) and not _waits.get():
                raise ComputedElsewhere
        try:
            yield
        finally:
            # Those that wait for the removed file find the result.
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def in_progress(prefix: str = "") -> int:
    """Return the number of results that some process computes now.

    Args:
        prefix: of their keys.
    """
    folder, count = cache.writable_folder(), 0
    for path in [] if folder is None else folder.glob(f"{prefix}*{_SUFFIX}"):
        with contextlib.suppress(OSError), path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                count += 1
    return count


def in_turns(tasks: Iterable[Callable[[], object]]) -> None:
    """Run tasks that store results on the disk, last those that other processes work on.

    Args:
        tasks: each may be called twice; nothing is done without a disk cache.
    """
    if cache.writable_folder() is None:
        return
    later = []
    reset = _waits.set(False)
    try:
        for task in tasks:
            try:
                task()
            except ComputedElsewhere:
                later.append(task)
    finally:
        _waits.reset(reset)
    for task in later:
        task()
