# SPDX-License-Identifier: Apache-2.0
"""Contacts between bodies of a MuJoCo cell, and which of them are expected.

Expected contacts: bodies that stand on the floor in the home state, such as wheels and casters;
links with objects that the planning scene allows them to touch; and grasps, where links of a
gripper touch an object from opposite sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.free_bodies import PREFIX as FREE
from motion_nodes.extras.sim.scene_bodies import PREFIX, SceneBody
from motion_nodes.typing import Array

PAUSE = 0.1
"""Time without contact after which a contact counts as a new one [s]."""
FLOOR = "floor"
OPPOSITE = -0.5
"""Max cosine of the angle between the contact normals of two fingers that grasp an object."""
STANDING_GAP = 1e-3
"""A body closer than this to the floor in the home state stands on it [m]."""


class CellContact(NamedTuple):
    """A contact between two bodies at one time."""

    pair: tuple[str, str]
    """Names: ``<robot>/<link>``, ``floor``, ``scene:<object>``; a link comes first."""
    depth: float
    """Penetration depth [m]."""
    force: float
    """Sum of the normal forces [N]."""
    expected: bool
    """Whether the contact is expected."""


@dataclass
class _PairContact:
    """The contact points of one pair, combined."""

    depth: float = 0.0
    """Max penetration depth [m]."""
    force: float = 0.0
    """Sum of the normal forces [N]."""
    normal: Array = field(default_factory=lambda: np.zeros(3))
    """Sum of the unit normals from the first body to the second, shape (3,)."""


class ContactRules:
    """Finds the contacts of a compiled model."""

    def __init__(
        self,
        model: mujoco.MjModel,
        placements: Sequence[RobotPlacement],
        bodies: Mapping[str, SceneBody],
        standing: frozenset[str],
        holding: frozenset[str] = frozenset(),
    ) -> None:
        """Classify the bodies of the model.

        Args:
            model: the compiled model.
            placements: the robots of the cell.
            bodies: bodies of planning scenes in the model, by name.
            standing: names of the bodies that stand on the floor in the home state.
            holding: names of the bodies with surface grippers.
        """
        self._holding = holding
        self._model = model
        self._bodies = bodies
        self._names = [model.body(i).name for i in range(model.nbody)]
        robots = {placement.name for placement in placements}
        links = np.array([name.partition("/")[0] in robots for name in self._names])
        free = np.array([name.startswith(FREE) for name in self._names])
        self._links, self._free = links, free
        self._moves = model.body_treeid >= 0
        rolling = {f"{p.name}/{link}" for p in placements for link in _rolling(p)}
        self._stands = np.zeros(model.nbody, dtype=np.bool_)
        for i, name in enumerate(self._names):
            self._stands[i] = name in standing or self._descends_from(i, rolling)
        self._fingers = {f"{p.name}/{link}" for p in placements for link in _fingers(p)}

    def find(self, data: mujoco.MjData) -> tuple[CellContact, ...]:
        """Return the contacts in a state, without those of bodies that stand on the floor.

        Args:
            data: the state, with computed contacts.
        """
        if not data.ncon:
            return ()
        model = self._model
        pairs: NDArray[np.int64] = model.geom_bodyid[data.contact.geom]
        depths = -data.contact.dist
        on_floor = ((pairs[:, 0] == 0) & self._stands[pairs[:, 1]]) | (
            (pairs[:, 1] == 0) & self._stands[pairs[:, 0]]
        )
        found: dict[tuple[str, str], _PairContact] = {}
        wrench = np.empty(6)
        # Contacts between objects are not reported.
        apart = self._free[pairs].any(axis=1) & ~self._links[pairs].any(axis=1)
        moves = self._moves[pairs].any(axis=1)
        for i in np.flatnonzero((depths > 0.0) & ~on_floor & ~apart & moves):
            pair, swapped = self._named(data.contact.geom[i], pairs[i])
            mujoco.mj_contactForce(model, data, int(i), wrench)
            contact = found.setdefault(pair, _PairContact())
            contact.depth = max(contact.depth, float(depths[i]))
            contact.force += float(wrench[0])
            contact.normal += data.contact.frame[i, :3] * (-1.0 if swapped else 1.0)
        grasped = self._grasped(found)
        return tuple(
            CellContact(pair, contact.depth, contact.force, self._expected(pair, grasped))
            for pair, contact in found.items()
        )

    def _descends_from(self, body: int, rolling: set[str]) -> bool:
        """Return whether a body is one of the given ones or their descendant."""
        while body > 0:
            if self._names[body] in rolling:
                return True
            body = int(self._model.body_parentid[body])
        return False

    def _named(
        self, geoms: NDArray[np.int32], bodies: NDArray[np.int64]
    ) -> tuple[tuple[str, str], bool]:
        """Return the names of a contact's bodies, and whether their order is swapped."""
        a, b = (
            self._names[body] if body else self._model.geom(int(geom)).name
            for geom, body in zip(geoms, bodies, strict=True)
        )
        return ((b, a), True) if _rank(b) < _rank(a) else ((a, b), False)

    def _grasped(self, contacts: Mapping[tuple[str, str], _PairContact]) -> set[str]:
        """Return the objects that gripper links touch from opposite sides."""
        finger_normals: dict[str, list[Array]] = {}
        for (link, item), contact in contacts.items():
            if item in self._bodies and link in self._fingers:
                length = max(float(np.linalg.norm(contact.normal)), 1e-9)
                finger_normals.setdefault(item, []).append(contact.normal / length)
        return {
            item
            for item, normals in finger_normals.items()
            if min(float(a @ b) for a in normals for b in normals) < OPPOSITE
        }

    def _expected(self, pair: tuple[str, str], grasped: set[str]) -> bool:
        link, item = pair
        if item.startswith(FREE):
            return link in self._fingers or link in self._holding
        body = self._bodies.get(item)
        if body is None:
            return False
        robot, _, name = link.partition("/")
        allowed = robot == body.robot and name in body.touching
        return allowed or (item in grasped and link in self._fingers)


