# SPDX-License-Identifier: Apache-2.0
"""Reports of unexpected contacts in a simulation."""

from __future__ import annotations

from motion_nodes.ros.diagnostics import Report
from motion_nodes.sim.cell_contacts import ContactLog
from motion_nodes.sim.mujoco_world import MujocoWorld

MAX_LISTED = 8
"""Max number of pairs in a report."""
WHEELED_PERIOD = 5
"""Cycles between two checks with wheeled robots, whose wheels are always in contact."""


class ContactReport:
    """Records and reports unexpected contacts of a cell."""

    def __init__(self, cell: MujocoWorld) -> None:
        """Start an empty record."""
        self._cell = cell
        self._log = ContactLog()
        rolling = any(placement.robot.kind != "arm" for placement in cell.placements)
        self._period, self._ticks = WHEELED_PERIOD if rolling else 1, 0
        self._reported = -1.0
        self._time = 0.0

    def tick(self) -> None:
        """Record the contacts of the last physics step."""
        self._ticks += 1
        if self._ticks % self._period:
            return
        time = self._cell.time
        if time < self._time:
            self._log.clear()
            self._reported = -1.0
        self._time = time
        self._log.add(time, self._cell.contacts())

    def diagnose(self, report: Report) -> None:
        """Report contacts since the last report, and a summary since the start or a reset."""
        records = dict(self._log.records)
        recent = [pair for pair, record in records.items() if record.last > self._reported]
        self._reported = self._time
        for a, b in list(recent)[:MAX_LISTED]:
            report.note("WARN", f"contact: {a} with {b}")
        depth = max((r.depth for r in records.values()), default=0.0)
        force = max((r.force for r in records.values()), default=0.0)
        report.value("contacts", sum(r.episodes for r in records.values()))
        report.value("contact depth max [m]", depth)
        report.value("contact force max [N]", force)
        pairs = sorted(records.items(), key=lambda item: -item[1].depth)[:MAX_LISTED]
        report.value(
            "contact pairs",
            "; ".join(
                f"{a} - {b}: {r.episodes} x, {1e3 * r.depth:.2f} mm, {r.force:.0f} N"
                for (a, b), r in pairs
            ),
        )
