# SPDX-License-Identifier: Apache-2.0
"""The part of a search that follows the first kernel call.

Checks the timeout, continues with further seeds, checks the validity of solutions, and collects
them if the closest is preferred.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

import numpy as np

from motion_nodes.ik.nullspace import improved
from motion_nodes.ik.pose_error import pose_error
from motion_nodes.ik.problem import IkRequest, IkStatus, rejection
from motion_nodes.ik.workspace import SolverMemory
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.ik.ik_memory import EXHAUSTED, FOUND, LANES, IkWorkspace
from motion_nodes.typing import Array

_SAME = 1e-4
"""Solutions that differ by less in each joint are duplicates [rad or m]."""


class Kernel(Protocol):
    """The kernel as used by a search."""

    def resume(self, work: IkWorkspace) -> int:
        """Continue and return the outcome."""


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
        self, kernel: Kernel, memory: SolverMemory, request: IkRequest, near: Array
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
            if any(float(np.abs(q - other).max()) < _SAME for other in self._judged):
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
        better = improved(
            self._chain,
            q,
            self._target,
            self._memory.tolerance,
            self._request.objectives,
            (work.lower, work.upper),
            deadline,
        )
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
