# SPDX-License-Identifier: Apache-2.0
"""Clock for the timeouts of computations, paused while code is compiled or loaded.

The first use of a kernel on a machine compiles it, which may take longer than the timeout of a
request. Timeouts and durations of planning and inverse kinematics are therefore measured on this
clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()


class _Compilation:
    """Compilations of this process."""

    active = 0
    """Number of those in progress."""
    since = 0.0
    """Start of those in progress on ``time.perf_counter()`` [s]."""
    total = 0.0
    """Total duration of the completed ones [s]."""


def compute_time() -> float:
    """Return ``time.perf_counter()`` minus the time spent compiling or loading code [s].

    Readings of different threads can be compared.
    """
    with _lock:
        now = _Compilation.since if _Compilation.active else time.perf_counter()
        return now - _Compilation.total


def begin_compiling() -> None:
    """Pause the clock; each call requires one of :func:`end_compiling`."""
    with _lock:
        if _Compilation.active == 0:
            _Compilation.since = time.perf_counter()
        _Compilation.active += 1


def end_compiling() -> None:
    """Resume the clock, unless another compilation is in progress."""
    with _lock:
        _Compilation.active -= 1
        if _Compilation.active == 0:
            _Compilation.total += time.perf_counter() - _Compilation.since


@contextmanager
def compiling() -> Iterator[None]:
    """Pause the clock within a block."""
    begin_compiling()
    try:
        yield
    finally:
        end_compiling()
