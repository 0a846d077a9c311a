# SPDX-License-Identifier: Apache-2.0
"""Resource usage of processes of a suite, and tracebacks in their logs."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """Resource usage of a process."""

    memory: float
    """[MB]"""
    handles: int
    threads: int
    cpu: float
    """Processor time since its start [s]."""


_TICK = os.sysconf("SC_CLK_TCK")


def usage_of(pid: int) -> Usage:
    """Return the current resource usage of a process."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if ":" in line
    )  # fmt: skip
    handles = len(os.listdir(f"/proc/{pid}/fd"))
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    cpu = sum(map(int, times)) / _TICK
    return Usage(int(status["VmRSS"].split()[0]) / 1024, handles, int(status["Threads"]), cpu)


def tracebacks(output: str) -> list[str]:
    """Return the last line and location of each distinct traceback."""
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
