# SPDX-License-Identifier: Apache-2.0
"""Processes that end with the process that started them."""

import os
import signal
import subprocess
import sys

import pytest

from motion_nodes.kernels.parent_death import die_with

CHILD = f"""
import sys, time
from {die_with.__module__} import die_with
die_with(int(sys.argv[1]))
print("alive", flush=True)
time.sleep(120)
"""
PARENT = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {CHILD!r}, str(os.getpid())])
time.sleep(120)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a signal of Linux")


def test_a_killed_parent_takes_its_child_along():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "alive\n"
    os.kill(parent.pid, signal.SIGKILL)
    # The child holds the other end of the pipe, so this returns when it has ended.
    assert parent.stdout.read() == ""
    assert parent.wait() == -signal.SIGKILL


def test_a_child_whose_parent_has_ended_ends_at_once():
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(os.getppid())], stdout=subprocess.PIPE, check=True
    )
    assert done.stdout == b""
