# SPDX-License-Identifier: Apache-2.0
"""``motion spheres`` as a process: it prints address and file, and ends cleanly."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from motion_nodes.core.robot.loader import load_robot


@pytest.mark.parametrize("shipped", [True, False])
def test_it_serves_a_page_until_ctrl_c(tmp_path: Path, shipped: bool) -> None:
    robot, saves_to = "jetbot", "jetbot_spheres.yaml"
    if not shipped:
        folder = tmp_path / "my_bot"
        shutil.copytree(load_robot("jetbot").directory, folder)
        robot, saves_to = str(folder), str(folder / "spheres.yaml")
    command = [sys.executable, "-m", "motion_nodes.cli.main", "spheres", robot, "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"Open (\S+) in a browser. Saves to (.+). Ctrl-C ends.\n", line)
        assert found, line
        assert found[2] == saves_to
        assert urllib.request.urlopen(found[1], timeout=10.0).status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(20.0) == 0
    finally:
        process.kill()
    assert not (tmp_path / "jetbot_spheres.yaml").exists(), "no file without saving"


def test_an_unknown_robot_is_said_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "motion_nodes.cli.main", "spheres", "frnka"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Did you mean 'franka'" in done.stderr
    assert "Traceback" not in done.stderr
