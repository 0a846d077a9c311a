# SPDX-License-Identifier: Apache-2.0
"""Folders and files that only this user or root can have written, and locks of such files."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_PERIOD = 0.02
"""[s] Period of polling a lock."""


def is_private(folder: Path) -> bool:
    """Return whether only this user and root can write to a folder; links are not followed.

    Args:
        folder: checked together with its parent, because anyone who can write to the parent can
            replace the folder. A sticky parent such as ``/tmp`` prevents that.
    """
    if not hasattr(os, "getuid"):
        return True
    try:
        own, parent = folder.lstat(), folder.parent.stat()
    except OSError:
        return False
    trusted = (os.getuid(), 0)
    if not stat.S_ISDIR(own.st_mode) or own.st_uid not in trusted or own.st_mode & _OTHERS:
        return False
    sticky = bool(parent.st_mode & stat.S_ISVTX)
    return sticky or (parent.st_uid in trusted and not parent.st_mode & _OTHERS)


def open_private(path: Path) -> int:
    """Open a file of this user for reading and writing; create it with mode 0600 if missing.

    Args:
        path: of the file.

    Returns:
        Its descriptor.

    Raises:
        OSError: it cannot be opened, or is a symbolic link, a device, a hard link or another
            user's file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
    found = os.fstat(descriptor)
    owned = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    if not stat.S_ISREG(found.st_mode) or not owned or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError(0, "not a regular file owned by this user alone")
    return descriptor


def lock(descriptor: int, timeout: float) -> bool:
    """Lock a file against other threads and processes until the descriptor is closed.

    Args:
        descriptor: of :func:`open_private`.
        timeout: max time to wait for those that hold the lock [s].

    Returns:
        Whether it is locked now.

    Raises:
        OSError: the file system has no locks.
    """
    until = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(_PERIOD)
        else:
            return True
