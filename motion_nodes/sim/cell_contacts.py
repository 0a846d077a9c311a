# SPDX-License-Identifier: Apache-2.0
"""Who touches whom in a MuJoCo cell, and whether that is expected.

Expected are wheels, casters and what else of a driving robot stands on the floor from the start;
links with an object that the planning scene allows them to touch; and a grasp: an object that links
of a gripper touch from two sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.tree import Array
from motion_nodes.sim.backend import RobotPlacement
from motion_nodes.sim.scene_bodies import PREFIX, SceneBody

FLOOR = "floor"
OPPOSITE = -0.5
"""Cosine between the directions in which two fingers press on an object that they hold, at most."""
STANDING_GAP = 1e-3
"""Nearer than this to the floor at home counts as standing on it [m]."""


class CellContact(NamedTuple):
    """Two bodies that touch at one moment."""

    pair: tuple[str, str]
    """Names: ``<robot>/<link>``, ``floor``, ``scene/<object>``; a link comes first."""
    depth: float
    """How deep they are in each other [m]."""
    force: float
    """Sum of the normal forces between them [N]."""
    expected: bool
    """Whether they may touch."""


@dataclass
class _Touch:
    """What the points of one pair's contact come to."""

    depth: float = 0.0
    force: float = 0.0
    normal: Array = field(default_factory=lambda: np.zeros(3))
    """Sum of the unit vectors from the first body to the second, shape (3,)."""


class ContactRules:
    """Finds the contacts of a compiled cell; made anew for each model."""

    def __init__(
        self,
        model: mujoco.MjModel,
        placements: Sequence[RobotPlacement],
        bodies: Mapping[str, SceneBody],
        standing: frozenset[str],
    ) -> None:
        """Prepare.

        Args:
            model: the compiled cell.
            placements: its robots.
            bodies: objects of planning scenes in it, by the names of their bodies.
            standing: names of bodies that stand on the floor from the start.
        """
        self._model = model
        self._bodies = bodies
        self._names = [model.body(i).name for i in range(model.nbody)]
        self._moves = model.body_treeid >= 0
        rolling = {f"{p.name}/{link}" for p in placements for link in _rolling(p)}
        self._stands = np.zeros(model.nbody, dtype=np.bool_)
        for i, name in enumerate(self._names):
            self._stands[i] = name in standing or self._hangs_on(i, rolling)
        self._fingers = {f"{p.name}/{link}" for p in placements for link in _fingers(p)}

    def find(self, data: mujoco.MjData) -> tuple[CellContact, ...]:
        """Return the pairs that touch at the state that was last computed."""
        if not data.ncon:
            return ()
        model = self._model
        pairs: NDArray[np.int64] = model.geom_bodyid[data.contact.geom]
        depths = -data.contact.dist
        on_floor = ((pairs[:, 0] == 0) & self._stands[pairs[:, 1]]) | (
            (pairs[:, 1] == 0) & self._stands[pairs[:, 0]]
        )
        found: dict[tuple[str, str], _Touch] = {}
        wrench = np.empty(6)
        for i in np.flatnonzero((depths > 0.0) & ~on_floor & self._moves[pairs].any(axis=1)):
            pair, turned = self._named(data.contact.geom[i], pairs[i])
            mujoco.mj_contactForce(model, data, int(i), wrench)
            touch = found.setdefault(pair, _Touch())
            touch.depth = max(touch.depth, float(depths[i]))
            touch.force += float(wrench[0])
            touch.normal += data.contact.frame[i, :3] * (-1.0 if turned else 1.0)
        grasped = self._grasped(found)
        return tuple(
            CellContact(pair, touch.depth, touch.force, self._expected(pair, grasped))
            for pair, touch in found.items()
        )

    def _hangs_on(self, body: int, rolling: set[str]) -> bool:
        """Return whether a body is a wheel, a roller of one, or what is fixed to it."""
        while body > 0:
            if self._names[body] in rolling:
                return True
            body = int(self._model.body_parentid[body])
        return False

    def _named(
        self, geoms: NDArray[np.int32], bodies: NDArray[np.int64]
    ) -> tuple[tuple[str, str], bool]:
        """Return the names of a contact's bodies, and whether they stand the other way round."""
        a, b = (
            self._names[body] if body else self._model.geom(int(geom)).name
            for geom, body in zip(geoms, bodies, strict=True)
        )
        return ((b, a), True) if _rank(b) < _rank(a) else ((a, b), False)

    def _grasped(self, touches: Mapping[tuple[str, str], _Touch]) -> set[str]:
        """Return the objects that fingers hold from two sides."""
        sides: dict[str, list[Array]] = {}
        for (link, item), touch in touches.items():
            if item in self._bodies and link in self._fingers:
                length = max(float(np.linalg.norm(touch.normal)), 1e-9)
                sides.setdefault(item, []).append(touch.normal / length)
        return {
            item
            for item, normals in sides.items()
            if min(float(a @ b) for a in normals for b in normals) < OPPOSITE
        }

    def _expected(self, pair: tuple[str, str], grasped: set[str]) -> bool:
        link, item = pair
        body = self._bodies.get(item)
        if body is None:
            return False
        robot, _, name = link.partition("/")
        allowed = robot == body.robot and name in body.touching
        return allowed or (item in grasped and link in self._fingers)


