# SPDX-License-Identifier: Apache-2.0
"""Stops single threads of a process, like a deadlock among them, while others continue.

``python freeze_threads.py PID NAME...`` stops the threads whose names begin with one of NAME, by
ptrace, and prints their names; they continue when this process ends.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WALL = 0x40000000
"""Wait for threads of any kind."""


def threads(pid: int) -> dict[int, str]:
    """Return the names of a process' threads by their ids."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        found[int(task.name)] = (task / "comm").read_text().strip()
    return found


def freeze(pid: int, names: tuple[str, ...]) -> list[str]:
    """Stop threads until this process ends; return their names."""
    libc = ctypes.CDLL(None, use_errno=True)
    stopped = []
    for thread, name in threads(pid).items():
        if not name.startswith(names):
            continue
        for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            if libc.ptrace(request, thread, None, None) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
        stopped.append(name)
    return stopped


def main() -> None:
    """Stop threads, and wait until their process ends."""
    pid, names = int(sys.argv[1]), tuple(sys.argv[2:])
    print(" ".join(freeze(pid, names)), flush=True)
    while Path(f"/proc/{pid}").exists():
        # Ended threads must be waited for, or else their process cannot end.
        try:
            os.waitpid(-1, WALL | os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(0.01)


if __name__ == "__main__":
    main()
