# SPDX-License-Identifier: Apache-2.0
"""One node per name: a second instance on the same machine is refused at its start."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import IO

from motion_nodes.errors import MotionError
from motion_nodes.kernels.cache import is_private, open_private

_CANNOT_BE_WRITTEN = (errno.EROFS, errno.ENOSPC, errno.EDQUOT)


class SecondInstance(MotionError):
    """A node of the same full name already runs on this machine in the same ROS domain."""


class InstanceLock:
    """Lock on a node's full name, held until released or until the process exits."""

    def __init__(self, full_name: str, refusal: str = "") -> None:
        """Acquire the lock.

        Args:
            full_name: name to lock, such as ``/robot_1/diff_drive_controller``.
            refusal: error text if it is locked, with ``{domain}`` and ``{owner}`` (a process id);
                empty: that a node of this name is running.

        Raises:
            SecondInstance: another process holds the lock.
            MotionError: the folder of lock files cannot be used.
        """
        domain = os.environ.get("ROS_DOMAIN_ID", "0") or "0"
        try:
            self._lock: IO[str] | socket.socket | None = _lock(f"{domain}{full_name}")
        except _Locked as error:
            owner = error.owner
            if refusal:
                raise SecondInstance(refusal.format(domain=domain, owner=owner)) from None
            raise SecondInstance(
                f"a node named {full_name} already runs in ROS domain {domain} (process {owner}). "
                "Stop that one, or set another ROS_DOMAIN_ID; a node that is started by itself can "
                "have another name or namespace (--ros-args -r __node:=NAME, -r __ns:=/NAMESPACE)."
            ) from None

    def release(self) -> None:
        """Release the lock; the file remains, since others may wait for it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def owner_of(full_name: str) -> str:
    """Return the process that runs a node of a full name on this machine; empty: none.

    Raises:
        MotionError: the folder of lock files cannot be used.
    """
    try:
        InstanceLock(full_name, "{owner}").release()
    except SecondInstance as error:
        return str(error)
    return ""


class _Locked(Exception):
    """Another process holds the lock."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


def _lock(name: str) -> IO[str] | socket.socket:
    """Return a locked file; a socket where files cannot be written."""
    try:
        folder = Path(tempfile.gettempdir()) / f"motion_nodes-{os.getuid()}"
    except OSError:  # none can be written
        return _locked_socket(name)
    path = folder / f"{name.replace('/', '.')}.lock"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not is_private(folder):
            raise OSError(0, "it is writable by other users, or owned by another user")
        file = os.fdopen(open_private(path), "r+", encoding="ascii")
    except OSError as error:
        if error.errno in _CANNOT_BE_WRITTEN:
            return _locked_socket(name)
        raise MotionError(
            f"{path} cannot be used as the lock that keeps a node from running twice "
            f"({error.strerror}). Remove {folder}, or set TMPDIR to a folder of this user."
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        file.close()
        raise _Locked(owner) from None
    with contextlib.suppress(OSError):  # a full disk: the lock holds without the number
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    return file


def _locked_socket(name: str) -> socket.socket:
    """Return a socket with an abstract address of Linux, which one process can have; see unix(7).

    Raises:
        _Locked: another process has it.
        MotionError: not on Linux.
    """
    if sys.platform != "linux":
        raise MotionError("no writable folder for the lock of a node's name; set TMPDIR")
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        found.bind(f"\0motion_nodes-{os.getuid()}-{digest}")
    except OSError:
        found.close()
        raise _Locked("unknown") from None
    return found
