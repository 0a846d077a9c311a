# SPDX-License-Identifier: Apache-2.0
"""Process accounting of the Linux kernel."""

from __future__ import annotations

import os
from pathlib import Path

from motion_nodes.bringup.process_health import Activity


def read_activity(pid: int, proc: Path = Path("/proc")) -> Activity:
    """Return what /proc knows of a process; an empty record where it has ended.

    Args:
        pid: process id.
        proc: mount point of procfs.
    """
    folder = proc / str(pid)
    try:
        # The command's name in parentheses may hold anything, spaces and parentheses too.
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        waited = sum(_waited(task / "schedstat") for task in (folder / "task").iterdir())
        return Activity(fields[0], ticks / os.sysconf("SC_CLK_TCK"), waited)
    except (OSError, ValueError, IndexError):
        return Activity()


def _waited(file: Path) -> float:
    """Return how long a thread waited for a processor [s]; 0 where the kernel does not tell."""
    try:
        return int(file.read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
