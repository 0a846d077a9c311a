# SPDX-License-Identifier: Apache-2.0
"""Monitors the startup of a suite until every node is ready, and prints the progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from motion_nodes.kernels.cache import MESHES
from motion_nodes.kernels.shared_work import in_progress
from motion_nodes.ros.readiness import ASLEEP, FAILED, FAULT, READY, News

REMIND = (10.0, 60.0)
"""[s] Time after which nodes that are not ready are listed, and period of repetition."""
DECOMPOSING = " (collision meshes are decomposed into convex parts, once per machine)"
"""Added while processes do so."""


class Startup:
    """Startup state of the nodes: ready or not, with the reason.

    Without autostart a node counts as up once it can be configured.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        print_line: Callable[[str], None],
        then: Callable[[], str] = lambda: "",
        omitted: Iterable[str] = (),
    ) -> None:
        """Start the monitoring.

        Args:
            nodes: full names.
            print_line: prints one line.
            then: returns the next step for the user, as text.
            omitted: what is not started, and why, for the summary.
        """
        self._omitted = list(omitted)
        self.failed_robots: dict[str, str] = {}
        """Namespaces of robots of which a node cannot start, each with node and reason."""
        self._states: dict[str, News | None] = {name: None for name in nodes}
        self._print_line = print_line
        self._then = then
        self._began = time.monotonic()
        self._remind_at = self._began + REMIND[0]
        self.complete = False
        """Whether all nodes have been up."""

    @property
    def seconds(self) -> float:
        """Time since the start [s]."""
        return time.monotonic() - self._began

    @property
    def missing(self) -> dict[str, str]:
        """Names of the nodes that are not up, each with the reason if known."""
        return {
            name: _why(news)
            for name, news in self._states.items()
            if news is None or news.state not in (READY, ASLEEP)
        }

    def came_up(self, names: Iterable[str]) -> bool:
        """Return whether all of these nodes reported a state other than FAILED."""
        known = (self._states.get(name) for name in names)
        return all(news is not None and news.state != FAILED for news in known)

    def leave_out(self, robots: Mapping[str, str]) -> None:
        """Go on without robots that cannot start; nodes of their processes start again.

        Args:
            robots: namespaces, each with the reason.
        """
        for name, news in list(self._states.items()):
            if _namespace(name) in robots:
                del self._states[name]
            elif news is not None and news.state == FAILED:
                self._states[name] = None
        for robot, why in robots.items():
            self.failed_robots.pop(robot, None)
            self._omitted.append(f"{robot} ({why})")
            self._print_line(f"{robot} is left out: {why}; the others start")
        self._check_complete()

    def report(self, news: News, process: Iterable[str] = ()) -> None:
        """Process the report of a node.

        Args:
            news: its state.
            process: full names of all nodes of its process.
        """
        if news.state == FAILED:
            # If one node cannot start, all nodes of its process end.
            for name in process:
                self._states[name] = News(FAILED, name)
            where = news.node or next(iter(process), "a process")
            text = f"{where.strip('/')} cannot start: {news.text}"
            spaces = {_namespace(name) for name in ([news.node] if news.node else process)}
            if len(spaces) == 1:
                self.failed_robots[spaces.pop()] = text
            self._print_line(text)
            return
        if news.node not in self._states:
            return
        self._states[news.node] = news
        name = news.node.strip("/")
        if news.state == READY:
            note = f"; {news.text}" if news.text else ""
            self._print_line(f"{name} is ready ({max(0.0, news.at - self._began):.1f} s){note}")
        elif news.state == FAULT:
            self._print_line(f"{name} has a fault: {news.text}")
        elif news.state == ASLEEP:
            self._print_line(f"{name} is {news.text} and waits to be configured and activated")
        self._check_complete()

    def _check_complete(self) -> None:
        if not self.complete and not self.missing:
            self.complete = True
            self._print_line(self._summary())

    def remind(self) -> None:
        """Print the nodes that are not up, if due."""
        if self.complete or time.monotonic() < self._remind_at:
            return
        self._remind_at = time.monotonic() + REMIND[1]
        cause = DECOMPOSING if in_progress(MESHES) else ""
        self._print_line(f"not ready after {self.seconds:.0f} s: {self.missing_text()}{cause}")

    def missing_text(self) -> str:
        """Return the nodes that are not up, grouped by the reason."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.missing.items():
            by_reason.setdefault(why, []).append(name.strip("/"))
        return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())

    def _summary(self) -> str:
        known = {name: news for name, news in self._states.items() if news is not None}
        asleep = [name for name, news in known.items() if news.state == ASLEEP]
        if asleep:
            return f"all up after {self.seconds:.1f} s; {len(asleep)} nodes wait to be activated"
        summary = f"READY after {self.seconds:.1f} s, {len(known)} nodes"
        if self._omitted:
            summary += f"; not started: {'; '.join(self._omitted)}"
        next_steps = self._then()
        return f"{summary}. {next_steps}" if next_steps else summary


def _namespace(node: str) -> str:
    """Return the namespace of a node's full name, without slashes at its ends."""
    return node.strip("/").rpartition("/")[0]


def _why(news: News | None) -> str:
    if news is None:
        return "still starting"
    return news.text or news.state
