# SPDX-License-Identifier: Apache-2.0
"""Folders and files in which nobody but this user (or root) can have put anything."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def is_private(folder: Path) -> bool:
    """Return whether only this user and root can write to a folder; links are not followed.

    Args:
        folder: that is looked at together with its parent, for whoever can write to that one can
            exchange the folder. A sticky parent such as ``/tmp`` keeps others from doing so.
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
    """Open a file of this user for reading and writing, made with mode 0600 if need be.

    Args:
        path: of the file; a symbolic link, a device or another user's file is refused.

    Returns:
        Its descriptor.

    Raises:
        OSError: says why it cannot be used.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
    found = os.fstat(descriptor)
    owned = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    if not stat.S_ISREG(found.st_mode) or not owned or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError(0, "it is not a file of this user alone")
    return descriptor
