# SPDX-License-Identifier: Apache-2.0
"""What the browser viewer costs: processor time, messages, frames, and loading the page.

Run: ``python benchmarks/bench_viewer.py`` (about three minutes; Debian's chromium and
chromium-driver, and selenium, for all that concerns the page).

Robots move all their joints on sine waves; a feeder tells the viewer 100 times a second where they
are, as joint states do. The viewer has this process to itself, so its share is the time that the
process used, less that of a feeder alone.

The page is headless Chromium, which draws **in software**: its frames, its processor time and the
moment when all is drawn say what robots cost relative to each other, not what a graphics card does.
Independent of that are the viewer's share, what one drawing takes, messages and bytes, and the work
of the page's main thread before it hands a picture over (``Performance.getMetrics``).
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from report import Cell, Report, arguments, progress

from motion_nodes.model.loader import load_robot
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.viewed_robot import ViewedRobot

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))

FEED = 100.0
"""[Hz]"""
SIZE = (960, 600)
TICKS = os.sysconf("SC_CLK_TCK")
FRAMES = """
const done = arguments[arguments.length - 1], begin = performance.now();
let count = 0;
function frame() {
  count += 1;
  const passed = performance.now() - begin;
  if (passed > 1000 * arguments_seconds) done(1000 * count / passed);
  else requestAnimationFrame(frame);
}
requestAnimationFrame(frame);
"""
PAINTED = """
const first = performance.getEntriesByType('paint').find(e => e.name == 'first-contentful-paint');
return first ? first.startTime : NaN;
"""


@dataclass
class Sent:
    """What a viewer sent to its pages."""

    windows: int = 0
    """Messages of the web socket, each with all that changed meanwhile."""
    updates: int = 0
    """Of one node of the scene or one element of the panel."""
    bytes: int = 0


@contextmanager
def counted() -> Iterator[Sent]:
    """Count what viser sends while this lasts."""
    from viser.infra._async_message_buffer import AsyncMessageBuffer
    from websockets.asyncio.server import ServerConnection

    sent = Sent()
    send, push = ServerConnection.send, AsyncMessageBuffer.push

    async def counting_send(self: Any, message: Any, *args: Any, **named: Any) -> None:
        sent.windows += 1
        sent.bytes += len(message)
        await send(self, message, *args, **named)

    def counting_push(self: Any, message: Any) -> None:
        sent.updates += 1
        push(self, message)

    ServerConnection.send, AsyncMessageBuffer.push = counting_send, counting_push
    try:
        yield sent
    finally:
        ServerConnection.send, AsyncMessageBuffer.push = send, push


def descendants(root: int) -> list[int]:
    """Return the processes below one, itself included."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def processor_time(processes: list[int]) -> float:
    """Return what processes have used [s]; those that are gone are left out."""
    used = 0
    for process in processes:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        used += int(fields[11]) + int(fields[12])
    return used / TICKS


def main_thread(page: Any) -> float:
    """Return what the page's main thread has worked so far [s]."""
    metrics = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


class Feeder:
    """Moves all joints of all robots on a thread of its own."""

    def __init__(self, viewer: BrowserViewer | None, count: int) -> None:
        """Start."""
        self._viewer, self._count = viewer, count
        self._home = load_robot("franka").home
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            due += 1.0 / FEED
            q = self._home + 0.3 * np.sin(due + np.arange(len(self._home)))
            for number in range(self._count):
                if self._viewer is not None:
                    self._viewer.update_joints(self._viewer.robot_names[number], q)
            self._over.wait(max(0.0, due - time.monotonic()))


def share(seconds: float) -> float:
    """Return what this process uses of a core [%], while that time passes."""
    used, begin = time.process_time(), time.monotonic()
    time.sleep(seconds)
    return 100.0 * (time.process_time() - used) / (time.monotonic() - begin)


@contextmanager
def viewer_of(count: int, shadows: bool) -> Iterator[BrowserViewer]:
    """Open a viewer of so many Frankas, a metre apart."""
    robot, shown = load_robot("franka"), []
    for number in range(count):
        X_WR = np.eye(4)
        X_WR[1, 3] = -float(number)
        shown.append(ViewedRobot.of(robot, f"arm_{number}", X_WR))
    with BrowserViewer(shown, 0, shadows=shadows) as viewer:
        yield viewer


