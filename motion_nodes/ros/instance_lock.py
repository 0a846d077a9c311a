# SPDX-License-Identifier: Apache-2.0
"""One node per name: a second instance on the same machine is refused at its start."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

from motion_nodes.errors import MotionError
from motion_nodes.kernels.private_files import is_private, open_private


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
        folder = Path(tempfile.gettempdir()) / f"motion_nodes-{os.getuid()}"
        path = folder / f"{domain}{full_name.replace('/', '.')}.lock"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if not is_private(folder):
                raise OSError(0, "others can write to it, or it belongs to another user")
            self._file: IO[str] | None = os.fdopen(open_private(path), "r+", encoding="ascii")
        except OSError as error:
            raise MotionError(
                f"{path} cannot be used as the lock that keeps a node from running twice "
                f"({error.strerror}). Remove {folder}, or set TMPDIR to a folder of this user."
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            owner = self._file.read().strip() or "unknown"
            self._file.close()
            self._file = None
            if refusal:
                raise SecondInstance(refusal.format(domain=domain, owner=owner)) from None
            raise SecondInstance(
                f"a node named {full_name} already runs in ROS domain {domain} (process {owner}). "
                "Stop that one, or give this one another name or namespace "
                "(--ros-args -r __node:=NAME, -r __ns:=/NAMESPACE)."
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Release the lock; the file remains, since others may wait for it."""
        if self._file is not None:
            self._file.close()
            self._file = None