@dataclass
class ContactRecord:
    """Statistics of the contacts of one pair."""

    depth: float = 0.0
    """Max penetration depth [m]."""
    force: float = 0.0
    """Max normal force [N]."""
    episodes: int = 0
    """Number of separate contacts."""
    last: float = -np.inf
    """Time of the last contact [s]."""


class ContactLog:
    """Unexpected contacts since the start or the last :meth:`clear`."""

    def __init__(self) -> None:
        """Create an empty log."""
        self.records: dict[tuple[str, str], ContactRecord] = {}
        """Statistics by pair."""

    def clear(self) -> None:
        """Remove all records."""
        self.records.clear()

    def add(self, time: float, contacts: Sequence[CellContact]) -> None:
        """Add the contacts of one step.

        Args:
            time: time of the step [s].
            contacts: all contacts; expected ones are ignored.
        """
        for contact in contacts:
            if contact.expected:
                continue
            record = self.records.setdefault(contact.pair, ContactRecord())
            record.episodes += time - record.last > PAUSE
            record.depth = max(record.depth, contact.depth)
            record.force = max(record.force, contact.force)
            record.last = time


def _rank(name: str) -> tuple[bool, bool, str]:
    """Return a sort key: links before objects before the floor."""
    return name == FLOOR, name.startswith((PREFIX, FREE)), name


def standing_bodies(model: mujoco.MjModel, data: mujoco.MjData) -> frozenset[str]:
    """Return the names of the bodies closer than ``STANDING_GAP`` to the floor.

    Args:
        model: the compiled model.
        data: the state, with current poses.
    """
    floor = model.geom(FLOOR)
    found = set()
    for i in range(model.ngeom):
        if model.geom_contype[i] and model.body_treeid[model.geom_bodyid[i]] >= 0:
            gap = mujoco.mj_geomDistance(model, data, floor.id, i, 2.0 * STANDING_GAP, None)
            if gap < STANDING_GAP:
                found.add(model.body(int(model.geom_bodyid[i])).name)
    return frozenset(found)


def _rolling(placement: RobotPlacement) -> set[str]:
    """Return the child links of wheel joints and passive joints."""
    robot = placement.robot
    joints = {*(robot.base.wheel_names if robot.base else ()), *robot.passive_joints}
    return {joint.child for joint in robot.tree.joints.values() if joint.name in joints}


def _fingers(placement: RobotPlacement) -> set[str]:
    """Return the links moved by groups without a tip and without wheels, which are grippers."""
    robot = placement.robot
    joints = {
        joint
        for group in robot.groups.values()
        if group.tip is None
        for joint in group.joints
        if joint not in robot.base_joints
    }
    return {
        joint.child
        for joint in robot.tree.joints.values()
        if joint.name in joints or (joint.mimic is not None and joint.mimic.joint in joints)
    }
