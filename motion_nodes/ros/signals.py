# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM mean the same: stop the robot, leave cleanly, exit with 0.

Imports nothing heavy, so that a process can call :func:`stop_quietly` before anything else and
is already well-behaved while it imports and compiles.

Python runs signal handlers in the main thread only, and the kernel may hand a signal to any other
thread: a main thread that sleeps on a lock is then not woken, and one that holds the event's lock
would wait for itself. So the handlers do nothing; the interpreter writes each signal's number to a
pipe, from whichever thread got it, and a thread that reads the pipe acts at once.
"""

from __future__ import annotations

import os
import signal
import threading

STOP = threading.Event()
"""Set once a stop was asked for."""

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_settled = False
_listening = False


def stop_quietly() -> None:
    """Handle SIGINT and SIGTERM: exit at once with 0 until :func:`nodes_exist`, then set STOP.

    Only the main thread may call this; again does nothing.
    """
    global _listening
    if _listening:
        return
    _listening = True
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=_listen, args=(reader,), name="signals", daemon=True).start()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _NUMBERS:
        signal.signal(number, lambda _number, _frame: None)


def nodes_exist() -> None:
    """From now on a stop goes through the nodes, which halt what they drive."""
    global _settled
    _settled = True


def _listen(reader: int) -> None:
    while True:
        if not any(number in _NUMBERS for number in os.read(reader, 64)):
            continue
        if not _settled:
            os._exit(0)
        STOP.set()
