# SPDX-License-Identifier: Apache-2.0
"""Collision checks in plain NumPy, from the scene as it stands; no code is generated.

Slow, and independent of the kernels' packed memory: the oracle of the tests, what runs where no
code can be generated, and what names pairs for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.poses import inverse
from motion_nodes.model.tree import Array
from motion_nodes.scene.allowed import AllowedCollisions
from motion_nodes.scene.robot_spheres import Body
from motion_nodes.scene.scene import Scene, WorldObject
from motion_nodes.scene.shapes import bounding_radius
from motion_nodes.scene.signed_distance import signed_distance


@dataclass(frozen=True, eq=False)
class PairDistances:
    """The nearest points of a body and of something else."""

    first: str
    second: str
    carried: bool
    """Whether one of them is carried."""
    distance: float
    position: Array
    normal: Array


class GenericChecks:
    """Distances of bodies made of spheres; positions are in the world."""

    def __init__(
        self, bodies: tuple[Body, ...], pairs: tuple[tuple[int, int], ...], scene: Scene
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
        """Yield the distance of each pair of bodies that must not touch."""
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
        """Yield the distance of each body to each object that it must not touch.

        Args:
            placed: spheres of the bodies.
            within: only what is nearer counts; parts that surely are not are passed over [m].
        """
        for index, (body, spheres) in enumerate(zip(self.bodies, placed, strict=True)):
            nearest: dict[str, PairDistances] = {}
            for k in self._near(spheres, within):
                item, solid, X = self._parts[k]
                if not self._checked[item.name][index]:
                    continue
                X_SW = inverse(X)
                local = spheres[:, :3] @ X_SW[:3, :3].T + X_SW[:3, 3]
                distance, direction = signed_distance(solid, local)
                gaps = distance - spheres[:, 3]
                s = int(gaps.argmin())
                if item.name not in nearest or gaps[s] < nearest[item.name].distance:
                    normal = X[:3, :3] @ direction[s]
                    position = spheres[s, :3] - normal * (spheres[s, 3] + 0.5 * gaps[s])
                    nearest[item.name] = PairDistances(
                        body.name, item.name, bool(body.carried), float(gaps[s]), position, normal
                    )
            yield from nearest.values()

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

    def _near(self, spheres: Array, within: float) -> NDArray[np.intp]:
        """Return the parts that may be nearer to spheres than ``within``."""
        if not len(self._parts):
            return np.empty(0, np.intp)
        middle = 0.5 * (spheres[:, :3].min(axis=0) + spheres[:, :3].max(axis=0))
        reach = float((np.linalg.norm(spheres[:, :3] - middle, axis=1) + spheres[:, 3]).max())
        apart = np.linalg.norm(self._centres - middle, axis=1) - self._reach - reach
        return np.flatnonzero(~(apart >= within))


def _checked(bodies: tuple[Body, ...], item: WorldObject, allowed: AllowedCollisions) -> list[bool]:
    """Return of each body whether it must not touch an object."""
    return [not allowed.allows(body.name, item.name) for body in bodies]
