# SPDX-License-Identifier: Apache-2.0
"""What processes of a suite hold, and what their logs say of faults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """What a process holds."""

    memory: float
    """[MB]"""
    handles: int
    threads: int
    cpu: float
    """Processor time since its start [s]."""


_TICK = os.sysconf("SC_CLK_TCK")


def usage_of(pid: int) -> Usage:
    """Return what a process holds now."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if ":" in line
    )  # fmt: skip
    handles = len(os.listdir(f"/proc/{pid}/fd"))
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    cpu = sum(map(int, times)) / _TICK
    return Usage(int(status["VmRSS"].split()[0]) / 1024, handles, int(status["Threads"]), cpu)


def tracebacks(output: str) -> list[str]:
    """Return the last line and the place of each traceback, each kind once."""
    found: dict[str, None] = {}
    lines = output.splitlines()
    for i, line in enumerate(lines):
        if not line.startswith("Traceback"):
            continue
        place = ""
        for later in lines[i + 1 :]:
            if later.startswith("  File"):
                place = later.strip()
            elif later and not later.startswith(" "):
                found[f"{later[:200]} at {place}"] = None
                break
    return list(found)
