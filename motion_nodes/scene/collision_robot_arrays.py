# SPDX-License-Identifier: Apache-2.0
"""Arrays of a robot's bodies for the kernels: spheres in the frames of their rigid groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.collision.collision_binding import CollisionCalls
from motion_nodes.kernels.collision.group_frames import place_function
from motion_nodes.kernels.kinematic_arrays import PRISMATIC, pack, reroot
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Joint, JointKind
from motion_nodes.scene.robot_spheres import CollisionBody, rigid_links
from motion_nodes.typing import Array

Fields = dict[str, int | NDArray[Any]]
_Placed = tuple[Array, Array, NDArray[np.int32]]


class RobotLayout:
    """The part of the memory that depends on the robot and the joints of a configuration.

    Raises:
        CodeGenerationError: code cannot be generated on this machine.
    """

    def __init__(self, robot: Robot, joints: Sequence[str], calls: CollisionCalls) -> None:
        tree = robot.tree
        self._others = tuple(name for name in robot.joint_names if name not in joints)
        self._columns = robot.indices(self._others)
        arrays = pack(tree.packed, (*joints, *self._others), {})
        frame = {name: row for row, name in enumerate(tree.frame_names)}
        if robot.base_frame != tree.root:
            arrays = reroot(arrays, frame[robot.base_frame])
        self._arrays = arrays
        self._planned = len(joints)
        rigid = rigid_links(tree)
        tops = tuple(name for name in tree.frame_names if rigid[name] == name)
        self._rows = [arrays.frame_rows[frame[name]] for name in tops]
        self._group = {name: tops.index(rigid[name]) for name in tree.frame_names}
        self._X_GL = _in_groups(robot)
        self._code, self._place = place_function(arrays, self._rows, calls.lanes)
        self._turns = np.array([_turn(robot, name) for name in joints])
        self._last: tuple[tuple[CollisionBody, ...], _Placed] | None = None
        self._last_reach: tuple[tuple[tuple[CollisionBody, ...], bytes], float] | None = None

    def group_frame(self, frame: str) -> tuple[int, Array]:
        """Return the index of a frame's group, and its pose in that group, shape (4, 4)."""
        return self._group[frame], self._X_GL[frame]

    def fields(
        self,
        bodies: tuple[CollisionBody, ...],
        pairs: tuple[tuple[int, int], ...],
        positions: Array,
        clearance: float,
        margin: float,
        steps: Array,
    ) -> Fields:
        """Return the robot's fields of ``collision_memory``.

        Args:
            bodies: bodies in memory order.
            pairs: checked pairs of bodies.
            positions: positions of all joints of the robot [rad or m]; only those of joints outside
                configurations are used.
            clearance: min allowed distance from the world [m].
            margin: min allowed distance of pairs of bodies, and added to the clearance [m].
            steps: max joint steps on an edge [rad or m], shape (n,).
        """
        table, bounds, firsts = self._placed(bodies)
        single = np.float32
        return {
            "place": self._place,
            "joints": self._planned,
            "inputs": self._arrays.joint_count,
            "standing": positions[self._columns].astype(single),
            "turns": self._turns,
            "inverse_steps": 1.0 / steps,
            "groups": len(self._rows),
            "bodies": len(bodies),
            "spheres": len(table),
            "body_groups": np.array([self._group[body.link] for body in bodies], np.int32),
            "body_firsts": firsts,
            "body_centres": np.ascontiguousarray(bounds[:, :3], single),
            "body_radii": (bounds[:, 3] + clearance + margin + 1e-6).astype(single),
            "body_self_radii": (bounds[:, 3] + 0.5 * margin + 1e-6).astype(single),
            "sphere_centres": np.ascontiguousarray(table[:, :3], single),
            "sphere_radii": (table[:, 3] + clearance + margin).astype(single),
            "sphere_self_radii": (table[:, 3] + 0.5 * margin).astype(single),
            "pairs": len(pairs),
            "pair_bodies": np.array(pairs, np.int32).reshape(-1, 2),
        }

    def _placed(self, bodies: tuple[CollisionBody, ...]) -> _Placed:
        """Return spheres and bounding spheres in their groups, and each body's first sphere.

        The result for the last bodies is cached, because planners change only the clearance.
        """
        last = self._last  # another thread may replace it
        if last is None or last[0] != bodies:
            X = [self._X_GL[body.link] for body in bodies]
            spheres = [_moved(body.spheres, X_GL) for body, X_GL in zip(bodies, X, strict=True)]
            around = [
                _moved(body.bounding_sphere[None], X_GL)
                for body, X_GL in zip(bodies, X, strict=True)
            ]
            firsts = np.cumsum([0, *map(len, spheres)]).astype(np.int32)
            last = self._last = (bodies, (_stacked(spheres), _stacked(around), firsts))
        return last[1]

    def reach(self, bodies: tuple[CollisionBody, ...], positions: Array) -> float:
        """Return the max distance of any sphere from the base [m]; inf with a prismatic joint."""
        key = (bodies, positions[self._columns].tobytes())
        last = self._last_reach
        if last is None or last[0] != key:
            last = self._last_reach = (key, self._reach(bodies, positions))
        return last[1]

    def _reach(self, bodies: tuple[CollisionBody, ...], positions: Array) -> float:
        arrays = self._arrays
        farthest = np.zeros(len(arrays.parent))
        standing = dict(enumerate(positions[self._columns], start=self._planned))
        for row in range(1, len(farthest)):
            slide = 0.0
            if arrays.kind[row] == PRISMATIC:
                value = standing.get(int(arrays.q_index[row]), math.inf)
                slide = abs(arrays.multiplier[row] * value + arrays.offset[row])
            step = float(np.linalg.norm(arrays.X_PJ[row, :3, 3]))
            farthest[row] = farthest[arrays.parent[row]] + step + slide
        most = 0.0
        for body in bodies:
            ball = _moved(body.bounding_sphere[None], self._X_GL[body.link])[0]
            group = farthest[self._rows[self._group[body.link]]]
            most = max(most, group + float(np.linalg.norm(ball[:3]) + ball[3]))
        return most


def _in_groups(robot: Robot) -> dict[str, Array]:
    """Return the pose of each link in the top link of its rigid group."""
    poses: dict[str, Array] = {}
    for name in robot.tree.frame_names:
        joint = robot.tree.parent_joint.get(name)
        fixed = joint is not None and not joint.movable
        poses[name] = poses[joint.parent] @ joint.X_PJ if joint and fixed else np.eye(4)
    return poses


def _turn(robot: Robot, name: str) -> float:
    """Return 2 pi if a full turn leaves the robot unchanged, else 0."""

    def same(joint: Joint) -> bool:
        factor = 1.0 if joint.mimic is None else joint.mimic.multiplier
        return joint.kind is not JointKind.PRISMATIC and factor == round(factor)

    moved = [
        joint
        for joint in robot.tree.joints.values()
        if joint.movable and (joint.mimic.joint if joint.mimic else joint.name) == name
    ]
    return 2.0 * math.pi if all(same(joint) for joint in moved) else 0.0


def _moved(spheres: Array, X: Array) -> Array:
    return np.column_stack((spheres[:, :3] @ X[:3, :3].T + X[:3, 3], spheres[:, 3]))


def _stacked(spheres: list[Array]) -> Array:
    return np.concatenate([np.empty((0, 4)), *spheres])
