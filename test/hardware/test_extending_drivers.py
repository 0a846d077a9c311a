# SPDX-License-Identifier: Apache-2.0
"""The driver of docs/extending.md: found by its entry point, and moved by a session."""

import re
import socketserver
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionState
from motion_nodes.extras.hardware.robot_driver import available_drivers, make_driver

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
ROBOT = load_robot("ur5e")


class _Servos(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            words = line.decode().split()
            if words[0] == "move":
                self.server.positions = words[1:]  # type: ignore[attr-defined]
            answer = " ".join(self.server.positions)  # type: ignore[attr-defined]
            self.wfile.write(answer.encode() + b"\n")


@pytest.fixture
def device():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Servos) as server:
        server.daemon_threads = True
        server.positions = [str(q) for q in ROBOT.home]  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def install(folder: Path, target: str) -> None:
    """Put an installed package with the driver of the page into a folder."""
    code = next(c for c in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
                if "class LineDriver" in c)  # fmt: skip
    (folder / "line_driver_of_the_page.py").write_text(code)
    info = folder / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[motion_nodes.drivers]\nlines = {target}\n")


def test_driver_of_the_page(device, tmp_path, monkeypatch):
    install(tmp_path, "line_driver_of_the_page:LineDriver")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "lines" in available_drivers()
    session = DriverSession(make_driver(ROBOT, "lines", device=device), ROBOT.limits)
    none, zero = np.full(6, np.nan), np.zeros(6)
    goal = ROBOT.home + 0.02
    for k in range(60):
        now = 10**9 + k * 20_000_000
        for stamp in range(now - 16_000_000, now + 1, 4_000_000):
            q = ROBOT.home if k < 20 else goal
            session.command(now, stamp, StreamSample(q, zero, none))
        session.step(now)
    assert session.state is SessionState.ENABLED
    assert session.reading is not None
    assert np.allclose(session.reading.position, goal, atol=1e-4)
    session.close()
    sys.modules.pop("line_driver_of_the_page", None)


@pytest.mark.parametrize("target", ["no_such_module:X", "json:loads", "json:no_such_driver"])
def test_entry_points_that_are_no_drivers(target, tmp_path, monkeypatch):
    install(tmp_path, target)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidConfig):
        make_driver(ROBOT, "lines")
