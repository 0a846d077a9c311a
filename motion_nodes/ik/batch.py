# SPDX-License-Identifier: Apache-2.0
"""Batch inverse kinematics, in several threads that run without the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import (
    IkBatchResult,
    IkRequest,
    IkResult,
    IkSettings,
    IkStatus,
    as_configurations,
    bad_pose,
)
from motion_nodes.ik.workspace_pool import MemoryPool
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.ik.ik_memory import FOUND, NO_POSE, REPORT
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.kernels.ik.ik_codegen import GeneratedIk

_CHUNK, _LEAST_CHUNK = 64, 16
"""Max and min number of poses per work item of a thread: less than a millisecond."""
_CHUNKS = 4
"""Work items per thread, so that all threads end at about the same time."""


class Acceptance(Protocol):
    """Condition on solutions, such as being collision-free."""

    check: int
    """Address of ``int32 check(const double* q, const void* memory)``, a quick check during the
    search; 1 if a solution is accepted."""
    memory: int
    """Address passed to it."""

    def decide(self, Q: Array) -> NDArray[np.bool_]:
        """Return which solutions, shape (m, n), are accepted, shape (m,)."""

    def validity(self, q: Array) -> bool:
        """Return the same for one configuration [rad or m], shape (n,)."""


@dataclass(frozen=True)
class Batch:
    """Solves many poses with the same settings."""

    chain: IkChain
    kernel: GeneratedIk
    memories: MemoryPool
    settings: IkSettings
    acceptance: Acceptance | None = None

    def solve(
        self,
        targets: ArrayLike,
        seeds: ArrayLike | None,
        threads: int | None,
        one_by_one: Callable[[IkRequest], IkResult],
    ) -> IkBatchResult:
        """Solve for each pose; see ``LeastSquaresIk.solve_batch``.

        Args:
            targets: poses of the tip in the base, shape (m, 4, 4).
            seeds: shape (m, n), or (n,) for all; None: none.
            threads: number of threads; None: one per processor.
            one_by_one: solves a pose that exceeds the step budget of the batch.
        """
        began = compute_time()
        X = _as_poses(targets)
        n, m = len(self.chain.joint_names), len(X)
        starts = self._starts(seeds, m)
        q, report = np.empty((m, n)), np.empty((m, REPORT))
        count = _thread_count(threads, m)
        size = min(_CHUNK, max(_LEAST_CHUNK, -(-m // (_CHUNKS * count))))
        chunks = iter(range(0, m, size))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    first = next(chunks, None)
                if first is None:
                    return
                part = slice(first, min(first + size, m))
                given = None if starts is None else starts[part]
                self._solve_chunk(X[part], given, q[part], report[part])

        _run(work, count)
        bad = np.flatnonzero(report[:, 0] == NO_POSE)
        if len(bad):
            raise bad_pose(X[bad[0]], f"target {bad[0]} of {m}")
        self.chain.unwrap_all_near(q, self.chain.centre if starts is None else starts)
        status = [IkStatus.SOLVED] * m
        errors = report[:, 3:].copy()
        solved, validity = report[:, 0] == FOUND, None
        if self.acceptance is not None:
            solved[solved] = self.acceptance.decide(q[solved])
            validity = self.acceptance.validity
        for i in np.flatnonzero(~solved):
            seed = None if starts is None else starts[i]
            request = IkRequest(X[i], seed, validity=validity, settings=self.settings)
            single = one_by_one(request)
            status[i], q[i], errors[i] = single.status, single.q, single.errors
            report[i, 1] = single.iterations
        solved = np.array([s is IkStatus.SOLVED for s in status], dtype=bool)
        iterations = report[:, 1].astype(np.int64)
        took = compute_time() - began
        return IkBatchResult(tuple(status), solved, q, errors, iterations, took)

    def _starts(self, seeds: ArrayLike | None, m: int) -> Array | None:
        """Return a seed for each pose, shape (m, n)."""
        if seeds is None:
            return None
        starts = as_configurations(seeds, self.chain.joint_names, "seeds")
        if len(starts) not in (1, m):
            raise InvalidCommand(
                f"seeds must be one configuration or {m}, got {len(starts)}.", field="seeds"
            )
        return np.ascontiguousarray(np.broadcast_to(starts, (m, starts.shape[1])))

    def _solve_chunk(self, X: Array, starts: Array | None, q: Array, report: Array) -> None:
        """Solve for some poses."""
        address = 0 if starts is None else starts.ctypes.data
        memory = self.memories.take(self.settings, {})
        try:
            # Poses that exceed the step budget are solved individually afterwards.
            memory.begin(int(starts is not None), address, wait=starts is not None)
            if self.acceptance is not None:
                memory.work.set(accept=self.acceptance.check, accept_data=self.acceptance.memory)
            self.kernel.many(memory.work, X, q, report)
        finally:
            memory.work.set(accept=0, accept_data=0)
            memory.forget()
            self.memories.give_back(memory)


def _run(work: Callable[[], None], threads: int) -> None:
    """Run a function in several threads, including this one; re-raise the first exception."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # re-raised in the caller's thread
            failures.append(error)

    others = [threading.Thread(target=guarded, daemon=True) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    guarded()
    for thread in others:
        thread.join()
    if failures:
        raise failures[0]


def _thread_count(requested: int | None, poses: int) -> int:
    if requested is not None and requested < 1:
        raise InvalidConfig(f"threads is {requested}; it must be at least 1.")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(requested or available or 1, -(-poses // _LEAST_CHUNK)))


def _as_poses(targets: ArrayLike) -> Array:
    """Return poses as float64 array of shape (m, 4, 4)."""
    try:
        X = np.ascontiguousarray(targets, dtype=np.float64)
    except (TypeError, ValueError):
        X = np.empty(0)
    if X.ndim != 3 or X.shape[1:] != (4, 4):
        shape = np.shape(targets) if isinstance(targets, np.ndarray) else type(targets).__name__
        raise InvalidCommand(
            f"targets must be poses in an array of shape (m, 4, 4), got {shape}.", field="targets"
        )
    return X
