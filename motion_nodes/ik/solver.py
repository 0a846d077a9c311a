# SPDX-License-Identifier: Apache-2.0
"""The default solver: damped least squares from many seeds in parallel, for any chain.

The computation is done by :mod:`motion_nodes.kernels.ik.ik_codegen`; here a request is written to
the kernel's workspace, and its results are read.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.ik.batch import Acceptance, Batch
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.failure_messages import how_it_ended, too_far, what_is_nearest
from motion_nodes.ik.problem import (
    IkBatchResult,
    IkRequest,
    IkResult,
    IkSettings,
    IkStatus,
    as_configurations,
    as_pose,
    bad_pose,
    rigid_pose,
)
from motion_nodes.ik.solution_search import SolutionSearch
from motion_nodes.ik.workspace import SolverMemory
from motion_nodes.ik.workspace_pool import MemoryPool
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.ik.ik_memory import FOUND, NO_POSE
from motion_nodes.model.poses import inverse
from motion_nodes.typing import Array


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
        parts = [how_it_ended(search, memory.settings)]
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
