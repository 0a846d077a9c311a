# SPDX-License-Identifier: Apache-2.0
"""Returns memory of code that is executed at the start of a process only.

Compilers and libraries are large, and most of what runs while nodes are configured never runs
again, but stays in the memory of each process. Pages of code are those of files: unmapped, they
are only a cache that the kernel may drop, and what is executed again is mapped again.
"""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

_MADV_DONTNEED = 4
_MIN_SIZE = 1 << 20
"""[byte] Smaller mappings are left."""


def unmap_code() -> None:
    """Unmap the pages of this process's code; those in use return at their next execution.

    Only mappings of files that are executable and not writable, of which no page can have been
    changed. Does nothing where the system has no such mappings.
    """
    with contextlib.suppress(OSError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, permissions, _, _, inode, *_ = line.split()
            begin, end = (int(text, 16) for text in span.split("-"))
            if permissions == "r-xp" and inode != "0" and end - begin >= _MIN_SIZE:
                libc.madvise(begin, end - begin, _MADV_DONTNEED)
