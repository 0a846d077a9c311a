# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM and SIGHUP: halt the robot, shut down cleanly, exit with 0.

SIGHUP, the end of the terminal, is not handled where it is ignored, as under ``nohup``.

Imports nothing heavy, so that a process can call :func:`stop_quietly` first and handles signals
while it imports and compiles.

Python runs signal handlers in the main thread only, but the kernel may deliver a signal to any
thread: a main thread blocked on a lock is then not woken, and one that holds the event's lock would
deadlock. So the handlers do nothing; the interpreter writes the signal number to a pipe, from
whichever thread received it, and a thread that reads the pipe reacts at once.
"""

from __future__ import annotations

import os
import signal
import threading

STOP = threading.Event()
"""Set by one of the signals."""

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_settled = False
_listening = False


def stop_quietly() -> None:
    """Handle the signals: exit with 0 before :func:`nodes_exist`, set STOP after it.

    Only the main thread may call this; repeated calls have no effect.
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
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)


def nodes_exist() -> None:
    """From now on signals set STOP, so that nodes can halt their robots."""
    global _settled
    _settled = True


def _listen(reader: int) -> None:
    while True:
        if not any(number in _NUMBERS for number in os.read(reader, 64)):
            continue
        if not _settled:
            os._exit(0)
        STOP.set()
