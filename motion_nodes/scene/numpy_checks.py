# SPDX-License-Identifier: Apache-2.0
"""Collision checks in plain NumPy, without generated code.

Slow, and independent of the kernels' arrays: provides the named pairs of reports, and the reference
results of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.poses import inverse
from motion_nodes.model.tree import frozen
from motion_nodes.scene.allowed_collisions import AllowedCollisions
from motion_nodes.scene.contacts import Contact, ContactKind
from motion_nodes.scene.robot_spheres import CollisionBody
from motion_nodes.scene.scene import Scene, WorldObject
from motion_nodes.scene.signed_distance import signed_distance
from motion_nodes.scene.solid_types import bounding_radius
from motion_nodes.typing import Array


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
