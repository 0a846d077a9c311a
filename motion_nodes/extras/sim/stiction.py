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
``surfacevel``), which is a spring in series with the damper, and as fast as it drifted lately. The
cone bounds the force as before: a contact that slides drags a displacement of at most MAX_SLIDE
behind it, along its friction force. The velocity of an object's surface acts at all of its
contacts. What lies on a carried object has it, too, and an object that also touches something at
rest has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np

from motion_nodes.extras.sim.free_bodies import PREFIX
from motion_nodes.typing import Array

Numbers = list[float]

MAX_SLIDE = 5e-4
"""Displacement up to which friction returns an object [m]."""
MAX_TURN = 0.02
"""Rotation up to which it does [rad]."""
EVERY = 4
"""Steps after which displacements are updated."""
RATE = 0.125
"""Rate of the return per time step: a quarter of the damping rate of contacts, see
``contact_reference``, and half a displacement per update."""
DRIFT = 0.2
"""Share of a displacement that is added to that of a steady drift, per update. Without it, what is
carried with more than ``MAX_SLIDE * RATE`` per step of drift would slide, 30 mm per second."""
_OBJECT, _MOVING, _OTHER = 4, 1, 0


class _Object(NamedTuple):
    """An object that moves freely."""

    geoms: slice
    """Its geoms."""
    velocities: Array
    """Surface velocities of its geoms by its twist, shape (6 n, 6), both in their own frames."""
    reach: float
    """Distance of its surface from its origin, at most [m]."""


class _Pair:
    """A body and an object that it carries."""

    __slots__ = ("R", "carrier", "drift", "known", "move", "object", "p", "rows")

    def __init__(self, carrier: int, item: int) -> None:
        self.carrier, self.object, self.known = carrier, item, False
        self.rows: list[int] = []
        """Their contacts."""
        self.move: Numbers = [0.0] * 6
        """Displacement: linear at the object's origin [m], angular [rad]; in the carrier."""
        self.drift: Numbers = [0.0] * 6
        """Displacement that would compensate what slides steadily."""
        self.p: Numbers = [0.0] * 3
        self.R: Numbers = [0.0] * 9
        """Last pose of the object in the carrier, if it is known."""


