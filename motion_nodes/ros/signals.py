# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM mean the same: stop the robot, leave cleanly, exit with 0.

Imports nothing heavy, so that a process can call :func:`stop_quietly` before anything else and
is already well-behaved while it imports and compiles.
"""

from __future__ import annotations

import os
import signal
import threading
import types

STOP = threading.Event()
"""Set once a stop was asked for."""

_settled = False


def stop_quietly() -> None:
    """Handle SIGINT and SIGTERM: exit at once with 0 until :func:`nodes_exist`, then set STOP."""
    signal.signal(signal.SIGINT, _handle)
    signal.signal(signal.SIGTERM, _handle)


def nodes_exist() -> None:
    """From now on a stop goes through the nodes, which halt what they drive."""
    global _settled
    _settled = True


def _handle(_number: int, _frame: types.FrameType | None) -> None:
    STOP.set()
    if not _settled:
        os._exit(0)
