# SPDX-License-Identifier: Apache-2.0
"""Process accounting of the Linux kernel."""

from __future__ import annotations

import os
from pathlib import Path

from motion_nodes.bringup.process_health import Activity


def read_activity(pid: int, proc: Path = Path("/proc")) -> Activity:
    """Return the data of a process in /proc; an empty record if it has ended.

    Args:
        pid: process id.
        proc: mount point of procfs.
    """
    folder = proc / str(pid)
    try:
        # The command name in parentheses may itself contain spaces and parentheses.
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        tasks = list((folder / "task").iterdir())
        waited = sum(_waited(task / "schedstat") for task in tasks)
        runnable = any(_state(task / "stat") == "R" for task in tasks)
        computed = ticks / os.sysconf("SC_CLK_TCK")
        return Activity(fields[0], computed, waited, runnable, cpu_pressure(proc))
    except (OSError, ValueError, IndexError):
        return Activity()


def cpu_pressure(proc: Path = Path("/proc")) -> float:
    """Return the fraction of the last 10 s in which some thread waited for a processor.

    Pressure stall information of the kernel; 0 if unavailable.
    """
    try:
        first = (proc / "pressure" / "cpu").read_text().split()[1]
        return 0.01 * float(first.partition("avg10=")[2])
    except (OSError, ValueError, IndexError):
        return 0.0


def _state(file: Path) -> str:
    """Return the state of a thread; empty if it has ended."""
    try:
        return file.read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _waited(file: Path) -> float:
    """Return the time that a thread waited for a processor [s]; 0 if unavailable."""
    try:
        return int(file.read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
