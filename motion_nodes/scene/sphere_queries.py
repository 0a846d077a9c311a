# SPDX-License-Identifier: Apache-2.0
"""Distance of each sphere of a robot to the world, by generated code."""

from __future__ import annotations

import numpy as np

from motion_nodes.kernels.collision.collision_binding import CollisionTable, nearest_calls
from motion_nodes.scene.collision_world_arrays import PackedWorld
from motion_nodes.scene.contacts import SphereDistances
from motion_nodes.scene.robot_spheres import CollisionBody
from motion_nodes.typing import Array


class SphereQueries:
    """Distances of the spheres of some bodies to a packed world; immutable.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """

    def __init__(
        self,
        bodies: tuple[CollisionBody, ...],
        frames: tuple[str, ...],
        world: PackedWorld,
        X_WB: Array,
    ) -> None:
        """Create the queries.

        Args:
            bodies: bodies in the order of their spheres; ``world`` has them in reverse order.
            frames: names of the links, in the order of the poses passed later.
            world: the packed world.
            X_WB: pose of the robot's base in the world, shape (4, 4).
        """
        self._calls = nearest_calls()
        counts = [len(body.spheres) for body in bodies]
        spheres = np.concatenate([np.empty((0, 4)), *(body.spheres for body in bodies)])
        self._centres, self._radii = spheres[:, :3], spheres[:, 3]
        self._rows = np.repeat([frames.index(body.link) for body in bodies], counts)
        lanes = self._calls.lanes.count
        self._padded = -(-len(spheres) // lanes) * lanes
        by_body = world.fields["checked"]
        assert isinstance(by_body, np.ndarray)
        self._checked = np.zeros((len(by_body), self._padded), np.int8)
        self._checked[:, : len(spheres)] = np.repeat(by_body[:, ::-1], counts, axis=1)
        self._names = (*(item.name for item in world.objects), "")  # index -1: no object
        self._X_WB = X_WB

    def distances(self, X_BL: Array, table: CollisionTable) -> SphereDistances:
        """Return the distances for a configuration.

        Args:
            X_BL: pose of each link in the base, shape (f, 4, 4).
            table: the table that contains the world.
        """
        found, centres = self._nearest(X_BL[None], table)
        R = self._X_WB[:3, :3]
        names = tuple(self._names[int(number)] for number in found[4, 0])
        positions = centres[0] @ R.T + self._X_WB[:3, 3]
        return SphereDistances(found[0, 0], (R @ found[1:4, 0]).T, positions, names)

    def batch(self, X_BL: Array, table: CollisionTable) -> tuple[Array, Array]:
        """Return distances, shape (m, s), and directions in the world, shape (m, s, 3).

        Args:
            X_BL: poses of the links in the base, shape (m, f, 4, 4).
            table: the table that contains the world.
        """
        found, _ = self._nearest(X_BL, table)
        directions = np.moveaxis(found[1:4], 0, -1) @ self._X_WB[:3, :3].T
        return found[0], directions

    def _nearest(self, X_BL: Array, table: CollisionTable) -> tuple[Array, Array]:
        """Return the kernel's output, shape (5, m, s), and the centres in the base frame."""
        X = X_BL[:, self._rows]
        centres = np.einsum("msij,sj->msi", X[..., :3, :3], self._centres) + X[..., :3, 3]
        count, m = len(self._radii), len(X_BL)
        x = np.zeros((4, m, self._padded), np.float32)
        x[:3, :, :count], x[3, :, :count] = np.moveaxis(centres, -1, 0), self._radii
        checked = self._checked if m == 1 else np.tile(self._checked, (1, m))
        found = self._calls.nearest(x.reshape(4, -1), checked, table)
        return found.reshape(5, m, self._padded)[..., :count].astype(np.float64), centres
