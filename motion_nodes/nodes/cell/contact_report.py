# SPDX-License-Identifier: Apache-2.0
"""What a simulation reports of contacts that should not be."""

from __future__ import annotations

from motion_nodes.ros.diagnostics import Report
from motion_nodes.sim.cell_contacts import ContactLog
from motion_nodes.sim.mujoco_world import MujocoWorld

LISTED = 8
"""Pairs that a report names."""
EVERY = 5
"""Steps of the loop between two looks where wheels touch the floor all the time."""


class ContactReport:
    """Watches a cell's contacts, and reports those that are not expected."""

    def __init__(self, cell: MujocoWorld) -> None:
        """Watch from now."""
        self._cell = cell
        self._log = ContactLog()
        rolling = any(placement.robot.kind != "arm" for placement in cell.placements)
        self._every, self._ticks = EVERY if rolling else 1, 0
        self._reported = -1.0
        self._time = 0.0

    def tick(self) -> None:
        """Look at the contacts of the newest step."""
        self._ticks += 1
        if self._ticks % self._every:
            return
        time = self._cell.time
        if time < self._time:
            self._log.clear()
            self._reported = -1.0
        self._time = time
        self._log.add(time, self._cell.contacts())

    def diagnose(self, report: Report) -> None:
        """Tell of the contacts since the last report, and of all since the start or a reset."""
        records = dict(self._log.records)
        recent = [pair for pair, record in records.items() if record.last > self._reported]
        self._reported = self._time
        for a, b in list(recent)[:LISTED]:
            report.note("WARN", f"contact: {a} with {b}")
        worst = max((r.depth for r in records.values()), default=0.0)
        force = max((r.force for r in records.values()), default=0.0)
        report.value("contacts", sum(r.episodes for r in records.values()))
        report.value("contact depth max [m]", worst)
        report.value("contact force max [N]", force)
        pairs = sorted(records.items(), key=lambda item: -item[1].depth)[:LISTED]
        report.value(
            "contact pairs",
            "; ".join(
                f"{a} - {b}: {r.episodes} x, {1e3 * r.depth:.2f} mm, {r.force:.0f} N"
                for (a, b), r in pairs
            ),
        )