class Stiction:
    """Displacements of the contacts between carried objects and the bodies that carry them.

    Numbers are floats, not arrays: for the few pairs of a world NumPy is four times slower.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        """Create it for the objects of a model.

        Args:
            model: the compiled world; ``geom_surfacevel`` of its objects is written.
        """
        self._model = model
        names = [model.body(i).name for i in range(model.nbody)]
        self._objects = {
            i: _object_of(model, i) for i, name in enumerate(names)
            if name.startswith(PREFIX) and model.body_dofnum[i] == 6 and model.body_geomnum[i]
        }  # fmt: skip
        self._body: list[int] = model.geom_bodyid.tolist()
        """Body of each geom."""
        self._kind = [
            _OBJECT if i in self._objects else _MOVING if model.body_weldid[i] > 0 else _OTHER
            for i in range(model.nbody)
        ]
        """Of each body: object, part of a robot, or neither."""
        self._rate = RATE / float(model.opt.timestep)
        self._due = 0
        """Steps until the next update."""
        self._contacts = b""
        """Pairs of geoms in contact for which the pairs were found."""
        self._pairs: dict[tuple[int, int], _Pair] = {}
        if self._objects:
            model.flg_surfacevel = 1

    @property
    def carries(self) -> bool:
        """Whether an object is carried: then :meth:`update` is due after each step."""
        return bool(self._pairs)

    def clear(self) -> None:
        """Forget all contacts."""
        if self._pairs:
            self._find_pairs(())
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
        if not self._objects or not data.ncon:
            self.clear()
            return
        contact = data.contact
        geoms = contact.geom
        if (contacts := geoms.tobytes()) != self._contacts:
            self._find_pairs(geoms.tolist())
            self._contacts = contacts
        if not self._pairs:
            return
        xmat, xpos = data.xmat, data.xpos
        twists: dict[int, tuple[Numbers, int]] = {}
        """Sums of the twists of the objects' surfaces, in the world, and their numbers."""
        for pair in self._pairs.values():
            item, carrier = pair.object, pair.carrier
            R_WC, p_WC, p_WO = xmat[carrier].tolist(), xpos[carrier].tolist(), xpos[item].tolist()
            _follow(pair, R_WC, p_WC, xmat[item].tolist(), p_WO)
            kept, rate = self._kept(pair, contact, _rotated(R_WC, pair.move), p_WO), self._rate
            if kept < 1.0:
                pair.move = [kept * value for value in pair.move]
                pair.drift = [kept * value for value in pair.drift]
            drift = pair.drift = [b + DRIFT * a for a, b in zip(pair.move, pair.drift, strict=True)]
            total = [rate * (a + b) for a, b in zip(pair.move, drift, strict=True)]
            twist = _rotated(R_WC, total)
            if carrier in twists:
                # The velocity of its surface acts here, too.
                twist = [
                    a + b for a, b in zip(twist, _at(*twists[carrier], p_WC, p_WO), strict=True)
                ]
            if item in twists:
                before, count = twists[item]
                twists[item] = [a + b for a, b in zip(before, twist, strict=True)], count + 1
            else:
                twists[item] = twist, 1
        for item, (twist, count) in twists.items():
            known = self._objects[item]
            own = _rotated(xmat[item].tolist(), [value / count for value in twist], back=True)
            self._model.geom_surfacevel[known.geoms] = (known.velocities @ own).reshape(-1, 6)

    # ---- inside

    def _find_pairs(self, geoms: Iterable[Sequence[int]]) -> None:
        """Find the carried objects among contacts of pairs of geoms."""
        kind, body = self._kind, self._body
        carried: list[tuple[int, int, int]] = []
        between: list[tuple[int, int, int]] = []
        grounded: set[int] = set()
        for row, (first, second) in enumerate(geoms):
            a, b = body[first], body[second]
            if kind[a] != _OBJECT:
                a, b = b, a
            if kind[a] != _OBJECT:
                continue
            if kind[b] == _OBJECT:
                between.append((row, a, b))
            elif kind[b] == _MOVING:
                carried.append((row, b, a))
            else:
                grounded.add(a)
        _ground(grounded, between)
        before, self._pairs = self._pairs, {}
        # Carriers come before what lies on them, which comes before what lies on that.
        level = [pair for pair in carried if pair[2] not in grounded]
        held: set[int] = set()
        while level:
            for row, carrier, item in level:
                key = carrier, item
                if (pair := self._pairs.get(key)) is None:
                    pair = self._pairs[key] = before.get(key) or _Pair(carrier, item)
                    pair.rows = []
                pair.rows.append(row)
            held |= {item for _, _, item in level}
            level = [(row, a, b) if a in held else (row, b, a) for row, a, b in between
                     if (a in held) != (b in held) and not {a, b} & grounded]  # fmt: skip
        for item in {item for _, item in before} - {item for _, item in self._pairs}:
            self._model.geom_surfacevel[self._objects[item].geoms] = 0.0

    def _kept(self, pair: _Pair, contact: Any, move: Numbers, p_WO: Numbers) -> float:
        """Return the share of a displacement that is kept."""
        x, y, z, a, b, c = move
        turn = a * a + b * b + c * c
        most = math.sqrt(x * x + y * y + z * z) + math.sqrt(turn) * self._objects[pair.object].reach
        if most <= MAX_SLIDE and turn <= MAX_TURN**2:
            return 1.0
        excess, (ox, oy, oz) = turn / MAX_TURN**2, p_WO
        pos, frame = contact.pos, contact.frame
        for row in pair.rows:
            px, py, pz = pos[row].tolist()
            px, py, pz = px - ox, py - oy, pz - oz
            sx, sy, sz = x + b * pz - c * py, y + c * px - a * pz, z + a * py - b * px
            nx, ny, nz = frame[row, :3].tolist()
            along = sx * nx + sy * ny + sz * nz
            excess = max(excess, (sx * sx + sy * sy + sz * sz - along * along) / MAX_SLIDE**2)
        return 1.0 / math.sqrt(max(excess, 1.0))


