# SPDX-License-Identifier: Apache-2.0
"""Collision checks in plain NumPy, without generated code.

Slow, and independent of the kernels' arrays: provides the named pairs of reports, and the reference
results of the tests.

Signed distances of pairs of spheres have gradients. Self-collision pairs are evaluated sphere by
sphere in one batch, each solid of the world against all spheres. Gradients use central differences
of the spheres' centres, so mimic and prismatic joints need no special cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.contacts import Contact, ContactKind
from motion_nodes.core.scene.mesh_distance import signed_distance
from motion_nodes.core.scene.robot_spheres import CollisionBody
from motion_nodes.core.scene.scene import AllowedCollisions, Scene, WorldObject
from motion_nodes.core.scene.shapes import bounding_radius
from motion_nodes.typing import Array

Indices = NDArray[np.intp]
_STEP = 1e-6
"""Step of the central differences [rad or m]."""


@dataclass(frozen=True, eq=False)
class PairDistances:
    """The closest points of two bodies."""

    first: str
    second: str
    carried: bool
    """Whether one of them is attached."""
    distance: float
    position: Array
    normal: Array

    def contact(self, required: float, in_world: bool) -> Contact:
        """Return the violation of a required distance [m]."""
        kind: ContactKind = "attached" if self.carried else "world" if in_world else "self"
        pair, depth = (self.first, self.second), required - self.distance
        return Contact(kind, pair, depth, frozen(self.position), frozen(self.normal))


class GenericChecks:
    """Distances of bodies made of spheres; positions are in the world."""

    def __init__(
        self, bodies: tuple[CollisionBody, ...], pairs: tuple[tuple[int, int], ...], scene: Scene
    ) -> None:
        self.bodies = bodies
        self._pairs = pairs
        self._objects = [item for item in scene.objects.values() if item.enabled]
        self._checked = {item.name: _checked(bodies, item, scene.allowed) for item in self._objects}
        places = [(item, part) for item in self._objects for part in item.parts]
        self._parts = [(item, part.solid, item.X_WO @ part.X_OS) for item, part in places]
        self._centres = np.array([X[:3, 3] for _, _, X in self._parts]).reshape(-1, 3)
        self._reach = np.array([bounding_radius(solid) for _, solid, _ in self._parts])

    def place(self, X_WL: dict[str, Array]) -> list[Array]:
        """Return the spheres of each body in the world, shape (s, 4) each."""
        placed = []
        for body in self.bodies:
            X = X_WL[body.link]
            centres = body.spheres[:, :3] @ X[:3, :3].T + X[:3, 3]
            placed.append(np.column_stack((centres, body.spheres[:, 3])))
        return placed

    def self_distances(self, placed: list[Array]) -> Iterator[PairDistances]:
        """Yield the distance [m] of each checked pair of bodies."""
        for i, j in self._pairs:
            a, b = placed[i], placed[j]
            offsets = a[:, None, :3] - b[None, :, :3]
            lengths = np.linalg.norm(offsets, axis=2)
            gaps = lengths - a[:, None, 3] - b[None, :, 3]
            k, m = np.unravel_index(int(gaps.argmin()), gaps.shape)
            length = float(lengths[k, m])
            normal = offsets[k, m] / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
            position = b[m, :3] + normal * (b[m, 3] + 0.5 * float(gaps[k, m]))
            first, second = self.bodies[i], self.bodies[j]
            carried = bool(first.carried or second.carried)
            gap = float(gaps[k, m])
            yield PairDistances(first.name, second.name, carried, gap, position, normal)

    def world_distances(self, placed: list[Array], within: float) -> Iterator[PairDistances]:
        """Yield the distance of each body to each checked object.

        Args:
            placed: spheres of the bodies in the world, shape (s, 4) each.
            within: max distance [m]; parts whose lower bound is greater are skipped.
        """
        for index, spheres in enumerate(placed):
            nearest: dict[str, PairDistances] = {}
            apart = self._apart(spheres)
            for k in np.flatnonzero(~(apart >= within)):
                found = self._distance(index, spheres, int(k))
                if found is None:
                    continue
                if found.second not in nearest or found.distance < nearest[found.second].distance:
                    nearest[found.second] = found
            yield from nearest.values()

    def nearest_in_world(self, placed: list[Array]) -> PairDistances | None:
        """Return the closest checked pair of body and object with their distance [m], or None."""
        apart = np.array([self._apart(spheres) for spheres in placed])
        best: PairDistances | None = None
        for flat in np.argsort(apart, axis=None):
            index, k = np.unravel_index(int(flat), apart.shape)
            if best is not None and apart[index, k] >= best.distance:
                break
            found = self._distance(int(index), placed[int(index)], int(k))
            if found is not None and (best is None or found.distance < best.distance):
                best = found
        return best

    def _distance(self, index: int, spheres: Array, k: int) -> PairDistances | None:
        """Return the distance of a body to a part of an object; None if collisions are allowed."""
        item, solid, X = self._parts[k]
        if not self._checked[item.name][index]:
            return None
        X_SW = inverse(X)
        distance, direction = signed_distance(solid, spheres[:, :3] @ X_SW[:3, :3].T + X_SW[:3, 3])
        gaps = distance - spheres[:, 3]
        s = int(gaps.argmin())
        normal = X[:3, :3] @ direction[s]
        position = spheres[s, :3] - normal * (spheres[s, 3] + 0.5 * gaps[s])
        body = self.bodies[index]
        carried = bool(body.carried)
        return PairDistances(body.name, item.name, carried, float(gaps[s]), position, normal)

    def sphere_distances(self, placed: list[Array]) -> tuple[Array, Array, list[str]]:
        """Return signed distance (s,), direction (s, 3) and object's name of each sphere."""
        total = sum(map(len, placed))
        best, away = np.full(total, np.inf), np.zeros((total, 3))
        names = [""] * total
        start = 0
        for index, spheres in enumerate(placed):
            for item, solid, X in self._parts:
                if not self._checked[item.name][index]:
                    continue
                X_SW = inverse(X)
                local = spheres[:, :3] @ X_SW[:3, :3].T + X_SW[:3, 3]
                distance, direction = signed_distance(solid, local)
                gaps, out = distance - spheres[:, 3], direction @ X[:3, :3].T
                for s in np.flatnonzero(gaps < best[start : start + len(spheres)]):
                    best[start + s], away[start + s], names[start + s] = gaps[s], out[s], item.name
            start += len(spheres)
        return best, away, names

    def _apart(self, spheres: Array) -> Array:
        """Return a lower bound of the distance of each part from spheres [m], shape (parts,)."""
        middle = 0.5 * (spheres[:, :3].min(axis=0) + spheres[:, :3].max(axis=0))
        reach = float((np.linalg.norm(spheres[:, :3] - middle, axis=1) + spheres[:, 3]).max())
        return np.asarray(np.linalg.norm(self._centres - middle, axis=1) - self._reach - reach)


def _checked(
    bodies: tuple[CollisionBody, ...], item: WorldObject, allowed: AllowedCollisions
) -> list[bool]:
    """Return for each body whether it is checked against an object."""
    return [body.in_world and not allowed.allows(body.name, item.name) for body in bodies]


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
