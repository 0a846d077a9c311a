# SPDX-License-Identifier: Apache-2.0
"""Cached data that several processes need at the same time is computed once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from motion_nodes.core.scene.mesh_cache import stored_arrays
from motion_nodes.kernels.cache import in_progress, in_turns

PROGRAM = """
import os, sys, time
from functools import partial
from pathlib import Path
import numpy as np
from motion_nodes.core.scene.mesh_cache import stored_arrays
from motion_nodes.kernels.cache import in_progress, in_turns
log, seconds, nested = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "nested"

def compute(number):
    with log.open("a") as file:
        file.write(f"{number} {os.getpid()}\\n")
    time.sleep(seconds)
    return [np.full((2, 3), float(number))]

def task(number):
    inner = lambda: stored_arrays(f"mesh-inner{number}", partial(compute, number))
    return stored_arrays(f"mesh-outer{number}", inner) if nested else inner()

in_turns(partial(task, number) for number in range(6))
print([float(task(number)[0][0, 0]) for number in range(6)])
"""


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty disk cache."""
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path / "cache"))


def started(log: Path, seconds: float, nested: str = "plain") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(log), str(seconds), nested]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("nested", ["plain", "nested"])
def test_processes_share_the_work_and_each_result_is_computed_once(
    tmp_path: Path, nested: str
) -> None:
    log = tmp_path / "log"
    processes = [started(log, 0.2, nested if k else "plain") for k in range(3)]
    for process in processes:
        assert process.communicate(timeout=60)[0] == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]\n"
    rows = [line.split() for line in log.read_text().splitlines()]
    assert Counter(number for number, _ in rows) == dict.fromkeys("012345", 1)
    assert len({pid for _, pid in rows}) > 1
    assert not list(tmp_path.rglob("*.lock"))


@pytest.mark.long
def test_the_work_of_a_killed_process_is_done_by_another(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = started(log, 600.0)
    until = time.monotonic() + 30.0
    while not log.exists() and time.monotonic() < until:
        time.sleep(0.01)
    second = started(log, 0.0)
    time.sleep(0.2)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert "5.0" in second.communicate(timeout=60)[0]


def test_an_error_of_a_task_is_raised_and_the_result_stays_missing() -> None:
    def failing() -> list[np.ndarray]:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        in_turns([lambda: stored_arrays("mesh-failing", failing)])
    assert stored_arrays("mesh-failing", lambda: [np.ones((1, 3))])[0].shape == (1, 3)


def test_only_results_that_are_computed_now_are_in_progress(tmp_path: Path) -> None:
    assert in_progress() == 0
    first = started(tmp_path / "log", 600.0)
    until = time.monotonic() + 30.0
    while not in_progress("mesh-") and time.monotonic() < until:
        time.sleep(0.01)
    assert (in_progress("mesh-"), in_progress("other-")) == (1, 0)
    first.kill()
    first.wait()
    assert list(tmp_path.rglob("*.lock"))
    assert in_progress() == 0
