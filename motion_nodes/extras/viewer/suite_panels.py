# SPDX-License-Identifier: Apache-2.0
"""Panels of the whole suite: health of its nodes, simulation, stop.

Health of the suite's nodes, from their diagnostics; the folder of the simulation on the panel:
pause, continue and reset; the buttons at the top of the panel that stop all robots and resume.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import viser

from motion_nodes.extras.viewer.panel_style import SECONDARY, bar_style, plain

SILENT_AFTER = 4.0
"""Nodes report at 1 Hz; without a report for this time [s] a node is shown as silent."""
REMOVED_AFTER = 60.0
"""Without a report for this time [s] a node is removed from the table."""
MAX_NODES = 60
DEBOUNCE = 2.5
"""Warnings that are shorter than this [s], such as of one late message, are not summarized."""
MAX_NAMED = 3
"""Max number of nodes named in the summary."""
SUPERVISOR = "supervisor: "
"""Beginning of the names under which processes are reported."""
PAUSE, CONTINUE = "Pause", "Continue"
"""Labels of the first button."""


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
        self._warned: dict[str, float] = {}
        """Times [s] since which nodes warn without a break."""
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
                    if report.level == "WARN":
                        self._warned.setdefault(report.name, now)
                    else:
                        self._warned.pop(report.name, None)

    def summary(self) -> str:
        """Return a summary such as ``"1 WARN of 8 nodes: move_group"``; empty before any report.

        Warnings count once they last ``DEBOUNCE``; all others at once.
        """
        reports = self._reports()
        if not reports:
            return ""
        lasting = time.monotonic() - DEBOUNCE
        levels = [
            "OK"
            if report.level == "WARN" and self._warned.get(report.name, -math.inf) > lasting
            else report.level
            for report in reports
        ]
        # Supervisors report about processes; `motion up` counts nodes, too.
        count = sum(not report.name.startswith(SUPERVISOR) for report in reports)
        bad = [level for level in ("ERROR", "WARN", "STALE", "SILENT") if level in levels]
        if not bad:
            return f"{count} nodes OK"
        named = [r.name for r, level in zip(reports, levels, strict=True) if level in bad]
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        counts = ", ".join(f"{levels.count(level)} {level}" for level in bad)
        return f"{counts} of {count} nodes: {', '.join(named[:MAX_NAMED])}{more}"

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


class SimulationPanel:
    """Pauses and resets the simulation.

    Args:
        gui: viser's panel.
        pause: called with whether to pause or to continue.
        reset: called when Reset is pressed.
    """

    def __init__(
        self, gui: viser.GuiApi, pause: Callable[[bool], None], reset: Callable[[], None]
    ) -> None:
        """Add the folder."""
        self._paused, self._text = False, ""
        with gui.add_folder("Simulation", expand_by_default=False):
            self.pause = gui.add_button(
                PAUSE, color=SECONDARY, hint="Pauses simulated time and with it all robots."
            )
            self.reset = gui.add_button(
                "Reset", color=SECONDARY, icon=viser.Icon.RESTORE,
                hint="Returns all robots to their initial poses, at rest, and time to 0. "
                "Odometry continues.",
            )  # fmt: skip
            self._line = gui.add_markdown("", visible=False)
        self.pause.on_click(lambda _: pause(not self._paused))
        self.reset.on_click(lambda _: reset())

    def set_state(self, paused: bool, text: str | None = None) -> bool:
        """Store the state of the simulation and the line below the buttons.

        Args:
            paused: whether simulated time is paused.
            text: the line; None: unchanged.

        Returns:
            Whether something changed.
        """
        text = self._text if text is None else text
        new = (paused, text) != (self._paused, self._text)
        self._paused, self._text = paused, text
        return new

    def refresh(self) -> None:
        """Update the elements; on viser's event loop."""
        label = CONTINUE if self._paused else PAUSE
        if label != self.pause.label:
            self.pause.label = label
        text = plain(self._text)
        if text != self._line.content:
            self._line.content, self._line.visible = text, bool(text)


class StopPanel:
    """Stop is always visible, Resume only while the robots are stopped.

    Args:
        gui: viser's panel.
        stop: called on viser's event loop when Stop or Esc is pressed.
        resume: called on viser's event loop when Resume is pressed.
    """

    def __init__(
        self, gui: viser.GuiApi, stop: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """Add the buttons."""
        self._reason = ""
        self.stop = gui.add_button(
            "Stop all robots", color="red", hint="Latched until Resume is pressed. Key: Esc"
        )
        self.resume = gui.add_button(
            "Resume",
            color="green",
            visible=False,
            hint="Commands are accepted again; interrupted motions are not continued",
        )
        self.line = gui.add_markdown("", visible=False)
        gui.add_html(bar_style(self.stop, self.resume))
        self.key = gui.add_command(
            "Stop all robots", description="Latched until Resume is pressed", hotkey="escape"
        )
        # Coroutines run on the event loop itself, independent of the thread pool's load.
        self.stop.on_click(_called(stop))
        self.key.on_trigger(_called(stop))
        self.resume.on_click(_called(resume))

    def set_reason(self, reason: str) -> bool:
        """Store the reason of the stop, empty while not stopped; return whether it changed."""
        new = reason != self._reason
        self._reason = reason
        return new

    def refresh(self) -> None:
        """Update the line and the button; on viser's event loop."""
        reason = self._reason
        content = f"**{plain(reason)}**" if reason else ""
        if content != self.line.content:
            self.line.content = content
            self.line.visible = self.resume.visible = bool(reason)


def _called(action: Callable[[], None]) -> Callable[[object], object]:
    async def call(_: object) -> None:
        action()

    return call
