# SPDX-License-Identifier: Apache-2.0
"""Processes that the launch files start end with launch_ros, also if it is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from own_domain import ENVIRONMENT
from patience import wait_until

from motion_nodes.kernels.parent_death import VARIABLE

PARENT = """
import subprocess, sys, time
with open("log", "w") as log:
    started = subprocess.Popen([sys.executable, "-m", *sys.argv[1:]], stdout=log, stderr=log)
print(started.pid, flush=True)
time.sleep(600)
"""
COMMANDS = {
    "a node": ["motion_nodes.nodes", "robot_state", "--ros-args", "-p", "robot:=jetbot"],
    "the supervisor": ["motion_nodes.bringup.suite", "robot:=jetbot", "backend:=mock",
                       "viewer:=none"],
}  # fmt: skip


def runs(pid: int) -> bool:
    """Return whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("what", COMMANDS)
def test_a_process_ends_when_its_parent_is_killed(what, tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *COMMANDS[what]], stdout=subprocess.PIPE, text=True,
        env=ENVIRONMENT | {VARIABLE: "1"}, cwd=tmp_path,
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    try:
        up = "configured" if what == "a node" else "motion: READY"
        wait_until(lambda: up in (tmp_path / "log").read_text(), f"{what} is up")
        parent.kill()
        parent.wait()
        wait_until(lambda: not runs(pid), f"{what} has ended")
    finally:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)
