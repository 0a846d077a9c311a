# SPDX-License-Identifier: Apache-2.0
"""Resources of the browser viewer: CPU, messages, and loading time of the page.

Run: ``python benchmarks/bench_viewer.py`` (two minutes; measurements of the page need Debian's
chromium and chromium-driver, and selenium).

All joints of the robots move on sine waves; a feeder updates the viewer at 100 Hz, like joint
states. The viewer runs alone in this process, so its CPU share is that of the process minus that of
a feeder alone. The page is headless Chromium, which renders **in software**: time until drawn and
CPU of the browser only compare numbers of robots and shadows, and do not represent a GPU. CPU of
the viewer, messages and bytes do not depend on it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from harness import CpuShare, Options, Report, Row, benchmark, progress
from harness.processes import descendants, looped

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

RATES = ("messages/s", "updates/s", "kB/s")
FEED, SIZE = 100.0, (960, 600)  # Update rate [Hz]; size of the page [px]


@contextmanager
def counted() -> Iterator[np.ndarray]:
    """Count what viser sends in the meantime: web socket messages, their updates, kB."""
    from viser.infra._async_message_buffer import AsyncMessageBuffer
    from websockets.asyncio.server import ServerConnection

    sent = np.zeros(3)
    send, push = ServerConnection.send, AsyncMessageBuffer.push

    async def counting_send(self: Any, message: Any, *args: Any, **named: Any) -> None:
        sent[:] += (1.0, 0.0, 1e-3 * len(message))
        await send(self, message, *args, **named)

    def counting_push(self: Any, message: Any) -> None:
        sent[1] += 1.0
        push(self, message)

    with (
        patch.object(ServerConnection, "send", counting_send),
        patch.object(AsyncMessageBuffer, "push", counting_push),
    ):
        yield sent


def feeding(viewer: BrowserViewer | None, count: int) -> AbstractContextManager[None]:
    """Move all joints of all robots in a separate thread."""
    home = load_robot("franka").home

    def move() -> None:
        q = home + 0.3 * np.sin(time.monotonic() + np.arange(len(home)))
        for name in viewer.robot_names[:count] if viewer is not None else ():
            viewer.robot(name).update_joints(q)

    return looped(FEED, move)


def share(seconds: float) -> float:
    """Return the CPU share of this process during a time [% of a core]."""
    used = CpuShare([os.getpid()])
    time.sleep(seconds)
    return sum(used.end().values())


def viewer_of(count: int, shadows: bool = False) -> BrowserViewer:
    """Return a viewer with a number of Frankas, 1 m apart."""
    robot, places = load_robot("franka"), [from_xyz_rpy((0.0, -k, 0.0)) for k in range(count)]
    shown = [ViewedRobot.of(robot, f"arm_{k}", X_WR) for k, X_WR in enumerate(places)]
    return BrowserViewer(shown, PageSettings(0, shadows=shadows))


def without_page(count: int, seconds: float) -> Row:
    """Return the row of a viewer without a page."""
    with feeding(None, count):
        base = share(seconds)
    with viewer_of(count) as viewer, feeding(viewer, count):
        return {"": f"{count} robots", "of a core [%]": share(seconds) - base}


def with_page(count: int, seconds: float, shadows: bool) -> Row:
    """Return the row of a viewer with one page, loading and running."""
    from browser.chromium import chromium_page

    progress(f"viewer: {count} robots, a page, shadows {shadows}")
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium_page(Path(folder), *SIZE) as page,
        viewer_of(count, shadows) as viewer,
        counted() as sent,
    ):
        page.driver.set_script_timeout(300)
        begin = time.monotonic()
        page.driver.get(viewer.url)
        page.wait_for_text("arm_0", 300.0)
        page.wait_until_drawn()
        row: Row = {
            "": f"{count} robots, {'with' if shadows else 'without'} shadows",
            "all drawn [ms]": 1e3 * (time.monotonic() - begin), "loaded [kB]": float(sent[2]),
        }  # fmt: skip
        with feeding(viewer, count):
            time.sleep(1.0)
            before = sent.copy()
            browsing = CpuShare(descendants(page.driver.service.process.pid))
            row["viewer, of a core [%]"] = share(seconds)
            row |= dict(zip(RATES, ((sent - before) / seconds).tolist(), strict=True))
            return row | {"browser, of a core [%]": sum(browsing.end().values())}


@benchmark("Browser viewer", seconds=(5.0, "of each measurement"), robots=([1, 4], "how many"))
def main(report: Report, options: Options) -> None:
    """Measure."""
    progress("viewer without a page")
    rows = [without_page(count, options.seconds) for count in options.robots]
    report.table("No page is open, robots move", rows)
    rows = [with_page(count, options.seconds, shadows)
            for count in options.robots for shadows in (False, True)]  # fmt: skip
    report.table("A page is opened, then robots move", rows,
                 "Drawn in software by the processor that the viewer runs on, too.")  # fmt: skip
