# SPDX-License-Identifier: Apache-2.0
"""Percentiles, and contenders: installed or in another Python, in turns on one core."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from harness.processes import script_command
from harness.report import progress

T = TypeVar("T")


class Spread(NamedTuple):
    """Min, percentiles, max and number of values; NaN without values."""

    least: float = math.nan
    p50: float = math.nan
    p95: float = math.nan
    p99: float = math.nan
    maximum: float = math.nan
    number: int = 0

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Summarise values."""
        found = np.fromiter(values, dtype=float)
        if not len(found):
            return cls()
        return cls(*np.percentile(found, (0, 50, 95, 99, 100)).tolist(), len(found))


def median(values: Iterable[float]) -> float:
    """Return the median; NaN without values."""
    found = list(values)
    return float(np.median(found)) if found else math.nan


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN without values."""
    found = list(values)
    return float(np.mean(found)) if found else math.nan


def pin_to_core() -> None:
    """Pin this process to one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def take_turns(
    tasks: Mapping[T, Callable[[], object]], rounds: int = 25, seconds: float = 0.01,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[T, Spread]:  # fmt: skip
    """Return the times of tasks in short rounds in turns, so a busy machine slows all alike [s].

    Args:
        tasks: tasks by name; each is called once before timing.
        rounds: number of rounds of each task.
        seconds: target duration of a round of at least one call [s].
        clock: returns the time [s].
    """
    calls = {}
    for name, task in tasks.items():
        task()
        begin = clock()
        task()
        calls[name] = max(1, int(seconds / max(clock() - begin, 1e-7)))
    found: dict[T, list[float]] = {name: [] for name in tasks}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, task in tasks.items():
                begin = clock()
                for _ in range(calls[name]):
                    task()
                found[name].append((clock() - begin) / calls[name])
    finally:
        gc.enable()
    return {name: Spread.of(taken) for name, taken in found.items()}


def available(makers: Mapping[str, Callable[..., T]], *args: Any) -> dict[str, T]:
    """Return the available contenders; print the missing ones and the reasons."""
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make(*args)
        except ImportError as error:
            progress(f"without {name}: {error}")
    return found


def peer_lines(python: str, script: str, *args: str) -> list[Any]:
    """Return the lines of JSON that a script prints in another Python; none if it fails."""
    command = [python, *script_command(script, *args)[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        progress(f"without {script}: it ended with code {done.returncode}")
        return []
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
