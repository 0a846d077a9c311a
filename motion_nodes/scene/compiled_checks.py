# SPDX-License-Identifier: Apache-2.0
"""Collision checks by generated code: the robot and a world in memory, packed as they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motion_nodes.kernels.collision.collision_binding import CollisionTable, collision_calls
from motion_nodes.model.poses import inverse
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.scene.collision_robot_arrays import RobotLayout
from motion_nodes.scene.collision_world_arrays import PackedWorld, pack_world
from motion_nodes.scene.robot_spheres import CollisionBody
from motion_nodes.scene.scene import Scene
from motion_nodes.scene.sphere_queries import SphereQueries

# Worlds are packed for that much more than is needed [m]: farther away nothing keeps a distance.
_REACH_STEP = 0.5


@dataclass(frozen=True, eq=False)
class _World:
    """The world that was packed last."""

    seen: tuple[Scene, tuple[CollisionBody, ...], Array]
    reach: float
    packed: PackedWorld


class CompiledChecks:
    """Makes the tables of one robot and one choice of joints.

    Raises:
        CodeGenerationError: no code can be compiled here.
    """

    def __init__(self, robot: Robot, joints: Sequence[str], lane_count: int | None = None) -> None:
        self.calls = collision_calls(lane_count)
        self._layout = RobotLayout(robot, joints, self.calls)
        self._world: _World | None = None

    def table(
        self,
        bodies: tuple[CollisionBody, ...],
        pairs: tuple[tuple[int, int], ...],
        positions: Array,
        clearance: float,
        steps: Array,
        scene: Scene,
        X_WB: Array,
    ) -> CollisionTable:
        """Return the table for a robot as it stands in a scene.

        A scene, bodies and a pose that are the same objects as the last time are not packed again.

        Args:
            bodies: links and what they carry.
            pairs: of bodies that must not touch.
            positions: of all joints of the robot; those that stand still count.
            clearance: how near pairs may be [m].
            steps: greatest steps on an edge [rad or m], shape (n,).
            scene: the world.
            X_WB: pose of the robot's base in the world, shape (4, 4).
        """
        # From the tip down: the tip is what collides most.
        backwards = bodies[::-1]
        last = len(bodies) - 1
        turned = tuple((last - j, last - i) for i, j in reversed(pairs))
        fields = self._layout.fields(backwards, turned, positions, clearance, steps)
        reach = self._layout.reach(backwards, positions) + clearance
        before = self._world
        same = before is not None and all(
            old is new for old, new in zip(before.seen, (scene, bodies, X_WB), strict=True)
        )
        if before is None or not same or reach > before.reach:
            known = {} if before is None else before.packed.known
            reach += _REACH_STEP
            lanes = self.calls.lanes.count
            packed = pack_world(scene, backwards, inverse(X_WB), reach, lanes, known)
            before = self._world = _World((scene, bodies, X_WB), reach, packed)
        fields.update(before.packed.fields)
        return CollisionTable(fields)

    def sphere_queries(
        self, bodies: tuple[CollisionBody, ...], frames: tuple[str, ...], X_WB: Array
    ) -> SphereQueries:
        """Return the distances of spheres to the world that was packed last, for its bodies."""
        assert self._world is not None
        return SphereQueries(bodies, frames, self._world.packed, X_WB)
