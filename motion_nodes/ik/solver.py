# SPDX-License-Identifier: Apache-2.0
"""The default solver: damped least squares from many starts at once, for any chain.

The numbers are crunched by :mod:`motion_nodes.kernels.ik.ik_codegen`; here a request becomes the
kernel's memory, and what the kernel finds becomes a result.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.ik.batch import Batch
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
)
from motion_nodes.ik.solution_search import SolutionSearch
from motion_nodes.ik.workspace import SolverMemory
from motion_nodes.ik.workspace_pool import MemoryPool
from motion_nodes.kernels.ik.ik_binding import IkKernel, ik_kernel
from motion_nodes.kernels.ik.ik_memory import FOUND, NO_POSE
from motion_nodes.model.poses import inverse
from motion_nodes.model.tree import Array


class LeastSquaresIk:
    """Solves for one chain. May be called from several threads; the search runs without the GIL."""

    def __init__(
        self, chain: IkChain, settings: IkSettings | None = None, *, generic: bool = False
    ) -> None:
        """Compile, or load what was compiled before: half a second, or some milliseconds.

        Args:
            chain: what to solve for.
            settings: how; a request may bring its own.
            generic: True to use the slow kernels even where code can be generated.
        """
        self.chain = chain
        self.settings = settings or IkSettings()
        self.kernel: IkKernel = ik_kernel(chain.arrays, chain.row, generic=generic)
        chain.kinematics.warm_up([chain.tip])
        self._memories = MemoryPool(chain, self.settings)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of ``q``, in its order."""
        return self.chain.joint_names

    def solve(self, request: IkRequest) -> IkResult:
        """SolutionSearch joint values that bring the tip to the target.

        Equal requests get equal answers, unless the time runs out. Joints with room for full turns
        take them so as to be near to the seed, or else to the middle of their range.

        Returns:
            A solution, or what came nearest and why it is none.

        Raises:
            InvalidCommand: something in the request has a wrong shape, is not finite or is no pose.
            UnknownJoint: a locked joint is not one of the chain's.
        """
        began = time.perf_counter()
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
            if outcome == FOUND and plain and settings.prefer == "first":
                return self._found(memory, seed, began)
            search = SolutionSearch(self.kernel, memory, request, seed)
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
    ) -> IkBatchResult:
        """SolutionSearch joint values for each of many poses, with all processors.

        Args:
            targets: poses of the tip in the base, shape (m, 4, 4).
            seeds: joint values to start from, shape (m, n), or (n,) for all.
            settings: None: those of the solver. The timeout holds for each pose; ``prefer`` is
                "first" in a batch.
            threads: how many; None: one for each processor.

        Returns:
            For each pose what :meth:`solve` returns.

        Raises:
            InvalidCommand: shapes do not fit, or something is not finite or no pose.
        """
        batch = Batch(self.chain, self.kernel, self._memories, settings or self.settings)
        return batch.solve(targets, seeds, threads, one_by_one=self.solve)

    def _in_base(self, X_WT: Array, request: IkRequest) -> Array:
        """Return a target of the world in the base."""
        assert request.base_pose is not None
        X_WB = as_pose(request.base_pose, "base_pose")
        R = X_WB[:3, :3]
        tidy = np.isfinite(X_WB).all() and np.abs(R.T @ R - np.eye(3)).max() < 1e-3
        if not tidy or np.linalg.det(R) < 0.0 or (X_WB[3] != (0.0, 0.0, 0.0, 1.0)).any():
            raise bad_pose(X_WB, "base_pose")
        return np.asarray(inverse(X_WB) @ X_WT)

    def _starts(self, request: IkRequest) -> tuple[Array | None, Array | None]:
        """Return the seed, shape (n,), and all given starts, shape (m, n)."""
        seed = starts = None
        if request.seed is not None:
            starts = as_configurations(request.seed, self.joint_names, "seed")
            seed = starts[0]
        if request.starts is not None:
            more = as_configurations(request.starts, self.joint_names, "starts")
            starts = more if starts is None else np.vstack([starts, more])
        return seed, starts

    def _found(self, memory: SolverMemory, seed: Array | None, began: float) -> IkResult:
        """Return the result of a search that ended with the kernel's first answer."""
        work = memory.work
        n, at = work.n, work.at
        answer = work.answer.copy()
        q, errors = answer[:n], answer[n:]
        values = answer.tolist()
        if self.chain.turning:
            self.chain.turn(q, values, self.chain.middle if seed is None else seed.tolist())
        position, orientation = _lengths(errors, values[n:], memory)
        iterations, attempts = work.integers[at["iterations"]], work.integers[at["next"]]
        counts = int(iterations), int(attempts)
        took = time.perf_counter() - began
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
            time.perf_counter() - began,
            reason,
        )

    def _explained(
        self,
        search: SolutionSearch,
        memory: SolverMemory,
        target: Array,
        lengths: tuple[float, float],
    ) -> tuple[IkStatus, str]:
        """Return how a search failed, and why in words."""
        status, chain = search.status, self.chain
        parts = [how_it_ended(search, memory.settings)]
        reach = chain.length + memory.tolerance.greatest_position
        if float(np.linalg.norm(target[:3, 3] - chain.origin)) > reach:
            parts.insert(0, too_far(chain, target))
            if status is IkStatus.NOT_FOUND:
                status = IkStatus.OUT_OF_REACH
        limits = (memory.work.lower, memory.work.upper)
        parts.append(what_is_nearest(chain.joint_names, search.q, limits, lengths))
        text = "; ".join(parts)
        return status, f"{text[0].upper()}{text[1:]}."


def _lengths(errors: Array, values: list[float], memory: SolverMemory) -> tuple[float, float]:
    """Return the lengths of position and rotation error over the axes that count.

    Args:
        errors: of all axes, shape (6,).
        values: the same as a list.
        memory: that knows which axes count.
    """
    if memory.any_free:
        values = np.where(memory.free, 0.0, errors).tolist()
    return math.hypot(*values[:3]), math.hypot(*values[3:])
