# SPDX-License-Identifier: Apache-2.0
"""Folders and files that only this user or root can have written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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
