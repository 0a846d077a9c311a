# SPDX-License-Identifier: Apache-2.0
"""How the nodes of the suite are, as they say it themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import viser

from motion_nodes.view.status_text import plain

SILENT_AFTER = 4.0
"""[s] Nodes report once a second; one that did not for so long is shown as silent."""
FORGOTTEN_AFTER = 60.0
"""[s] Then it is no longer shown."""
MOST_NODES = 60
MARKS = {"OK": "🟢", "WARN": "🟠", "ERROR": "🔴", "STALE": "⚪", "SILENT": "⚪"}


@dataclass(frozen=True)
class Health:
    """What one node reports."""

    name: str
    level: str
    """``OK``, ``WARN``, ``ERROR`` or ``STALE``."""
    text: str


class HealthPanel:
    """Takes reports from any thread and shows them as a table, the worst first.

    Args:
        gui: viser's panel.
    """

    def __init__(self, gui: viser.GuiApi) -> None:
        """Add the folder, hidden until there are reports."""
        self._lock = threading.Lock()
        self._newest: dict[str, tuple[Health, float]] = {}
        self._folder = gui.add_folder("Nodes", expand_by_default=False, visible=False)
        with self._folder:
            self.table = gui.add_markdown("")

    def take(self, reports: Iterable[Health]) -> None:
        """Take reports; each replaces the one before of its node."""
        now = time.monotonic()
        with self._lock:
            for report in reports:
                if report.name in self._newest or len(self._newest) < MOST_NODES:
                    self._newest[report.name] = (report, now)

    def summary(self) -> str:
        """Return in a few words how all nodes are; nothing before the first report."""
        levels = [report.level for report in self._reports()]
        if not levels:
            return ""
        bad = [level for level in ("ERROR", "WARN", "STALE", "SILENT") if level in levels]
        if not bad:
            return f"{len(levels)} nodes OK"
        return ", ".join(f"{levels.count(level)} {level}" for level in bad) + (
            f" of {len(levels)} nodes"
        )

    def refresh(self) -> None:
        """Renew the table; on viser's event loop."""
        reports = self._reports()
        lines = ["| | node | says |", "|:-|:-|:-|"]
        for report in reports:
            mark = MARKS.get(report.level, MARKS["ERROR"])
            lines.append(f"| {mark} | {plain(report.name)} | {plain(report.text)} |")
        text = "\n".join(lines) if reports else ""
        if text != self.table.content:
            self.table.content, self._folder.visible = text, bool(text)

    def _reports(self) -> list[Health]:
        """Return the newest report of each node, those that need a look first."""
        now = time.monotonic()
        with self._lock:
            self._newest = {
                name: (report, heard)
                for name, (report, heard) in self._newest.items()
                if now - heard < FORGOTTEN_AFTER
            }
            found = [
                report
                if now - heard < SILENT_AFTER
                else Health(report.name, "SILENT", f"no report for {now - heard:.0f} s")
                for report, heard in self._newest.values()
            ]
        order = {"ERROR": 0, "SILENT": 1, "STALE": 1, "WARN": 2}
        return sorted(found, key=lambda report: (order.get(report.level, 3), report.name))
