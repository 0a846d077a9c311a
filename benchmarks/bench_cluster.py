# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics by local workers of a Dask cluster: wall and processor time by their number.

Run: ``python benchmarks/bench_cluster.py`` (one minute on two cores; needs the extra ``cluster``).

A scheduler and workers with one thread each are started on the loopback; what is loaded or compiled
once, by a first batch, is not timed. The configurations found must be the same for all numbers.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from harness import CpuShare, Options, Report, Row, benchmark, progress

import motion_nodes as mn
from motion_nodes.cli.cluster import cluster

START_TIMEOUT = 60.0  # [s]
WARM_UP = 1000  # Poses of the first batch


@contextlib.contextmanager
def local_cluster(count: int) -> Iterator[tuple[str, list[int]]]:
    """Context manager of a scheduler with workers: its address and the workers' process ids."""
    variables = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        log = Path(folder) / "log"

        def started(what: str, *words: str) -> int:
            with log.open("a") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", f"distributed.cli.dask_{what}", *words],
                    env=variables, cwd=folder, stdout=file, stderr=file,
                )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process.pid

        quiet = ("--no-dashboard", "--no-jupyter")
        started("scheduler", "--host", "127.0.0.1", "--port", "0", *quiet)
        end = time.monotonic() + START_TIMEOUT
        while not (found := re.search(r"tcp://\S+", log.read_text())):
            if time.monotonic() > end:
                sys.exit(f"The scheduler did not start: {log.read_text()}")
            time.sleep(0.1)
        words = [found[0], "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        pids = [started("worker", *words, "--name", f"w{k}") for k in range(count)]
        while log.read_text().count("Starting established connection") < count:
            if time.monotonic() > end:
                sys.exit(f"The workers did not start: {log.read_text()}")
            time.sleep(0.1)
        yield found[0], pids


@benchmark("Workers of a cluster", poses=(20_000, "poses"), counts=([1, 2], "numbers of workers"),
           repeats=(3, "repetitions of each"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure."""
    arm = mn.load_robot("ur5e")["arm"]
    world = mn.World()
    world.add("wall", mn.Box(0.02, 1.0, 0.4), mn.pose(xyz=(0.4, 0.0, 0.2)))
    poses = arm.fk_batch(arm.random(options.poses, seed=2))
    rows: list[Row] = []
    first: np.ndarray | None = None
    for count in options.counts:
        progress(f"{count} workers")
        with local_cluster(count) as (address, pids), cluster(address) as executor:
            arm.ik_batch(poses[:WARM_UP], world=world, executor=executor)
            for _ in range(options.repeats):
                share, began = CpuShare(pids), time.perf_counter()
                found = arm.ik_batch(poses, world=world, executor=executor)
                wall, used = time.perf_counter() - began, sum(share.end().values())
                first = found.q if first is None else first
                rows.append({
                    "workers": count, "wall [s]": wall, "poses/s": len(poses) / wall,
                    "processors": used / 100.0, "solved": int(found.solved.sum()),
                    "as the first": "yes" if np.array_equal(found.q, first, equal_nan=True)
                    else "no",
                })  # fmt: skip
    report.table("Inverse kinematics of a UR5e beside a wall", rows)
