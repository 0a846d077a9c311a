# SPDX-License-Identifier: Apache-2.0
"""The default solver: damped least squares from many seeds in parallel, for any chain.

The computation is done by :mod:`motion_nodes.kernels.ik.ik_codegen`; here a request is written to
the kernel's workspace, and its results are read.

The part of a search that follows the first kernel call. Checks the timeout, continues with further
seeds, checks the validity of solutions, and collects them if the closest is preferred.

Batch inverse kinematics, in several threads that run without the GIL.
"""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import (
    IkBatchResult,
    IkRequest,
    IkResult,
    IkSettings,
    IkStatus,
    as_configurations,
    pose_error,
    rejection,
    too_far,
    what_is_nearest,
)
from motion_nodes.core.ik.redundancy import TipKeeper, improved
from motion_nodes.core.ik.workspace import MemoryPool, SolverMemory
from motion_nodes.core.robot.poses import as_pose, bad_pose, inverse, rigid_pose
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.ik.ik_step import EXHAUSTED, FOUND, LANES, NO_POSE, REPORT
from motion_nodes.tolerances import DUPLICATE_SOLUTIONS
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.kernels.ik.ik_codegen import GeneratedIk

_CHUNK, _LEAST_CHUNK = 64, 16
"""Max and min number of poses per work item of a thread: less than a millisecond."""
_CHUNKS = 4
"""Work items per thread, so that all threads end at about the same time."""


class SolutionSearch:
    """The rest of one search, after the first call of the kernel."""

    status: IkStatus
    q: Array
    """The solution, or the closest configuration [rad or m], shape (n,)."""
    errors: Array
    iterations: int
    attempts: int
    refusals: Counter[str]
    """Reasons why solutions were rejected, with counts."""

    def __init__(
        self, kernel: GeneratedIk, memory: SolverMemory, request: IkRequest, near: Array
    ) -> None:
        """Create the search.

        Args:
            kernel: the kernel.
            memory: its workspace, in which the search has begun.
            request: the request.
            near: configuration near which solutions are preferred, shape (n,).
        """
        self._kernel, self._memory, self._request = kernel, memory, request
        self._work, self._chain = memory.work, memory.chain
        self._target = memory.work.target.copy()
        self._near = near
        self._used = 0
        self._judged: list[Array] = []
        self._solutions: list[Array] = []
        self.refusals = Counter()

    def run(self, outcome: int, deadline: float) -> None:
        """Run the search.

        Args:
            outcome: the kernel's first outcome.
            deadline: end time on the clock of :func:`compute_time` [s].
        """
        ended = self._run(outcome, deadline)
        self.iterations = self._work.get("iterations")
        self.attempts = self._used + self._work.get("next")
        if ended is not None:
            self._fail(ended)

    def how_it_ended(self) -> str:
        """Return how the search ended."""
        tried = "1 initial guess" if self.attempts == 1 else f"{self.attempts} initial guesses"
        if self.status is IkStatus.TIMED_OUT:
            within = f"{self._memory.settings.timeout:g} s"
            ended = f"no solution within {within} ({tried}, {self.iterations} steps)"
        elif self.status is IkStatus.ITERATION_LIMIT:
            ended = f"no solution within {self.iterations} iterations ({tried})"
        elif self.status is IkStatus.REFUSED:
            ended = f"no valid solution from {tried}"
        else:
            ended = f"no solution from {tried}"
        if not self.refusals:
            return ended
        common = "; ".join(f"{text} ({count}x)" for text, count in self.refusals.most_common(3))
        return f"{ended}; {self.refusals.total()} refused: {common}"

    def _run(self, outcome: int, deadline: float) -> IkStatus | None:
        """Run the search; return the failure status, or None on success."""
        closest = self._memory.settings.prefer == "closest"
        while True:
            discard = 0
            if outcome == FOUND:
                discard = self._work.get("found")
                found = self._found(discard)
                if closest:
                    self._solutions += found
                elif self._accept(found, deadline):
                    return None
            self._work.set(discard=discard)
            if outcome == EXHAUSTED:
                used = self._used + self._work.get("next")
                if not self._memory.next_piece(used):
                    ended = IkStatus.NOT_FOUND
                    break
                self._used = used
            if compute_time() > deadline:
                ended = IkStatus.TIMED_OUT
                break
            if not self._memory.grant_steps():
                ended = IkStatus.ITERATION_LIMIT
                break
            outcome = self._kernel.resume(self._work)
        limit = self._memory.settings.max_iterations
        if limit is not None and self._work.get("iterations") >= limit:
            ended = IkStatus.ITERATION_LIMIT
        self._solutions.sort(key=lambda q: float(np.linalg.norm(q - self._near)))
        return None if self._accept(self._solutions, deadline) else ended

    def _found(self, lanes: int) -> list[Array]:
        """Return the solutions of lanes (a bit each)."""
        found = [i for i in range(LANES) if lanes >> i & 1]
        return [self._chain.unwrap_near(self._work.q[:, i].copy(), self._near) for i in found]

    def _accept(self, solutions: list[Array], deadline: float) -> bool:
        """Accept the first valid solution; return False if none is valid."""
        for q in solutions:
            if any(float(np.abs(q - other).max()) < DUPLICATE_SOLUTIONS for other in self._judged):
                continue
            if self._judged and compute_time() > deadline:
                return False
            self._judged.append(q)
            for candidate in self._candidates(q, deadline):
                reason = rejection(self._request.validity, candidate)
                if not reason:
                    self._take(IkStatus.SOLVED, candidate)
                    return True
                self.refusals[reason] += 1
        return False

    def _candidates(self, q: Array, deadline: float) -> list[Array]:
        """Return a solution after optimization of the objectives, and as it is."""
        if not self._request.objectives:
            return [q]
        work = self._work
        keeper = TipKeeper(
            self._chain, self._target, self._memory.tolerance, (work.lower, work.upper)
        )
        better = improved(keeper, q, self._request.objectives, deadline)
        return [better] if self._request.validity is None else [better, q]

    def _fail(self, ended: IkStatus) -> None:
        """Store the closest configuration."""
        if self._judged:
            status = IkStatus.REFUSED if ended is IkStatus.NOT_FOUND else ended
            self._take(status, self._judged[0])
            return
        work = self._work
        ends = [work.nearest[1:].copy()] if np.isfinite(work.nearest[0]) else []
        # Lanes that were never abandoned hold interrupted descents.
        ends += [work.q[:, i].copy() for i in range(min(LANES, self.attempts))]
        weights = np.where(self._memory.free, 0.0, 1.0)
        weights[:3] *= work.weight[0]

        def distance(q: Array) -> float:
            return float(np.linalg.norm(weights * self._errors(q)))

        nearest = min(ends, key=distance)
        self._take(ended, self._chain.unwrap_near(nearest, self._near))

    def _take(self, status: IkStatus, q: Array) -> None:
        self.status, self.q, self.errors = status, q, self._errors(q)

    def _errors(self, q: Array) -> Array:
        X_BE = self._chain.kinematics.pose(q, self._chain.tip)
        return pose_error(X_BE, self._target)


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
        X = as_pose(targets, "targets", ndim=3)
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


