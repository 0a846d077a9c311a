# SPDX-License-Identifier: Apache-2.0
"""Release of memory that is used only at the start of a process.

Most code of compilers and libraries that runs during configuration is not executed again, but
stays resident in each process. Code pages are backed by files: unmapped, they remain only in the
page cache, which the kernel may evict, and are mapped again at their next execution. Buffers that
were freed after configuration stay with glibc's allocator, which returns them on request.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_MIN_SIZE = 1 << 20
"""[byte] Smaller mappings are left."""


def release_memory() -> None:
    """Unmap the pages of this process's code, and return freed memory to the system.

    Pages of code in use return at their next execution. Only mappings of files that are not
    writable, code and its constants, and of which no page was changed (relocated, or by a
    debugger). Does nothing on systems without a list of mappings.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with contextlib.suppress(OSError):
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        with Path("/proc/self/smaps").open(encoding="utf-8", errors="replace") as lines:
            spans = list(_unchanged_code(lines))
        for begin, end in spans:
            if end - begin >= _MIN_SIZE:
                libc.madvise(begin, end - begin, _MADV_DONTNEED)
    with contextlib.suppress(AttributeError):
        libc.malloc_trim(0)


def _unchanged_code(smaps: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield first and last address + 1 of mapped code without changed pages."""
    span: tuple[int, int] | None = None
    for line in smaps:
        key, *words = line.split()
        if not key.endswith(":"):
            permissions, _, _, inode, *_ = words
            begin, end = (int(text, 16) for text in key.split("-"))
            span = (begin, end) if permissions in ("r-xp", "r--p") and inode != "0" else None
        elif span is not None and key == "Anonymous:" and words[0] == "0":
            yield span
