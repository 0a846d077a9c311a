# SPDX-License-Identifier: Apache-2.0
"""Cost of one more robot: processor time and memory of idle suites by their number of robots.

Run: ``python benchmarks/bench_many_robots.py`` (about 6 minutes; ``--mock 50`` for fewer).

Starts ``motion up`` like a user, with the page but without an open one, robots side by side.
"""

from __future__ import annotations

import time

from harness import CpuShare, Options, Report, Row, benchmark, motion_up, progress
from harness.processes import descendants, memory

JETBOTS, FRANKAS = (1, 2, 5, 10), (1, 2, 4)
SETTLE = 8.0  # Time from READY to the measurement, until arms rest [s]
SPACING = 1.5  # Between robots [m]


def robots(kind: str, count: int) -> list[str]:
    """Return the arguments of ``motion up`` for robots of one kind in a square."""
    side = int(count**0.5 + 0.999)
    places = [(SPACING * (i % side), SPACING * (i // side)) for i in range(count)]
    return [f"{kind}{i}:={kind}@{x:g},{y:g},0" for i, (x, y) in enumerate(places)]


def measure(kind: str, count: int, seconds: float, *options: str) -> Row:
    """Run a suite of robots; return its cells of the table."""
    progress(f"{count} x {kind} {' '.join(options)}")
    begin = time.monotonic()
    with motion_up(*robots(kind, count), "--port", "0", *options) as suite:
        ready = time.monotonic() - begin
        time.sleep(SETTLE)
        found = descendants(suite.pid)
        share = CpuShare(found)
        time.sleep(seconds)
        idle = sum(share.end().values())
        kept = sum(memory(pid)[1] for pid in found)
    return {"": f"{count} x {kind} {' '.join(options)}".strip(), "READY [s]": ready,
            "CPU idle [% of a core]": idle, "per robot": idle / count, "PSS [MB]": kept,
            "MB per robot": kept / count, "processes": len(found)}  # fmt: skip


@benchmark("Many robots", ros=True, mock=(50, "mock bases; 0: none"),
           seconds=(8.0, "of each measurement"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure all suites."""
    rows = [measure("jetbot", count, options.seconds) for count in JETBOTS]
    rows += [measure("franka", count, options.seconds) for count in FRANKAS]
    report.table("Idle suites by their number of robots", rows)
    if options.mock:
        row = measure("jetbot", options.mock, options.seconds, "--backend", "mock")
        report.table("Many mock bases", [row])
