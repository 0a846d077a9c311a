# SPDX-License-Identifier: Apache-2.0
"""Processes that compile kernels end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import os, sys, threading, time
from pathlib import Path
from motion_nodes.core.planning.warm_up import compile_apart
from motion_nodes.core.scene.exact_warm_up import compile_exact_checks

def plan():
    compile_apart("franka", lambda: None, lambda: False)

work = {"plan": plan, "exact": compile_exact_checks}[sys.argv[1]]
threading.Thread(target=work, daemon=True).start()
children = []
while not children:
    time.sleep(0.001)
    tasks = Path("/proc/self/task").glob("*/children")
    children = [pid for task in tasks for pid in task.read_text().split()]
print(*children, flush=True)
sys.stdin.read()
os._exit(0)  # as a node whose threads are not joined
"""


def runs(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition, within):
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
@pytest.mark.parametrize("work", ["plan", "exact"])
@pytest.mark.parametrize("compiling", [False, True], ids=["while it imports", "while it compiles"])
@pytest.mark.parametrize("killed", [False, True], ids=["the parent ends", "the parent is killed"])
def test_no_compiling_process_outlives_its_parent(work, compiling, killed, tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, work],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        child = int(parent.stdout.readline())
        try:
            if compiling:  # it is nice only after its imports
                wait_until(lambda: os.getpriority(os.PRIO_PROCESS, child) > 0, 60.0)
            assert runs(child)
            if killed:
                parent.kill()
            parent.stdin.close()
            parent.wait(10.0)
            wait_until(lambda: not runs(child), 10.0)
        finally:
            if runs(child):
                os.kill(child, signal.SIGKILL)
