# SPDX-License-Identifier: Apache-2.0
"""Guides out of traps: waypoints in joint space, connected by collision-free straight lines.

Two trees, from the robot's configuration and from its goals, grow by one step per plan: each is
extended towards many random configurations at once, and its new nodes are connected with the other
tree. All lines of a step are checked in one call of the rollouts' code.

Source: J. Kuffner, S. LaValle, RRT-Connect: an efficient approach to single-query path planning,
ICRA 2000.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from motion_nodes.mpc.rollouts import Rollouts
from motion_nodes.typing import Array

_DRAWN = 64
"""Number of random configurations per step."""
_TOWARDS = 0.2
"""Fraction of them drawn from the nodes of the other tree."""
_SPACING = 0.08
"""Max spacing of checked configurations on a line [rad or m]."""
_LONGEST = 1.6
"""Max displacement of any joint in an extension [rad or m]."""
_SHORTEST = 0.04
"""Min collision-free fraction of an extension for it to be kept."""
_DENSE = 0.4
"""Max spacing of the points of a guide before it is shortened [rad or m]."""
_MOST = 3000
"""Max number of nodes of a tree; a search that exceeds it restarts."""
_ELSEWHERE = 0.3
"""Displacement of robot or goals beyond which they become new roots [rad or m]."""


class _Tree:
    """Nodes with their parents; there may be several roots."""

    def __init__(self, roots: Array) -> None:
        self.nodes: Array = roots.copy()
        self._parents = [-1] * len(roots)

    def include(self, roots: Array) -> None:
        """Add configurations that are far from all roots as roots, shape (m, n)."""
        for q in roots:
            known = self.nodes[np.flatnonzero(np.array(self._parents) < 0)]
            if np.abs(known - q).max(axis=1).min() > _ELSEWHERE:
                self.add(q[None], np.array([-1]))

    def add(self, nodes: Array, parents: NDArray[np.intp]) -> NDArray[np.intp]:
        """Add nodes, shape (m, n), and return their indices."""
        first = len(self.nodes)
        self.nodes = np.concatenate((self.nodes, nodes))
        self._parents += parents.tolist()
        return np.arange(first, len(self.nodes))

    def nearest(self, Q: Array) -> NDArray[np.intp]:
        """Return the node closest to each configuration, shape (m,)."""
        # |q - x|^2 without the part that is equal for all nodes.
        apart = (self.nodes * self.nodes).sum(axis=1) - 2.0 * (Q @ self.nodes.T)
        return np.asarray(apart.argmin(axis=1))

    def to_root(self, index: int) -> list[Array]:
        """Return the configurations from a node to its root."""
        found = []
        while index >= 0:
            found.append(self.nodes[index])
            index = self._parents[index]
        return found


class GuideSearch:
    """Incremental search for a guide; not thread-safe."""

    def __init__(self, rollouts: Rollouts, lower: Array, upper: Array) -> None:
        """Create.

        Args:
            rollouts: collision checks of lines.
            lower: lower limits of the joints [rad or m], shape (n,); finite.
            upper: upper limits of the joints [rad or m], shape (n,); finite.
        """
        self._rollouts = rollouts
        self._lower, self._upper = lower, upper
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Clear the trees, and reset the random numbers."""
        self._rng = np.random.default_rng(seed)
        self.forget()

    def forget(self) -> None:
        """Clear the trees."""
        self._trees: tuple[_Tree, _Tree] | None = None

    def reached(self, count: int) -> Array:
        """Return random nodes of the robot's tree, shape (count, n); (0, n) without a search."""
        if self._trees is None:
            return np.empty((0, len(self._lower)))
        nodes = self._trees[0].nodes
        return nodes[self._rng.integers(len(nodes), size=count)]

    def grow(self, q: Array, goals: Array) -> Array | None:
        """Grow both trees; return the guide once they meet, shape (w, n), else None.

        It leads from the robot's configuration, or an earlier one during the search, to a goal.

        Args:
            q: configuration of the robot [rad or m], shape (n,).
            goals: collision-free goals [rad or m], shape (b, n).
        """
        trees = self._trees
        if trees is None or max(len(tree.nodes) for tree in trees) > _MOST:
            trees = self._trees = (_Tree(q[None]), _Tree(goals))
        trees[0].include(q[None])
        trees[1].include(goals)
        for own, other in (trees, trees[::-1]):
            met = self._extend(own, other)
            if met is not None:
                ends = own.to_root(met[0]), other.to_root(met[1])
                start, rest = ends if own is trees[0] else ends[::-1]
                self.forget()
                return self._shortened(np.array([*start[::-1], *rest]))
        return None

    def _extend(self, own: _Tree, other: _Tree) -> tuple[int, int] | None:
        """Extend a tree; return the nodes at which it meets the other one, else None."""
        rng = self._rng
        drawn = rng.uniform(self._lower, self._upper, (_DRAWN, len(self._lower)))
        towards = round(_TOWARDS * _DRAWN)
        drawn[:towards] = other.nodes[rng.integers(len(other.nodes), size=towards)]
        parents = own.nearest(drawn)
        starts = own.nodes[parents]
        length = np.abs(drawn - starts).max(axis=1, keepdims=True)
        ends = starts + (drawn - starts) * np.minimum(1.0, _LONGEST / np.maximum(length, 1e-9))
        share = self._free_along(starts, ends)
        kept = share > _SHORTEST
        if not kept.any():
            return None
        reached = (starts + share[:, None] * (ends - starts))[kept]
        added = own.add(reached, parents[kept])
        closest = other.nearest(reached)
        met = np.flatnonzero(self._free_along(reached, other.nodes[closest]) >= 1.0)
        return (int(added[met[0]]), int(closest[met[0]])) if len(met) else None

    def _free_along(self, starts: Array, ends: Array) -> Array:
        length = float(np.abs(ends - starts).max(initial=0.0))
        return self._rollouts.free_along(starts, ends, max(1, math.ceil(length / _SPACING)))

    def _shortened(self, path: Array) -> Array:
        """Return a path without the waypoints that collision-free straight lines can skip."""
        path = _dense(path)
        kept, at = [path[0]], 0
        while at < len(path) - 1:
            ahead = path[at + 1 :]
            free = self._free_along(np.repeat(path[at : at + 1], len(ahead), axis=0), ahead) >= 1.0
            at += 1 + (int(np.flatnonzero(free)[-1]) if free.any() else 0)
            kept.append(path[at])
        return np.array(kept)


def _dense(path: Array) -> Array:
    """Return a path with additional points on its lines, shape (w, n)."""
    points = [path[:1]]
    for a, b in itertools.pairwise(path):
        count = math.ceil(float(np.abs(b - a).max()) / _DENSE)
        points.append(a + np.linspace(0.0, 1.0, count + 1)[1:, None] * (b - a))
    return np.concatenate(points)
