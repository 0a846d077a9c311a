# SPDX-License-Identifier: Apache-2.0
"""Processes that end when the process that started them ends, also if it is killed.

Imports the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

VARIABLE = "MOTION_NODES_ENDS_WITH_PARENT"
"""Environment variable, with any text, of processes that end with their parent: launch_ros leaves
its processes running when it is killed, or stopped by SIGTERM."""
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent ends for any reason.

    On Linux; elsewhere this does nothing. The signal also comes when only the thread ends that
    started this process.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def die_with_parent_if_set() -> None:
    """As :func:`die_with_parent`, where :data:`VARIABLE` is set."""
    if os.environ.get(VARIABLE):
        die_with_parent()


def die_with(parent: int) -> None:
    """As :func:`die_with_parent`, and end at once if the parent has already ended.

    Args:
        parent: id of the process that started this one.
    """
    die_with_parent()
    if os.getppid() != parent:
        os._exit(0)