@dataclass
class ContactRecord:
    """What was seen of one pair."""

    depth: float = 0.0
    """Greatest depth [m]."""
    force: float = 0.0
    """Greatest normal force [N]."""
    episodes: int = 0
    """How often they began to touch."""
    last: float = -np.inf
    """Time of the newest contact [s]."""


class ContactLog:
    """Unexpected contacts since the start or the last :meth:`clear`."""

    def __init__(self, pause: float = 0.1) -> None:
        """Count a pair that was apart for ``pause`` [s] as touching anew."""
        self._pause = pause
        self.records: dict[tuple[str, str], ContactRecord] = {}

    def clear(self) -> None:
        """Forget everything."""
        self.records.clear()

    def add(self, time: float, contacts: Sequence[CellContact]) -> None:
        """Take the contacts of a moment [s]."""
        for contact in contacts:
            if contact.expected:
                continue
            record = self.records.setdefault(contact.pair, ContactRecord())
            record.episodes += time - record.last > self._pause
            record.depth = max(record.depth, contact.depth)
            record.force = max(record.force, contact.force)
            record.last = time


def _rank(name: str) -> tuple[bool, bool, str]:
    """Sort links before objects before the floor."""
    return name == FLOOR, name.startswith(PREFIX), name


def standing_bodies(model: mujoco.MjModel, data: mujoco.MjData) -> frozenset[str]:
    """Return the bodies that touch the floor, or nearly, in a state [names]."""
    floor = model.geom(FLOOR)
    found = set()
    for i in range(model.ngeom):
        if model.geom_contype[i] and model.body_treeid[model.geom_bodyid[i]] >= 0:
            gap = mujoco.mj_geomDistance(model, data, floor.id, i, 2.0 * STANDING_GAP, None)
            if gap < STANDING_GAP:
                found.add(model.body(int(model.geom_bodyid[i])).name)
    return frozenset(found)


def _rolling(placement: RobotPlacement) -> set[str]:
    """Return the links that wheels and passive joints carry."""
    robot = placement.robot
    joints = {*(robot.base.wheel_names if robot.base else ()), *robot.passive_joints}
    return {joint.child for joint in robot.tree.joints.values() if joint.name in joints}


def _fingers(placement: RobotPlacement) -> set[str]:
    """Return the links that joints of groups without a tip move: those of grippers."""
    robot = placement.robot
    joints = {
        joint
        for group in robot.groups.values()
        if group.tip is None and robot.base is None
        for joint in group.joints
    }
    return {
        joint.child
        for joint in robot.tree.joints.values()
        if joint.name in joints or (joint.mimic is not None and joint.mimic.joint in joints)
    }
