# SPDX-License-Identifier: Apache-2.0
"""Clock for the time limits of computations: it stands while code is compiled or loaded.

The first use of a kernel on a machine compiles it, which may take longer than any time limit of a
request. Limits and durations of planning and inverse kinematics are therefore read on this clock.
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
    """Begin of those in progress on ``time.perf_counter()`` [s]."""
    total = 0.0
    """Duration of the earlier ones [s]."""


def compute_time() -> float:
    """Return ``time.perf_counter()`` less the time in which code was compiled or loaded [s].

    Readings of different threads can be compared.
    """
    with _lock:
        now = _Compilation.since if _Compilation.active else time.perf_counter()
        return now - _Compilation.total


def begin_compiling() -> None:
    """Stop the clock; each call is followed by one of :func:`end_compiling`."""
    with _lock:
        if _Compilation.active == 0:
            _Compilation.since = time.perf_counter()
        _Compilation.active += 1


def end_compiling() -> None:
    """Start the clock, unless another compilation is in progress."""
    with _lock:
        _Compilation.active -= 1
        if _Compilation.active == 0:
            _Compilation.total += time.perf_counter() - _Compilation.since


@contextmanager
def compiling() -> Iterator[None]:
    """Stop the clock within a block."""
    begin_compiling()
    try:
        yield
    finally:
        end_compiling()
