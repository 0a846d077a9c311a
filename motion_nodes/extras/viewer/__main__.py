# SPDX-License-Identifier: Apache-2.0
"""``python -m motion_nodes.extras.viewer franka jetbot``: robots in the browser, without ROS."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence

from motion_nodes.core.robot.loader import load_description
from motion_nodes.errors import MotionError
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.preview import Preview
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot


def main(arguments: Sequence[str] | None = None) -> int:
    """Show robots until SIGINT or SIGTERM.

    Args:
        arguments: of the command line; None: those of the process.

    Returns:
        Exit code: 0, or 1 if a robot or the port cannot be used.
    """
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())

    def open_viewer(robots: Sequence[ViewedRobot]) -> BrowserViewer:
        return BrowserViewer(robots, PageSettings(given.port, given.host, dark=given.dark))

    try:
        robots = [load_description(name) for name in given.robots]
        preview = Preview(robots, given.spacing, open_viewer)
    except MotionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Open {preview.viewer.url} in a browser. Press Ctrl-C to quit.", flush=True)
    stopped.wait()
    preview.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m motion_nodes.extras.viewer",
        description="Show robots in the browser; sliders and drive pads move the model directly.",
    )
    parser.add_argument("robots", nargs="+", metavar="ROBOT", help="name of a robot, or its folder")
    parser.add_argument("--port", type=int, default=8080, help="first port to try (default 8080)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0: all network interfaces (default 127.0.0.1)",
    )
    parser.add_argument(
        "--spacing", type=float, default=1.0, help="distance between robots [m] (default 1)"
    )
    parser.add_argument("--dark", action="store_true", help="use the dark theme")
    return parser


if __name__ == "__main__":
    sys.exit(main())
