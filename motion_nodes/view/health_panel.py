# SPDX-License-Identifier: Apache-2.0
"""Health of the suite's nodes, from their diagnostics."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import viser

from motion_nodes.view.status_text import plain

SILENT_AFTER = 4.0
"""Nodes report at 1 Hz; without a report for this time [s] a node is shown as silent."""
REMOVED_AFTER = 60.0
"""Without a report for this time [s] a node is removed from the table."""
MAX_NODES = 60
SUPERVISOR = "supervisor: "
"""Beginning of the names under which processes are reported."""


@dataclass(frozen=True)
class Health:
    """The report of one node."""

    name: str
    """Name of the node."""
    level: str
    """``OK``, ``WARN``, ``ERROR`` or ``STALE``."""
    text: str
    """Its status message."""


class HealthPanel:
    """Shows reports as a table, highest severity first; accepts them from any thread.

    Args:
        gui: viser's panel.
    """

    def __init__(self, gui: viser.GuiApi) -> None:
        """Add the folder, hidden until a report is received."""
        self._lock = threading.Lock()
        self._newest: dict[str, tuple[Health, float]] = {}
        self._folder = gui.add_folder("Nodes", expand_by_default=False, visible=False)
        with self._folder:
            self.table = gui.add_markdown("")

    def set_reports(self, reports: Iterable[Health]) -> None:
        """Store reports; each replaces the previous one of its node."""
        now = time.monotonic()
        with self._lock:
            for report in reports:
                if report.name in self._newest or len(self._newest) < MAX_NODES:
                    self._newest[report.name] = (report, now)

    def summary(self) -> str:
        """Return a summary such as ``"1 WARN of 8 nodes"``; empty before the first report."""
        reports = self._reports()
        if not reports:
            return ""
        levels = [report.level for report in reports]
        # Supervisors report about processes; `motion up` counts nodes, too.
        count = sum(not report.name.startswith(SUPERVISOR) for report in reports)
        bad = [level for level in ("ERROR", "WARN", "STALE", "SILENT") if level in levels]
        if not bad:
            return f"{count} nodes OK"
        return ", ".join(f"{levels.count(level)} {level}" for level in bad) + (f" of {count} nodes")

    def refresh(self) -> None:
        """Update the table; on viser's event loop."""
        reports = self._reports()
        lines = ["| Level | Node | Status |", "|:-|:-|:-|"]
        for report in reports:
            level = report.level if report.level == "OK" else f"**{plain(report.level)}**"
            lines.append(f"| {level} | {plain(report.name)} | {plain(report.text)} |")
        text = "\n".join(lines) if reports else ""
        if text != self.table.content:
            self.table.content, self._folder.visible = text, bool(text)

    def _reports(self) -> list[Health]:
        """Return the newest report of each node, highest severity first."""
        now = time.monotonic()
        with self._lock:
            self._newest = {
                name: (report, received)
                for name, (report, received) in self._newest.items()
                if now - received < REMOVED_AFTER
            }
            found = [
                report
                if now - received < SILENT_AFTER
                else Health(report.name, "SILENT", f"no report for {now - received:.0f} s")
                for report, received in self._newest.values()
            ]
        order = {"ERROR": 0, "SILENT": 1, "STALE": 1, "WARN": 2}
        return sorted(found, key=lambda report: (order.get(report.level, 3), report.name))
