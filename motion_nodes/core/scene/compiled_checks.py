# SPDX-License-Identifier: Apache-2.0
"""Collision checks by generated code: arrays of the robot and the world, updated on change.

Also computes the distance of each sphere to the world.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.collision_arrays import (
    CheckedRobot,
    PackedWorld,
    RobotLayout,
    pack_world,
)
from motion_nodes.core.scene.contacts import SphereDistances
from motion_nodes.core.scene.robot_spheres import CollisionBody
from motion_nodes.core.scene.scene import Scene
from motion_nodes.kernels.collision.collision_binding import (
    CollisionTable,
    TablePart,
    collision_calls,
    nearest_calls,
)
from motion_nodes.typing import Array

_Inputs = tuple[tuple[object, ...], tuple[float, float]]
_TABLES = 4
"""Number of tables that are kept."""
# Margin added to the robot's reach [m]: objects beyond it are omitted from a packed world.
_REACH_STEP = 0.5


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
        by_body = world.part.fields["checked"]
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


@dataclass(frozen=True, eq=False)
class _World:
    """The last packed world."""

    seen: tuple[Scene, tuple[CollisionBody, ...], Array]
    reach: float
    packed: PackedWorld


class _Table(NamedTuple):
    """A table that may be used again."""

    inputs: _Inputs
    table: CollisionTable
    world: _World
    """The packed world that it refers to."""


class _Robot(NamedTuple):
    """A robot's part of tables, in all scenes."""

    seen: tuple[tuple[object, ...], tuple[object, ...]]
    """Inputs that are identical, and those that are equal."""
    backwards: tuple[CollisionBody, ...]
    """Bodies from tip to base, because the tip collides most often."""
    part: TablePart
    reach: float
    """Max distance of its spheres from the base, with clearance [m]."""


class CompiledChecks:
    """Creates the tables for one robot and one selection of joints.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """

    def __init__(self, robot: Robot, joints: Sequence[str], lane_count: int | None = None) -> None:
        self.calls = collision_calls(lane_count)
        self._layout = RobotLayout(robot, joints, self.calls)
        self._world: _World | None = None
        self._queries: tuple[CollisionTable, SphereQueries] | None = None
        self._newest: list[_World] = []  # shared by copies, which may be in different scenes
        self._robots: list[_Robot] = []
        self._tables: list[_Table] = []
        """The last tables, shared by copies: requests use the same ones, with and without a margin
        of spheres."""

    def copy(self) -> CompiledChecks:
        """Return a copy that shares code and tables."""
        other = object.__new__(CompiledChecks)
        other.__dict__.update(self.__dict__)  # a tenth of the time of copy.copy
        return other

    def table(self, robot: CheckedRobot, scene: Scene, X_WB: Array) -> CollisionTable:
        """Return the table for a robot in a scene, the same one for the same arguments.

        A scene, bodies and a pose identical to those of the previous call are not packed again.

        Args:
            robot: the robot.
            scene: the world.
            X_WB: pose of the robot's base in the world, shape (4, 4).
        """
        inputs = (*robot[:4], scene, X_WB), robot[4:]
        for known in self._tables:
            parts, numbers = known.inputs
            if numbers == inputs[1] and all(map(operator.is_, parts, inputs[0])):
                self._world = known.world
                return known.table
        packed = self._robot(robot)
        world = self._packed((scene, robot.bodies, X_WB), packed.backwards, packed.reach)
        table = CollisionTable(packed.part, world.part)
        assert self._world is not None
        self._tables[:] = [_Table(inputs, table, self._world), *self._tables][:_TABLES]
        return table

    def _robot(self, checked: CheckedRobot) -> _Robot:
        """Return the robot's part; reuse one of the last ones."""
        bodies, pairs, positions, steps, clearance, margin = checked
        seen, equal = (bodies, pairs, steps), (clearance, margin, positions.tobytes())
        for known in self._robots:
            if known.seen[1] == equal and all(map(operator.is_, known.seen[0], seen)):
                return known
        backwards, last = bodies[::-1], len(bodies) - 1
        turned = tuple((last - j, last - i) for i, j in reversed(pairs))
        fields = self._layout.fields(checked._replace(bodies=backwards, pairs=turned))
        reach = self._layout.reach(backwards, positions) + clearance + margin
        robot = _Robot((seen, equal), backwards, TablePart(fields), reach)
        self._robots[:] = [robot, *self._robots][:_TABLES]
        return robot

    def _packed(
        self,
        seen: tuple[Scene, tuple[CollisionBody, ...], Array],
        backwards: tuple[CollisionBody, ...],
        reach: float,
    ) -> PackedWorld:
        """Return the packed world; reuse the last one of this object or its copies if equal."""
        last = [self._world] if self._world is not None else []
        last += self._newest
        for world in last:
            if world.reach >= reach and all(map(operator.is_, world.seen, seen)):
                self._world = world
                return world.packed
        known = last[0].packed.known if last else {}
        reach += _REACH_STEP
        scene, _, X_WB = seen
        lanes = self.calls.lanes.count
        packed = pack_world(scene, backwards, inverse(X_WB), reach, lanes, known)
        self._world = _World(seen, reach, packed)
        self._newest[:] = [self._world]
        return packed

    def sphere_queries(
        self,
        table: CollisionTable,
        bodies: tuple[CollisionBody, ...],
        frames: tuple[str, ...],
        X_WB: Array,
    ) -> SphereQueries:
        """Return the distances of spheres to the world of the last table, for its bodies."""
        assert self._world is not None
        if self._queries is None or self._queries[0] is not table:
            queries = SphereQueries(bodies, frames, self._world.packed, X_WB)
            self._queries = (table, queries)
        return self._queries[1]
