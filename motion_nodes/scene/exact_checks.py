# SPDX-License-Identifier: Apache-2.0
"""Collision checks of the exact geometry: the final verification of paths and configurations.

Links are represented by the collision geometry of the URDF (or their spheres if there is none),
attached bodies and the world by the shapes of the scene, all as convex pieces. Clearance, allowed
collisions and pairs are those of a :class:`motion_nodes.scene.checker.CollisionChecker`, whose
spheres are used by planners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.kernels.collision.piece_arrays import Pieces
from motion_nodes.model.tree import frozen
from motion_nodes.scene.configurations import checked_configurations
from motion_nodes.scene.contacts import (
    Contact,
    ContactKind,
    in_order,
    in_words,
    limit_contacts,
    required_distance,
)
from motion_nodes.scene.convex_pieces import chosen, joined, placed
from motion_nodes.scene.exact_pieces import robot_at, world_pieces
from motion_nodes.scene.exact_sweep import SweepMemory
from motion_nodes.scene.penetration import overlap
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.scene.checker import CollisionChecker

_FAR = 1e6
"""Max absolute joint position [rad or m]."""
_MOST_CONTACTS, _MOST_OF_A_PAIR = 256, 6
"""Max number of reported pairs of pieces, in total and per pair of names."""


@dataclass(frozen=True)
class Sweep:
    """Result of checking a path."""

    free: bool
    configurations: int
    """Number of configurations checked."""
    unproven: float
    """Length without a proof between configurations, in units of the path parameter."""
    place: float
    """Path parameter of the collision, if any."""


class ExactChecks:
    """Checks a checker's robot in its current scene; thread-safe."""

    def __init__(self, checker: CollisionChecker) -> None:
        """Create the checks; data of recent robots and scenes is reused.

        Args:
            checker: robot, joints, scene, base pose and clearance.
        """
        # Copies, because the checker may change.
        robot, joints = checker.robot, checker.joint_names
        self._joint_names, self._limits = joints, checker.limits
        self._bodies, self._scene = checker.bodies, checker.scene
        self._clearance = float(checker.clearance)
        others = tuple(name for name in robot.joint_names if name not in joints)
        self._standing = checker.positions[robot.indices(others)]
        X_WB = checker.base_pose.tobytes()
        # Memory of the robot serves in each of its scenes, by one thread at a time.
        self._table, self._idle = robot_at(robot, joints, checker.bodies, checker.pairs, X_WB)
        self._world, self._objects = world_pieces(checker.scene, checker.bodies)

    def is_free(self, q: ArrayLike) -> bool:
        """Return whether a configuration is collision-free; False for NaN. Limits are ignored.

        Args:
            q: positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong number of positions.
        """
        return bool(self.are_free(np.asarray(q, np.float64)[np.newaxis])[0])

    def are_free(self, Q: ArrayLike) -> NDArray[np.bool_]:
        """Return which configurations, shape (m, n), are collision-free, shape (m,)."""
        values = checked_configurations(Q, self._joint_names, 2)
        usable = np.asarray((np.abs(values) < _FAR).all(axis=1))
        free = np.zeros(len(values), np.bool_)
        with self._memory() as memory:
            free[usable] = memory.free_states(self._whole(values[usable]))
        return free

    def sweep(self, path: Array, places: Array, roots: int, finest: float) -> Sweep:
        """Check a path continuously, both ends included.

        Args:
            path: finite waypoints connected by straight lines, shape (k, n).
            places: increasing path parameters, from 0, shape (k,).
            roots: number of initial segments.
            finest: length up to which a segment with a collision-free middle is collision-free.
        """
        with self._memory() as memory:
            free, out, _ = memory.sweep(self._whole(path), places, roots, finest)
        return Sweep(free, int(out[0]), float(out[1]), float(out[2]))

    def explain(self, q: ArrayLike) -> tuple[Contact, ...]:
        """Return all violations, as ``CollisionChecker.explain`` does.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        values = checked_configurations(q, self._joint_names, 1)
        contacts = limit_contacts(self._limits, values)
        if not (np.abs(values) < _FAR).all():
            return in_order(contacts)
        with self._memory() as memory:
            whole = self._whole(values[np.newaxis])
            _, out, found = memory.sweep(whole, np.zeros(1), most=_MOST_CONTACTS)
            X = memory.work.X.copy()
        worst: dict[tuple[str, str], Contact] = {}
        seen: Counter[tuple[str, str]] = Counter()
        for one, two, key in found[: int(out[3])].tolist():
            names, kind, pieces = self._pair(X, one, two, key)
            seen[names] += 1
            if seen[names] > _MOST_OF_A_PAIR:
                continue
            depth, position, normal = overlap(pieces)
            depth += self._required(names)
            if names not in worst or depth > worst[names].depth:
                worst[names] = Contact(kind, names, depth, frozen(position), frozen(normal))
        return in_order([*contacts, *worst.values()])

    def problems(self, q: ArrayLike, tolerance: float = 0.0) -> tuple[str, ...]:
        """Return all violations as text, as ``CollisionChecker.problems`` does.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        values = checked_configurations(q, self._joint_names, 1)
        contacts = (found for found in self.explain(values) if found.kind != "limit")
        words = (in_words(found, self._required(found.pair)) for found in contacts)
        return (*self._limits.violations(values, tolerance), *words)

    def _required(self, names: tuple[str, str]) -> float:
        """Return the min allowed distance of a pair of names [m]."""
        table, bodies = self._table, self._bodies
        for (i, j, *_), apart in zip(table.pairs.tolist(), table.apart.tolist(), strict=True):
            if apart > 0.0 and (bodies[i].name, bodies[j].name) == names:
                return float(apart)
        return required_distance(names, self._scene.objects, self._clearance)

    def _pair(
        self, X: Array, one: int, two: int, key: int
    ) -> tuple[tuple[str, str], ContactKind, Pieces]:
        """Return the names of a pair, its kind, and the two pieces in the world.

        Args:
            X: poses of the kernel's rows in the world, shape (rows, 3, 4).
            one: piece of the first body.
            two: piece of the second body or of the world.
            key: index of the pair of bodies; below 0: of the body in a pair with the world.
        """
        table, bodies, world = self._table, self._bodies, self._world

        def of_robot(body: int, piece: int) -> Pieces:
            X_WL = np.vstack([X[table.row[body]], [0.0, 0.0, 0.0, 1.0]])
            return placed(chosen(table.pieces, np.array([piece])), X_WL)

        i, j = table.pairs[key, :2] if key >= 0 else (-1 - key, -1)
        if key >= 0:
            other, second = of_robot(j, two), bodies[j].name
            carried = bool(bodies[i].carried or bodies[j].carried)
        else:
            other = chosen(world.pieces, np.array([two]))
            second = self._objects[int(world.owner[two])].name
            carried = bool(bodies[i].carried)
        kind: ContactKind = "attached" if carried else "self" if key >= 0 else "world"
        return (bodies[i].name, second), kind, joined([of_robot(i, one), other])

    @contextmanager
    def _memory(self) -> Iterator[SweepMemory]:
        """Yield exclusive memory for the calling thread."""
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = SweepMemory(self._table, len(self._joint_names) + len(self._standing))
        try:
            memory.enter(self._world, self._clearance)
            yield memory
        finally:
            self._idle.append(memory)

    def _whole(self, Q: Array) -> Array:
        """Return positions of all joints: those of the configurations, then the fixed ones."""
        n = Q.shape[1]
        whole = np.empty((len(Q), n + len(self._standing)))
        whole[:, :n], whole[:, n:] = Q, self._standing
        return whole
