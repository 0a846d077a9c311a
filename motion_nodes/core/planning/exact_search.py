# SPDX-License-Identifier: Apache-2.0
"""RRT-Connect with the exact geometry, for requests to which the collision spheres leave no way.

Spheres extend some millimetres beyond the shapes. Where it is narrow, or links come close to each
other, they close what the shapes leave open, or cut off a start or goal. A configuration costs some
tens of microseconds here instead of a fraction of one, but few are needed then.

Source: J. Kuffner and S. LaValle, RRT-Connect: an efficient approach to single-query path planning,
ICRA 2000; random shortcuts as R. Geraerts and M. Overmars, Creating high-quality paths for motion
planning, International Journal of Robotics Research 26(8), 2007.
"""

from __future__ import annotations

import numpy as np

from motion_nodes.core.planning.path_verification import sweep_path
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    JointSpace,
    PlanRequest,
    PlanResult,
    PlanStatus,
    check_start,
    travel_weights,
)
from motion_nodes.core.planning.tree_search import space_of
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array

_ACROSS = 2.0
"""Number of edges along the diagonal of the space: an edge ends where it is no longer free, so that
long ones cost little, and lead out of a pocket with a quarter of the iterations of short ones."""
_FINER = 0.3
"""Steps between the checked configurations of an edge, in the checker's steps, after a path that is
in collision between two of them."""
_NEAR = 0.5
"""Fraction of samples near nodes, which find the way out of narrow places."""
_CHUNK = 4
"""Number of configurations of an edge that are checked at once."""
_SHORTCUTS, _SHORTENING = 200, 0.3
"""Max number of tries to shorten a path, and their max duration [s]."""


class _ExactTree:
    """Nodes that are connected with a root by collision-free edges."""

    def __init__(self, space: JointSpace, roots: Array) -> None:
        """Create from roots, shape (m, n)."""
        self._space, self.count = space, len(roots)
        self._nodes = np.array(roots)
        self._parents = [-1] * len(roots)

    def nearest(self, q: Array) -> tuple[int, Array]:
        """Return index and positions of the node closest to a configuration, shape (n,)."""
        k = int(np.argmin(self._space.distance(self._nodes[: self.count], q)))
        return k, self._nodes[k]

    def node(self, k: int) -> Array:
        """Return the positions of a node, shape (n,)."""
        return np.asarray(self._nodes[k])

    def add(self, q: Array, parent: int) -> int:
        """Add a node; return its index."""
        if self.count == len(self._nodes):
            self._nodes = np.concatenate([self._nodes, np.empty_like(self._nodes)])
        self._nodes[self.count] = q
        self._parents.append(parent)
        self.count += 1
        return self.count - 1

    def branch(self, node: int) -> tuple[list[Array], int]:
        """Return the nodes from one to its root, and the index of the root."""
        rows = [node]
        while self._parents[rows[-1]] >= 0:
            rows.append(self._parents[rows[-1]])
        return [self._nodes[k] for k in rows], rows[-1]


