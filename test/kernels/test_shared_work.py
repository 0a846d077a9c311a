# SPDX-License-Identifier: Apache-2.0
"""Work that several processes share, processes that end with their parent, and the clock."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest

from motion_nodes.core.scene.mesh_cache import stored_arrays
from motion_nodes.kernels import jit  # noqa: F401 (registers the listener of Numba)
from motion_nodes.kernels.cache import in_progress, in_turns
from motion_nodes.kernels.compute_clock import compiling, compute_time
from motion_nodes.kernels.parent_death import die_with

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
def cache_folder(tmp_path, monkeypatch):
    """Use an empty disk cache."""
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path / "cache"))


def started(log: Path, seconds: float, nested: str = "plain") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(log), str(seconds), nested]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("nested", ["plain", "nested"])
def test_processes_share_the_work_and_each_result_is_computed_once(tmp_path, nested):
    log = tmp_path / "log"
    processes = [started(log, 0.2, nested if k else "plain") for k in range(3)]
    for process in processes:
        assert process.communicate(timeout=60)[0] == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]\n"
    rows = [line.split() for line in log.read_text().splitlines()]
    assert Counter(number for number, _ in rows) == dict.fromkeys("012345", 1)
    assert len({pid for _, pid in rows}) > 1
    assert not list(tmp_path.rglob("*.lock"))


@pytest.mark.long
def test_the_work_of_a_killed_process_is_done_by_another(tmp_path):
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


def test_an_error_of_a_task_is_raised_and_the_result_stays_missing():
    def failing() -> list[np.ndarray]:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        in_turns([lambda: stored_arrays("mesh-failing", failing)])
    assert stored_arrays("mesh-failing", lambda: [np.ones((1, 3))])[0].shape == (1, 3)


def test_only_results_that_are_computed_now_are_in_progress(tmp_path):
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


@pytest.mark.skipif(sys.platform != "linux", reason="a signal of Linux")
def test_a_killed_parent_takes_its_child_along():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "alive\n"
    os.kill(parent.pid, signal.SIGKILL)
    # The child holds the other end of the pipe, so this returns when it has ended.
    assert parent.stdout.read() == ""
    assert parent.wait() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="a signal of Linux")
def test_a_child_whose_parent_has_ended_ends_at_once():
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(os.getppid())], stdout=subprocess.PIPE, check=True
    )
    assert done.stdout == b""


def test_it_runs_like_the_wall_clock():
    wall, own = time.perf_counter(), compute_time()
    time.sleep(0.02)
    assert compute_time() - own == pytest.approx(time.perf_counter() - wall, abs=0.01)


def test_it_stands_within_nested_blocks():
    before = compute_time()
    with compiling():
        first = compute_time()
        with compiling():
            time.sleep(0.02)
        assert compute_time() == first
    assert first - before < 0.01
    assert compute_time() - first < 0.01


def test_overlapping_compilations_of_threads_count_once():
    wall, own = time.perf_counter(), compute_time()

    def compile_for_a_while() -> None:
        with compiling():
            time.sleep(0.05)

    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(compile_for_a_while) for _ in range(4)]:
            job.result()
    elapsed, counted = time.perf_counter() - wall, compute_time() - own
    assert 0.0 <= counted < elapsed - 0.03


def test_it_stands_while_numba_compiles():
    @numba.njit
    def fresh(x: float) -> float:
        return x * 2.0 + 1.0

    wall, own = time.perf_counter(), compute_time()
    assert fresh(1.0) == 3.0
    elapsed, counted = time.perf_counter() - wall, compute_time() - own
    assert elapsed > 0.01
    assert counted < 0.5 * elapsed
