# SPDX-License-Identifier: Apache-2.0
"""Friction that holds carried objects: they do not creep over what carries them.

MuJoCo's friction is a damper that the cone bounds: a contact that slides with velocity v is
accelerated by ``-b v``, ``b = 2 / (d T)`` with the time constant T of ``solref`` and the impedance
d. The change of the contact's frame, ``dJ/dt qvel``, is left out, and a step moves along the
tangent of a circle. An object that is carried around an axis at distance r with angular velocity w
slides outwards therefore, whatever friction and grip are, with

    v = w^2 r (1 / b + h / 2)    (h: time step),

13 mm per second in a hand that turns with 2.2 rad/s at 0.55 m. Under a load f it creeps with
``R f / b``. No setting of contacts or solver removes both (test/sim/test_carried_objects.py).

A displacement is therefore kept for each object and body that carries it: the path along which they
slid recently, as in P. A. Cundall, O. D. L. Strack, "A discrete numerical model for
granular assemblies", Geotechnique 29(1), 1979. The object's surface moves back along it (MuJoCo's
``surfacevel``), which is a spring in series with the damper. The cone bounds the force as before: a
contact that slides drags a displacement of at most MAX_SLIDE behind it, along its friction force.
An object that also touches something at rest has none: the velocity of its surface acts there, too.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.tree import Array
from motion_nodes.sim.free_bodies import PREFIX

Ids = NDArray[np.int64]

MAX_SLIDE = 5e-4
"""Displacement up to which friction returns an object [m]."""
MAX_TURN = 0.02
"""Rotation up to which it does [rad]."""
EVERY = 4
"""Steps after which displacements are updated."""
RATE = 0.125
"""Rate of the return per time step: a quarter of the damping rate of contacts, see
``contact_reference``, and half a displacement per update."""
_OBJECT, _MOVING = 4, 1


class Stiction:
    """Displacements of the contacts between carried objects and the bodies that carry them."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Create it for the objects of a model.

        Args:
            model: the compiled world; ``geom_surfacevel`` of its objects is written.
        """
        self._model = model
        names = [model.body(int(i)).name for i in range(model.nbody)]
        objects = np.array([
            name.startswith(PREFIX) and model.body_dofnum[i] == 6 for i, name in enumerate(names)
        ])  # fmt: skip
        kind = np.where(objects, _OBJECT, np.where(model.body_weldid > 0, _MOVING, 0))
        self._kind: Ids = kind[model.geom_bodyid].astype(np.int64)
        """Of each geom: object, body of a robot, or neither."""
        self._body: Ids = np.array(model.geom_bodyid, np.int64)
        self._geoms = {
            int(body): np.flatnonzero(model.geom_bodyid == body) for body in np.flatnonzero(objects)
        }
        self._reach: Array = np.zeros(model.nbody)
        """Distance of the surface of each object from its origin, at most [m]."""
        for body, geoms in self._geoms.items():
            away = np.linalg.norm(model.geom_pos[geoms], axis=1) + model.geom_rbound[geoms]
            self._reach[body] = away.max()
        self._rate = RATE / float(model.opt.timestep)
        self._due = 0
        """Steps until the next update."""
        self._contacts = b""
        """Pairs of geoms in contact for which the following were found."""
        self._pairs: dict[tuple[int, int], int] = {}
        """Index of each pair of bodies: a carrier and an object."""
        self._ids: Ids = np.empty((0, 2), np.int64)
        self._rows: Ids = np.empty(0, np.int64)
        """Their contacts, sorted by pair."""
        self._pair_of: Ids = np.empty(0, np.int64)
        self._begins: Ids = np.empty(0, np.int64)
        """Pair of each of these contacts, and the first one of each pair."""
        self._moves: Array = np.empty((0, 6))
        """Displacement of each pair: linear at the object's origin, angular; in the carrier."""
        self._p: Array = np.empty((0, 3))
        self._R: Array = np.empty((0, 3, 3))
        """Last pose of each object in its carrier."""
        self._unknown: Ids = np.empty(0, np.int64)
        """Pairs that have none yet."""
        if self._geoms:
            model.flg_surfacevel = 1

    @property
    def carries(self) -> bool:
        """Whether an object is carried: then :meth:`update` is due after each step."""
        return bool(self._pairs)

    def clear(self) -> None:
        """Forget all contacts."""
        if self._pairs:
            self._find_pairs(np.empty((0, 2), np.int32))
        self._contacts = b""

    def update(self, data: mujoco.MjData, steps: int = 1) -> None:
        """Write the velocities of the objects' surfaces; after each call that computed steps.

        Args:
            data: the last computed step.
            steps: number of steps since the last call.
        """
        self._due -= steps
        if self._due > 0:
            return
        self._due = EVERY
        if not self._geoms or not data.ncon:
            self.clear()
            return
        contact = data.contact
        geoms = contact.geom
        if (contacts := geoms.tobytes()) != self._contacts:
            self._find_pairs(geoms)
            self._contacts = contacts
        if not self._pairs:
            return
        carriers, objects = self._ids[:, 0], self._ids[:, 1]
        R_WC, R_WO = data.xmat[carriers].reshape(-1, 3, 3), data.xmat[objects].reshape(-1, 3, 3)
        R_CW, p_WO = R_WC.transpose(0, 2, 1), data.xpos[objects]
        p, R = _rotated(R_CW, p_WO - data.xpos[carriers]), R_CW @ R_WO
        turn = R @ self._R.transpose(0, 2, 1)
        step = np.empty_like(self._moves)
        step[:, :3] = p - self._p
        for k, (i, j) in enumerate(((2, 1), (0, 2), (1, 0))):
            step[:, 3 + k] = 0.5 * (turn[:, i, j] - turn[:, j, i])
        self._p, self._R = p, R
        if self._unknown.size:
            step[self._unknown], self._unknown = 0.0, self._unknown[:0]
        moves = self._moves + step
        world = np.empty_like(moves)
        world[:, :3], world[:, 3:] = _rotated(R_WC, moves[:, :3]), _rotated(R_WC, moves[:, 3:])
        kept = self._kept(contact, world, p_WO)[:, None]
        self._moves = moves * kept
        self._write(data, self._rate * kept * world)

    # ---- inside

    def _find_pairs(self, geoms: Ids) -> None:
        """Find the carried objects among contacts of geoms, shape (n, 2)."""
        kinds, bodies = self._kind[geoms], self._body[geoms]
        kind, found = kinds.sum(axis=1), dict[tuple[int, int], list[int]]()
        grounded = _grounded(bodies[kind == _OBJECT], kinds[kind == _OBJECT] == _OBJECT,
                             bodies[kind == 2 * _OBJECT])  # fmt: skip
        for row in np.flatnonzero(kind == _OBJECT + _MOVING).tolist():
            a, b = bodies[row].tolist()
            if (a if kinds[row, 0] == _OBJECT else b) in grounded:
                continue
            found.setdefault((b, a) if kinds[row, 0] == _OBJECT else (a, b), []).append(row)
        held = {pair[1] for pair in found}
        for row in np.flatnonzero(kind == 2 * _OBJECT).tolist() if held else ():
            a, b = bodies[row].tolist()
            # One lies on the other, which is carried.
            if (a in held) != (b in held) and not {a, b} & grounded:
                found.setdefault((a, b) if a in held else (b, a), []).append(row)
        for body in {pair[1] for pair in self._pairs} - {pair[1] for pair in found}:
            self._model.geom_surfacevel[self._geoms[body]] = 0.0
        n = len(found)
        moves, p, R = np.zeros((n, 6)), np.zeros((n, 3)), np.zeros((n, 3, 3))
        unknown = np.ones(n, bool)
        for k, pair in enumerate(found):
            if (i := self._pairs.get(pair)) is not None:
                moves[k], p[k], R[k] = self._moves[i], self._p[i], self._R[i]
                unknown[k] = i in self._unknown
        self._moves, self._p, self._R = moves, p, R
        self._unknown = np.flatnonzero(unknown)
        self._pairs = {pair: k for k, pair in enumerate(found)}
        self._ids = np.array(list(found), np.int64).reshape(-1, 2)
        counts = [len(rows) for rows in found.values()]
        self._rows = np.array([row for rows in found.values() for row in rows], np.int64)
        self._pair_of = np.repeat(np.arange(n), counts)
        self._begins = np.cumsum([0, *counts])[:-1]

    def _kept(self, contact: Any, moves: Array, p_WO: Array) -> Array:
        """Return the share of each displacement that is kept, shape (n,).

        Args:
            contact: contacts of the computed step.
            moves: displacements of the pairs, in the world, shape (n, 6).
            p_WO: origins of the objects, shape (n, 3).
        """
        turns = np.einsum("ij,ij->i", moves[:, 3:], moves[:, 3:])
        ways = np.einsum("ij,ij->i", moves[:, :3], moves[:, :3])
        most = np.sqrt(ways) + np.sqrt(turns) * self._reach[self._ids[:, 1]]
        if most.max() <= MAX_SLIDE and turns.max() <= MAX_TURN**2:
            return np.ones(len(moves))
        rows, of = self._rows, self._pair_of
        x, y, z = (contact.pos[rows] - p_WO[of]).T
        slide, (a, b, c) = moves[of, :3], moves[of, 3:].T
        slide[:, 0] += b * z - c * y
        slide[:, 1] += c * x - a * z
        slide[:, 2] += a * y - b * x
        normal = contact.frame[rows, :3]
        slide -= np.einsum("ij,ij->i", slide, normal)[:, None] * normal
        slides = np.maximum.reduceat(np.einsum("ij,ij->i", slide, slide), self._begins)
        excess = np.maximum(slides / MAX_SLIDE**2, turns / MAX_TURN**2)
        return np.asarray(1.0 / np.sqrt(np.maximum(excess, 1.0)))

    def _write(self, data: mujoco.MjData, twists: Array) -> None:
        """Write surface velocities: the mean over the carriers of each object.

        Args:
            data: the computed step.
            twists: of each pair, at the object's origin, in the world, shape (n, 6).
        """
        objects = self._ids[:, 1]
        for body in dict.fromkeys(objects.tolist()):
            own = twists[objects == body]
            linear, angular = (own.sum(axis=0) / len(own)).reshape(2, 3)
            for geom in self._geoms[body].tolist():
                R = data.geom_xmat[geom].reshape(3, 3)
                x, y, z = (data.geom_xpos[geom] - data.xpos[body]).tolist()
                a, b, c = angular.tolist()
                across = np.array((b * z - c * y, c * x - a * z, a * y - b * x))
                self._model.geom_surfacevel[geom] = (*((linear + across) @ R), *(angular @ R))


def _grounded(bodies: Ids, own: NDArray[np.bool_], pairs: Ids) -> set[int]:
    """Return the objects that something at rest supports, alone or beside what holds them.

    A velocity of their surface would push them along that, too.

    Args:
        bodies: pairs of bodies of which one is an object and the other at rest, shape (n, 2).
        own: which of them is the object.
        pairs: pairs of objects in contact, shape (m, 2).
    """
    found, before = set(bodies[own].tolist()), -1
    while len(found) != before:
        before = len(found)
        found |= {each for pair in pairs.tolist() if found & set(pair) for each in pair}
    return found


def _rotated(R: Array, vectors: Array) -> Array:
    """Return rotated vectors, shape (n, 3), by rotations of shape (n, 3, 3)."""
    return np.asarray((R @ vectors[:, :, None])[:, :, 0])
