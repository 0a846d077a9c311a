# SPDX-License-Identifier: Apache-2.0
"""Ends a process that hangs, so that launch_ros, systemd or Docker can start it again.

For processes without a supervisor of ours, whose parent sees only that one ends. A thread in C
measures the time, so that a deadlock with the GIL is noticed, too. It prints the Python stacks of
all threads and exits with code 1. Of a process that is stopped as a whole (SIGSTOP, a debugger)
nothing runs; it ends when it continues.
"""

from __future__ import annotations

import faulthandler
import math
import os

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros import signals
from motion_nodes.ros.process_reports import Beat

VARIABLE = "MOTION_NODES_WATCHDOG"
"""Environment variable with the time after which a process that hangs ends [s]; unset: it does not.
"""
SECONDS = 10.0
"""Time that the launch files set: as the supervisor waits for a busy process [s]."""
SERVED_WITHIN = 30.0
"""Max time in which the executor serves no request [s]; long ones compile or plan."""
_AT_ONCE = 0.001


def watchdog_time() -> float:
    """Return the time of :data:`VARIABLE` [s]; infinite without it.

    Raises:
        InvalidConfig: it is not a time above 0.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return math.inf
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0.0:
        raise InvalidConfig(f"{VARIABLE} is '{text}'; give a time in seconds above 0, such as 10")
    return seconds


def feed(seconds: float, beat: Beat) -> None:
    """Let the process live until a loop of its nodes is overdue by a time, or no beat follows.

    Args:
        seconds: the time [s]; infinite: nothing happens.
        beat: the newest state of loops and executor.
    """
    if math.isinf(seconds) or signals.STOP.is_set():  # stopping has a deadline of its own
        return
    left = seconds - beat.overdue if beat.executor < SERVED_WITHIN else 0.0
    faulthandler.dump_traceback_later(max(left, _AT_ONCE), exit=True)
