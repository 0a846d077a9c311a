# SPDX-License-Identifier: Apache-2.0
"""Signed distances of all checked pairs of spheres, and their gradients; plain NumPy.

Self-collision pairs are evaluated sphere by sphere in one batch, each solid of the world against
all spheres. Gradients use central differences of the spheres' centres, so mimic and prismatic
joints need no special cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.poses import inverse
from motion_nodes.scene.robot_spheres import CollisionBody
from motion_nodes.scene.scene import Scene
from motion_nodes.scene.signed_distance import signed_distance
from motion_nodes.scene.solid_types import bounding_radius
from motion_nodes.typing import Array

Indices = NDArray[np.intp]

_STEP = 1e-6
"""Step of the central differences [rad or m]."""


@dataclass(frozen=True, eq=False)
class SphereGaps:
    """Close pairs of a sphere with another sphere or a solid."""

    distance: Array
    """Signed distance of the surfaces, less the clearance of the world [m], shape (k,)."""
    normal: Array
    """Unit vector towards the first, along which the distance increases, in the world, shape (k,
    3)."""
    first: Indices
    """Index of the sphere, shape (k,)."""
    second: Indices
    """Index of the other sphere, -1 for a solid of the world, shape (k,)."""
    pair: Indices
    """Index of the pair of bodies in :attr:`SpherePairs.names`, shape (k,)."""


class SpherePairs:
    """Distances of one robot's spheres to each other and to one scene."""

    names: tuple[tuple[str, str], ...]
    """Checked pairs of bodies: link or attached body, then link, attached body or object; those of
    the robot itself first."""

    def __init__(
        self,
        bodies: Sequence[CollisionBody],
        pairs: Sequence[tuple[int, int]],
        scene: Scene,
        poses: Callable[[Array], Array],
        clearance: float = 0.0,
    ) -> None:
        """Create the pairs.

        Args:
            bodies: bodies with their spheres.
            pairs: indices of checked pairs of bodies.
            scene: the world, with its allowed collisions.
            poses: maps configurations, shape (m, n), to the poses of the bodies' links in the
                world, shape (m, bodies, 4, 4).
            clearance: min allowed distance from the world [m].
        """
        self._clearance = clearance
        self._poses = poses
        counts = [len(body.spheres) for body in bodies]
        starts = np.concatenate([[0], np.cumsum(counts)])
        self._body = np.repeat(np.arange(len(bodies)), counts)
        spheres = np.concatenate([body.spheres for body in bodies] or [np.empty((0, 4))])
        self._centres, self._radii = spheres[:, :3], spheres[:, 3]
        names = [(bodies[i].name, bodies[j].name) for i, j in pairs]
        grids = [
            np.meshgrid(
                np.arange(starts[i], starts[i + 1]), np.arange(starts[j], starts[j + 1])
            )
            for i, j in pairs
        ]  # fmt: skip
        sizes = [grid[0].size for grid in grids]
        none = np.empty(0, np.intp)
        self._first = np.concatenate([none, *(grid[0].ravel() for grid in grids)])
        self._second = np.concatenate([none, *(grid[1].ravel() for grid in grids)])
        self._pair = np.repeat(np.arange(len(pairs)), sizes)
        self._apart = self._radii[self._first] + self._radii[self._second]
        self._solids = []
        radii, centres = [], []
        objects = [item for item in scene.objects.values() if item.enabled]
        for item in objects:
            checked = [
                body.in_world and not scene.allowed.allows(body.name, item.name) for body in bodies
            ]
            base = len(names)
            names += [(body.name, item.name) for body in bodies]
            for part in item.parts:
                X = item.X_WO @ part.X_OS
                self._solids.append((part.solid, X, np.array(checked)[self._body], base))
                radii.append(bounding_radius(part.solid))
                centres.append(X[:3, 3])
        self._reach = np.array(radii)
        self._middles = np.array(centres).reshape(-1, 3)
        self.names = tuple(names)

    def centres(self, Q: Array) -> Array:
        """Return the spheres' centres in the world [m], shape (m, s, 3).

        Args:
            Q: configurations [rad or m], shape (m, n).
        """
        X = self._poses(Q)[:, self._body]
        return np.asarray(np.einsum("mnij,nj->mni", X[..., :3, :3], self._centres) + X[..., :3, 3])

    def own_gaps(self, centres: Array, pairs: Indices | slice) -> tuple[Array, Array]:
        """Return the distances of self-collision pairs, and unit vectors towards the first sphere.

        Args:
            centres: centres of the spheres in the world [m], shape (m, s, 3).
            pairs: indices of the pairs, shape (k,).

        Returns:
            Shapes (m, k) and (m, k, 3).
        """
        offset = centres[:, self._first[pairs]] - centres[:, self._second[pairs]]
        length = np.sqrt(np.einsum("mkc,mkc->mk", offset, offset))
        return length - self._apart[pairs], offset / np.maximum(length, 1e-9)[..., None]

    def own_spheres(self, pair: Indices) -> tuple[Indices, Indices]:
        """Return both spheres of self-collision pairs."""
        return self._first[pair], self._second[pair]

    def gaps(self, centres: Array, within: float) -> SphereGaps:
        """Return all pairs that are closer than ``within`` [m].

        Args:
            centres: centres of the spheres in the world [m], shape (s, 3).
            within: threshold of the distance [m].
        """
        offset = centres[self._first] - centres[self._second]
        length = np.linalg.norm(offset, axis=1)
        near = length < self._apart + within
        offset, length = offset[near], length[near]
        apart = length[:, None] > 0.0
        normal = np.where(apart, offset / np.where(apart, length[:, None], 1.0), [0.0, 0.0, 1.0])
        found = [
            SphereGaps(
                length - self._apart[near], normal, self._first[near], self._second[near],
                self._pair[near],
            )
        ]  # fmt: skip
        found += self._world_gaps(centres, within + self._clearance)
        return SphereGaps(
            *(
                np.concatenate([getattr(part, name) for part in found])
                for name in ("distance", "normal", "first", "second", "pair")
            )
        )

    def distances(self, centres: Array, within: float) -> dict[int, float]:
        """Return the distance of each pair of bodies closer than ``within`` [m], by its index."""
        gaps = self.gaps(centres, within)
        least: dict[int, float] = {}
        for pair, distance in zip(gaps.pair.tolist(), gaps.distance.tolist(), strict=True):
            least[pair] = min(distance, least.get(pair, np.inf))
        return least

    def gradients(self, q: Array, gaps: SphereGaps) -> Array:
        """Return the gradients of the distances [m/rad or m/m], shape (k, n).

        Args:
            q: the configuration of the gaps, shape (n,).
            gaps: from :meth:`gaps`.
        """
        n = len(q)
        step = _STEP * np.eye(n)
        moved = self.centres(np.concatenate([q + step, q - step]))
        J = (moved[:n] - moved[n:]) / (2.0 * _STEP)  # (n, s, 3)
        velocity = J[:, gaps.first]
        of_robot = gaps.second >= 0
        velocity = velocity - np.where(of_robot[:, None], J[:, gaps.second], 0.0)
        return np.asarray(np.einsum("nkj,kj->kn", velocity, gaps.normal))

    def _world_gaps(self, centres: Array, within: float) -> list[SphereGaps]:
        if not self._solids or not len(centres):
            return []
        middle = 0.5 * (centres.min(axis=0) + centres.max(axis=0))
        span = float((np.linalg.norm(centres - middle, axis=1) + self._radii).max())
        away = np.linalg.norm(self._middles - middle, axis=1) - self._reach - span
        found = []
        for k in np.flatnonzero(away < within):
            solid, X, checked, base = self._solids[k]
            reach = self._reach[k] + self._radii + within
            mask = checked & (np.linalg.norm(centres - X[:3, 3], axis=1) < reach)
            if not mask.any():
                continue
            index = np.flatnonzero(mask)
            X_SW = inverse(X)
            local = centres[index] @ X_SW[:3, :3].T + X_SW[:3, 3]
            distance, direction = signed_distance(solid, local)
            gap = distance - self._radii[index]
            near = gap < within
            index = index[near]
            normal = direction[near] @ X[:3, :3].T
            none = np.full(len(index), -1, np.intp)
            gap = gap[near] - self._clearance
            found.append(SphereGaps(gap, normal, index, none, base + self._body[index]))
        return found
