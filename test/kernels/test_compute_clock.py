# SPDX-License-Identifier: Apache-2.0
"""The clock of time limits stands while code is compiled, in any thread."""

import time
from concurrent.futures import ThreadPoolExecutor

import numba
import pytest

from motion_nodes.kernels import jit  # noqa: F401 (registers the listener of Numba)
from motion_nodes.kernels.compute_clock import compiling, compute_time


def test_it_runs_like_the_wall_clock() -> None:
    wall, own = time.perf_counter(), compute_time()
    time.sleep(0.02)
    assert compute_time() - own == pytest.approx(time.perf_counter() - wall, abs=0.01)


def test_it_stands_within_nested_blocks() -> None:
    before = compute_time()
    with compiling():
        first = compute_time()
        with compiling():
            time.sleep(0.02)
        assert compute_time() == first
    assert first - before < 0.01
    assert compute_time() - first < 0.01


def test_overlapping_compilations_of_threads_count_once() -> None:
    wall, own = time.perf_counter(), compute_time()

    def compile_for_a_while() -> None:
        with compiling():
            time.sleep(0.05)

    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(compile_for_a_while) for _ in range(4)]:
            job.result()
    elapsed, counted = time.perf_counter() - wall, compute_time() - own
    assert 0.0 <= counted < elapsed - 0.03


def test_it_stands_while_numba_compiles() -> None:
    @numba.njit
    def fresh(x: float) -> float:
        return x * 2.0 + 1.0

    wall, own = time.perf_counter(), compute_time()
    assert fresh(1.0) == 3.0
    elapsed, counted = time.perf_counter() - wall, compute_time() - own
    assert elapsed > 0.01
    assert counted < 0.5 * elapsed
