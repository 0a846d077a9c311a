# SPDX-License-Identifier: Apache-2.0
"""A process that hangs during shutdown, in a library that holds the GIL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STUCK = """
import ctypes
from ros.probe import Probe
from motion_nodes.ros import run

class Stuck(Probe):
    def activate(self):
        print("active", flush=True)

    def destroy_node(self):
        print("stuck", flush=True)
        ctypes.PyDLL(None).sleep(600)

run.EXIT_DEADLINE = 1.5
run.run_node(Stuck)
"""


@pytest.mark.timeout(120)
def test_it_ends_and_shows_where_it_was() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[1], env=dict(os.environ),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "active\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert out == "stuck\n"
    assert process.returncode == 1
    assert "destroy_node" in err