class ExactSearch:
    """One search, from a start to the nominal positions of joint goals."""

    name = "RRTConnect with exact shapes"

    def __init__(self, request: PlanRequest) -> None:
        self._request, self._checker = request, request.checker
        self._space = space_of(request, travel_weights(request.checker))
        self._rng = np.random.default_rng(request.random_seed)
        self._iterations, self._sizes = 0, (0, 0)

    def plan(self) -> PlanResult:
        """Return the first path, shortened; its edges are proven by the exact geometry.

        Raises:
            InvalidCommand: wrong number of joint positions.
        """
        request, began = self._request, compute_time()
        start = check_start(self._checker, request.start)
        goals = _free_goals(request)
        if start.status is not None or not goals:
            status = start.status or PlanStatus.GOAL_IN_COLLISION
            return PlanResult(status, None, start.reason or "no goal is collision-free", self.name)
        end, ends = began + request.timeout, (start.q, np.array([q for _, q in goals]))
        found = self._search(*ends, 1.0, end)
        while found is not None and not sweep_path(self._checker, found[0]).free:
            found = self._search(*ends, _FINER, end)
        now = compute_time()
        if found is None:
            canceled = request.cancelled()
            status = PlanStatus.CANCELLED if canceled else PlanStatus.TIMED_OUT
            words = "cancelled" if canceled else f"no path in {request.timeout:.3g} s"
            return PlanResult(
                status, None, words, self.name, self._iterations, self._sizes,
                search_time=now - began, time=now - began,
            )  # fmt: skip
        path = shortened(self._checker, self._space, found[0], self._rng, end)
        return PlanResult(
            PlanStatus.SOLVED, path, "", self.name, self._iterations, self._sizes,
            self._space.length(path), now - began, compute_time() - began, goals[found[1]][0],
        )  # fmt: skip

    def _search(
        self, start: Array, goals: Array, finer: float, end: float
    ) -> tuple[Array, int] | None:
        """Return a path, shape (k, n), and the row of its goal; None if there is none in time."""
        space = self._space
        low, high = space.bounds(start, goals)
        step = float(np.linalg.norm((high - low) * space.weights)) / _ACROSS
        trees = (_ExactTree(space, start[np.newaxis]), _ExactTree(space, goals))
        smaller = 0
        while compute_time() < end and not self._request.cancelled():
            self._iterations += 1
            grown, other = trees[smaller], trees[1 - smaller]
            node, _ = self._extended(grown, self._sample(grown, low, high, step), step, finer)
            if node is not None:
                q = grown.branch(node)[0][0]
                met, joined = self._extended(other, q, step, finer)
                while met is not None and not joined:
                    met, joined = self._extended(other, q, step, finer)
                if joined:
                    assert met is not None
                    ends = (node, met) if smaller == 0 else (met, node)
                    first, _ = trees[0].branch(ends[0])
                    then, root = trees[1].branch(ends[1])
                    return space.unwrapped([*first[::-1], *then]), root
            smaller = int(trees[1].count < trees[0].count)
            self._sizes = trees[0].count, trees[1].count
        return None

    def _sample(self, tree: _ExactTree, low: Array, high: Array, step: float) -> Array:
        """Return a configuration of the whole space, or one near a node, shape (n,)."""
        rng = self._rng
        if rng.uniform() > _NEAR:
            return rng.uniform(low, high)
        way = rng.normal(size=len(low)) / self._space.weights
        way *= step * 10.0 ** rng.uniform(-2.0, 0.0) / np.linalg.norm(way * self._space.weights)
        near = tree.node(int(rng.integers(tree.count))) + way
        return np.where(self._space.wraps, near, np.clip(near, low, high))

    def _extended(
        self, tree: _ExactTree, towards: Array, step: float, finer: float
    ) -> tuple[int | None, bool]:
        """Extend a tree by one edge; return the new node, if any, and whether it is the target."""
        k, near = tree.nearest(towards)
        way = self._space.difference(near, towards)
        length = float(np.linalg.norm(way * self._space.weights))
        if length < EQUAL_POSITIONS:
            return k, True
        share = min(1.0, step / length)
        steps = np.abs(share * way / (finer * self._checker.resolution))
        count = max(1, int(np.ceil(np.linalg.norm(steps))))
        line = near + np.linspace(0.0, share, count + 1)[1:, np.newaxis] * way
        free = self._free_part(line, trusted=finer == 1.0)
        if not free:
            return None, False
        return tree.add(line[free - 1], k), free == count and share == 1.0

    def _free_part(self, line: Array, *, trusted: bool) -> int:
        """Return how many configurations of a line, shape (k, n), are free before the first other.

        ``trusted``: what is free for the spheres, at a twentieth of the cost, counts as free; some
        robots' spheres do not contain all of their shapes.
        """
        checker, tight = self._checker, np.arange(len(line))
        if trusted:
            tight = np.flatnonzero(~checker.are_free_by_both(line))
        for first in range(0, len(tight), _CHUNK):
            rows = tight[first : first + _CHUNK]
            marks = checker.exact.are_free(line[rows])
            if not marks.all():
                return int(rows[np.argmin(marks)])
        return len(line)


def _free_goals(request: PlanRequest) -> list[tuple[int, Array]]:
    """Return index and positions of the joint goals that are collision-free for the shapes."""
    found = []
    for number, goal in enumerate(request.goals):
        if isinstance(goal, JointGoal):
            room = goal.range_in(request.checker)
            if not room.fault and request.checker.exact.is_free(room.nominal):
                found.append((number, room.nominal))
    return found


def shortened(
    checker: CollisionChecker, space: JointSpace, path: Array, rng: np.random.Generator, end: float
) -> Array:
    """Return a path that is not longer, with the same ends, whose lines the exact geometry proves.

    Args:
        checker: robot and scene.
        space: its joints, whose metric counts.
        path: collision-free waypoints, shape (k, n) [rad or m].
        rng: of the tries.
        end: time at which the last try begins [s].

    Returns:
        Waypoints, shape (m, n).
    """
    end = min(end, compute_time() + _SHORTENING)
    for _ in range(_SHORTCUTS):
        if len(path) < 3 or compute_time() > end:
            break
        places = np.append(0.0, space.distance(path[:-1], path[1:]).cumsum())
        cuts = np.sort(rng.uniform(0.0, places[-1], 2))
        i, j = np.searchsorted(places, cuts, side="right") - 1
        if i == j:
            continue
        line = np.array([[np.interp(s, places, column) for column in path.T] for s in cuts])
        if sweep_path(checker, line).free:
            path = np.concatenate([path[: i + 1], line, path[j + 1 :]])
    return path