def _object_of(model: mujoco.MjModel, body: int) -> _Object:
    """Return what is known of an object from the start."""
    first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    geoms = slice(first, first + count)
    away = np.linalg.norm(model.geom_pos[geoms], axis=1) + model.geom_rbound[geoms]
    velocities, R = np.zeros((count, 6, 6)), np.empty(9)
    for k, geom in enumerate(range(first, first + count)):
        mujoco.mju_quat2Mat(R, model.geom_quat[geom])
        R_GO, (x, y, z) = R.reshape(3, 3).T, model.geom_pos[geom].tolist()
        velocities[k, :3, :3] = velocities[k, 3:, 3:] = R_GO
        velocities[k, :3, 3:] = R_GO @ ((0.0, z, -y), (-z, 0.0, x), (y, -x, 0.0))
    return _Object(geoms, velocities.reshape(-1, 6), float(away.max()))


def _follow(pair: _Pair, C: Numbers, p_WC: Numbers, O: Numbers, p_WO: Numbers) -> None:  # noqa: E741
    """Add the last motion of an object in its carrier to their displacement."""
    x, y, z = p_WO[0] - p_WC[0], p_WO[1] - p_WC[1], p_WO[2] - p_WC[2]
    p = [C[i] * x + C[3 + i] * y + C[6 + i] * z for i in (0, 1, 2)]
    R = [C[i] * O[j] + C[3 + i] * O[3 + j] + C[6 + i] * O[6 + j]
         for i in (0, 1, 2) for j in (0, 1, 2)]  # fmt: skip
    if pair.known:
        move, q, S = pair.move, pair.p, pair.R
        for i in (0, 1, 2):
            move[i] += p[i] - q[i]
            # Half the antisymmetric part of the rotation between both.
            j, k = 3 * ((i + 1) % 3), 3 * ((i + 2) % 3)
            move[3 + i] += 0.5 * (
                R[k] * S[j] + R[k + 1] * S[j + 1] + R[k + 2] * S[j + 2]
                - R[j] * S[k] - R[j + 1] * S[k + 1] - R[j + 2] * S[k + 2]
            )  # fmt: skip
    pair.p, pair.R, pair.known = p, R, True


def _ground(grounded: set[int], between: Sequence[tuple[int, int, int]]) -> None:
    """Add the objects that something at rest supports through others.

    It may do so beside what holds them: a velocity of their surface would push them along that,
    too.

    Args:
        grounded: objects in contact with something at rest.
        between: contacts of two objects each, after a number.
    """
    before = 0
    while before != len(grounded):
        before = len(grounded)
        for _, a, b in between:
            if a in grounded or b in grounded:
                grounded |= {a, b}


def _at(twist: Numbers, count: int, p: Numbers, q: Numbers) -> Numbers:
    """Return the mean of twists, of which the sum is given, at a point q instead of p."""
    u, v, w, a, b, c = (value / count for value in twist)
    x, y, z = q[0] - p[0], q[1] - p[1], q[2] - p[2]
    return [u + b * z - c * y, v + c * x - a * z, w + a * y - b * x, a, b, c]


def _rotated(R: Numbers, v: Numbers, *, back: bool = False) -> Numbers:
    """Return two rotated vectors, six numbers; ``back``: by the inverse of a rotation matrix."""
    a, b, c, d, e, f, g, h, i = R
    if back:
        b, c, d, f, g, h = d, g, b, h, c, f
    x, y, z, p, q, r = v
    return [a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + i * z,
            a * p + b * q + c * r, d * p + e * q + f * r, g * p + h * q + i * r]  # fmt: skip