def without_page(counts: list[int], seconds: float) -> list[list[Cell]]:
    """Measure viewers that nobody looks at."""
    rows: list[list[Cell]] = []
    for count in counts:
        progress(f"viewer: {count} robots, no page")
        begin = time.monotonic()
        with viewer_of(count, shadows=False) as viewer:
            opened = time.monotonic() - begin
            alone = Feeder(None, count)
            base = share(seconds)
            alone.close()
            feeder = Feeder(viewer, count)
            rows.append([_label(count), 1e3 * opened, share(seconds) - base])
            feeder.close()
    return rows


def one_drawing(counts: list[int], times: int = 500) -> list[list[Cell]]:
    """Measure what one drawing costs while all joints move, without the network."""
    rows: list[list[Cell]] = []
    for count in counts:
        progress(f"viewer: {count} robots, drawing alone")
        with viewer_of(count, shadows=False) as viewer, counted() as sent:
            home = load_robot("franka").home
            used = 0.0
            for step in range(times):
                for name in viewer.robot_names:
                    viewer.update_joints(name, home + 0.3 * np.sin(0.05 * step + np.arange(9)))
                begin = time.thread_time()
                viewer.flush()
                used += time.thread_time() - begin
            rows.append([_label(count), 1e3 * used / times, sent.updates / times])
    return rows


def with_page(
    counts: list[int], seconds: float, shadows: bool
) -> tuple[list[list[Cell]], list[list[Cell]]]:
    """Measure viewers with one page: how it loads, and how it runs."""
    from browser.chromium import chromium_page

    loads: list[list[Cell]] = []
    runs: list[list[Cell]] = []
    for count in counts:
        progress(f"viewer: {count} robots, a page, shadows {shadows}")
        with (
            tempfile.TemporaryDirectory() as folder,
            chromium_page(Path(folder), *SIZE) as page,
            viewer_of(count, shadows) as viewer,
            counted() as sent,
        ):
            page.driver.set_script_timeout(300)
            page.driver.execute_cdp_cmd("Performance.enable", {})
            browser = page.driver.service.process.pid
            begin = time.monotonic()
            page.driver.get(viewer.url)
            page.wait_for_text("arm_0", 300.0)
            there = time.monotonic() - begin
            page.wait_until_drawn()
            drawn = time.monotonic() - begin
            painted = page.driver.execute_script(PAINTED)
            worked = main_thread(page)
            loads.append(
                [_label(count), painted, 1e3 * there, 1e3 * drawn, 1e3 * worked, sent.bytes / 1e3]
            )
            feeder = Feeder(viewer, count)
            time.sleep(1.0)
            before = (sent.windows, sent.updates, sent.bytes)
            processes = descendants(browser)
            page_used, worked = processor_time(processes), main_thread(page)
            begin = time.monotonic()
            used = share(seconds)
            passed = time.monotonic() - begin
            page_used, worked = processor_time(processes) - page_used, main_thread(page) - worked
            after = (sent.windows, sent.updates, sent.bytes)
            rates = [(b - a) / passed for a, b in zip(before, after, strict=True)]
            script = FRAMES.replace("arguments_seconds", f"{seconds:g}")
            frames = page.driver.execute_async_script(script)
            feeder.close()
            runs.append(
                [
                    _label(count), used, rates[0], rates[1], rates[2] / 1e3,
                    100.0 * worked / passed, 100.0 * page_used / passed, frames,
                ]
            )  # fmt: skip
    return loads, runs


def _label(count: int) -> str:
    return "1 robot" if count == 1 else f"{count} robots"


def main() -> None:
    """Measure."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="each measurement takes so long")
    parser.add_argument("--robots", type=int, nargs="+", default=[1, 4], help="how many to show")
    options = parser.parse_args()
    report = Report("Browser viewer")
    report.table(
        "Nobody looks", ["", "start [ms]", "of a core [%]"],
        without_page(options.robots, options.seconds),
    )  # fmt: skip
    report.table(
        "One drawing, all joints moving", ["", "time [ms]", "updates"], one_drawing(options.robots)
    )
    for shadows in (False, True):
        loads, runs = with_page(options.robots, options.seconds, shadows)
        how = f"{'with' if shadows else 'without'} shadows and reflections"
        report.table(
            f"A page is opened, {how}",
            ["", "first paint [ms]", "panel [ms]", "all drawn [ms]", "main thread [ms]", "kB"],
            loads, "Drawn in software by the processor that the viewer runs on, too.",
        )  # fmt: skip
        report.table(
            f"A page is open, robots move, {how}",
            [
                "", "viewer, of a core [%]", "messages/s", "updates/s", "kB/s",
                "page's main thread [%]", "browser, of a core [%]", "frames/s",
            ],
            runs, "The browser's share and its frames are those of drawing in software.",
        )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
