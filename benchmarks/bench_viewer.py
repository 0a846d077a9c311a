# SPDX-License-Identifier: Apache-2.0
"""What the browser viewer costs: processor time, frames per second, and loading the page.

Run: ``python benchmarks/bench_viewer.py`` (about two minutes; Debian's chromium and
chromium-driver, and selenium, for all that concerns the page).

Robots move all their joints on sine waves; a feeder tells the viewer 100 times a second where they
are, as joint states do. The viewer has this process to itself, so its share is the time that the
process used, less that of a feeder alone. The page is headless Chromium, which draws **in
software**: its frame rate says what robots cost relative to each other, not what a graphics card
does.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from report import Cell, Report, arguments, progress

from motion_nodes.model.loader import load_robot
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.viewed_robot import ViewedRobot

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))

FEED = 100.0
"""[Hz]"""
SIZE = (960, 600)
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


def with_page(counts: list[int], seconds: float, shadows: bool) -> list[list[Cell]]:
    """Measure viewers with one page."""
    from browser.chromium import chromium_page

    rows: list[list[Cell]] = []
    for count in counts:
        progress(f"viewer: {count} robots, a page, shadows {shadows}")
        with (
            tempfile.TemporaryDirectory() as folder,
            chromium_page(Path(folder), *SIZE) as page,
            viewer_of(count, shadows) as viewer,
        ):
            page.driver.set_script_timeout(300)
            begin = time.monotonic()
            page.driver.get(viewer.url)
            page.wait_for_text("arm_0", 300.0)
            loaded = time.monotonic() - begin
            page.wait_until_drawn()
            drawn = time.monotonic() - begin
            feeder = Feeder(viewer, count)
            time.sleep(1.0)
            used = share(seconds)
            script = FRAMES.replace("arguments_seconds", f"{seconds:g}")
            frames = page.driver.execute_async_script(script)
            feeder.close()
            rows.append([_label(count), 1e3 * loaded, 1e3 * drawn, frames, used])
    return rows


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
    for shadows in (False, True):
        report.table(
            f"A page is open, {'with' if shadows else 'without'} shadows and reflections",
            ["", "page there [ms]", "all drawn [ms]", "frames/s", "viewer, of a core [%]"],
            with_page(options.robots, options.seconds, shadows),
            "Drawn in software by the processor that the viewer runs on, too.",
        )
    report.write(options.json)


if __name__ == "__main__":
    main()