class LeastSquaresIk:
    """Solves one chain. Thread-safe; the search runs without the GIL."""

    def __init__(self, chain: IkChain, settings: IkSettings | None = None) -> None:
        """Compile the solver (half a second), or load it from the cache (some milliseconds).

        Args:
            chain: the chain to solve.
            settings: default settings; a request may override them.

        Raises:
            CodeGenerationError: code cannot be generated on this machine.
        """
        # Imported on demand, because it loads LLVM.
        from motion_nodes.kernels.ik.ik_codegen import GeneratedIk

        self.chain = chain
        self.settings = settings or IkSettings()
        self.kernel = GeneratedIk(chain.arrays, chain.row)
        chain.kinematics.warm_up([chain.tip])
        self._memories = MemoryPool(chain, self.settings)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of ``q``, in its order."""
        return self.chain.joint_names

    def solve(self, request: IkRequest) -> IkResult:
        """Return joint positions that move the tip to the target.

        Equal requests get equal results, unless the timeout expires. Joints whose range contains
        full turns are shifted to be close to the seed, or else to the middle of their range.

        Returns:
            A solution, or the closest configuration and the reason of the failure.

        Raises:
            InvalidCommand: an input has a wrong shape, is not finite or is not a valid pose.
            UnknownJoint: a locked joint is not in the chain.
        """
        began = compute_time()
        settings = request.settings or self.settings
        target = as_pose(request.target, "target")
        if request.base_pose is not None:
            target = self._in_base(target, request)
        seed, starts = self._starts(request)
        memory = self._memories.take(settings, request.locked or {})
        try:
            work = memory.work
            work.target[...] = target
            if starts is None:
                memory.begin(0, 0, wait=False)
            else:
                memory.begin_with(starts, wait=seed is not None)
            outcome = self.kernel.solve(work)
            if outcome == NO_POSE:
                raise bad_pose(as_pose(request.target, "target"), "target")
            plain = not request.objectives and request.validity is None
            near = self._near(seed, request)
            if outcome == FOUND and plain and settings.prefer == "first":
                return self._found(memory, near, began)
            search = SolutionSearch(self.kernel, memory, request, near)
            search.run(outcome, began + settings.timeout)
            return self._searched(search, memory, target, began)
        finally:
            self._memories.give_back(memory)

    def solve_batch(
        self,
        targets: ArrayLike,
        seeds: ArrayLike | None = None,
        *,
        settings: IkSettings | None = None,
        threads: int | None = None,
        acceptance: Acceptance | None = None,
    ) -> IkBatchResult:
        """Return joint positions for many poses, using all processors.

        Args:
            targets: poses of the tip in the base, shape (m, 4, 4).
            seeds: initial joint positions [rad or m], shape (m, n), or (n,) for all.
            settings: None: those of the solver. The timeout is per pose; ``prefer`` is "first" in a
                batch.
            threads: number of threads; None: one per processor.
            acceptance: condition on solutions; the search continues until one is accepted.

        Returns:
            The results of :meth:`solve` for each pose.

        Raises:
            InvalidCommand: inconsistent shapes, or values that are not finite or invalid poses.
        """
        settings = settings or self.settings
        batch = Batch(self.chain, self.kernel, self._memories, settings, acceptance)
        return batch.solve(targets, seeds, threads, one_by_one=self.solve)

    def _in_base(self, X_WT: Array, request: IkRequest) -> Array:
        """Return a world target in the base."""
        assert request.base_pose is not None
        X_WB = rigid_pose(request.base_pose, "base_pose", 1e-3)
        return np.asarray(inverse(X_WB) @ X_WT)

    def _starts(self, request: IkRequest) -> tuple[Array | None, Array | None]:
        """Return the seed, shape (n,), and all given seeds, shape (m, n)."""
        seed = starts = None
        if request.seed is not None:
            starts = as_configurations(request.seed, self.joint_names, "seed")
            seed = starts[0]
        if request.initial_guesses is not None:
            more = as_configurations(request.initial_guesses, self.joint_names, "initial_guesses")
            starts = more if starts is None else np.vstack([starts, more])
        return seed, starts

    def _near(self, seed: Array | None, request: IkRequest) -> Array:
        """Return the configuration near which solutions are preferred, shape (n,)."""
        near = self.chain.centre if seed is None else seed
        if request.locked:
            # Locked joints must not be shifted by full turns.
            near = near.copy()
            for name, value in request.locked.items():
                near[self.joint_names.index(name)] = value
        return near

    def _found(self, memory: SolverMemory, near: Array, began: float) -> IkResult:
        """Return the result of a search that ended at the first kernel call."""
        work = memory.work
        n, at = work.n, work.at
        answer = work.answer.copy()
        q, errors = answer[:n], answer[n:]
        values = answer.tolist()
        if self.chain.turning:
            self.chain.turn(q, values, near.tolist())
        position, orientation = _lengths(errors, values[n:], memory)
        iterations, attempts = work.integers[at["iterations"]], work.integers[at["next"]]
        counts = int(iterations), int(attempts)
        took = compute_time() - began
        return IkResult(IkStatus.SOLVED, q, errors, position, orientation, *counts, took)

    def _searched(
        self, search: SolutionSearch, memory: SolverMemory, target: Array, began: float
    ) -> IkResult:
        """Return the result of a longer search."""
        status, errors = search.status, search.errors
        lengths, reason = _lengths(errors, errors.tolist(), memory), ""
        if status is not IkStatus.SOLVED:
            status, reason = self._explained(search, memory, target, lengths)
        return IkResult(
            status,
            search.q,
            search.errors,
            *lengths,
            search.iterations,
            search.attempts,
            compute_time() - began,
            reason,
        )

    def _explained(
        self,
        search: SolutionSearch,
        memory: SolverMemory,
        target: Array,
        lengths: tuple[float, float],
    ) -> tuple[IkStatus, str]:
        """Return status and reason of a failed search."""
        status, chain = search.status, self.chain
        parts = [search.how_it_ended()]
        reach = chain.length + memory.tolerance.max_position
        if float(np.linalg.norm(target[:3, 3] - chain.origin)) > reach:
            parts.insert(0, too_far(chain, target))
            if status is IkStatus.NOT_FOUND:
                status = IkStatus.OUT_OF_REACH
        limits = (memory.work.lower, memory.work.upper)
        parts.append(what_is_nearest(chain.joint_names, search.q, limits, lengths))
        text = "; ".join(parts)
        return status, f"{text[0].upper()}{text[1:]}."


def _lengths(errors: Array, values: list[float], memory: SolverMemory) -> tuple[float, float]:
    """Return the norms of position and rotation error over the constrained axes.

    Args:
        errors: of all axes [m, rad], shape (6,).
        values: the same as a list.
        memory: defines the constrained axes.
    """
    if memory.any_free:
        values = np.where(memory.free, 0.0, errors).tolist()
    return math.hypot(*values[:3]), math.hypot(*values[3:])
