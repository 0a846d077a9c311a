# SPDX-License-Identifier: Apache-2.0
"""Collision checks of the exact geometry, which decide on paths and configurations.

Links are represented by the collision geometry of the URDF (if there is none, by their spheres),
attached bodies and the world by the shapes of the scene, all as convex pieces. Clearance, allowed
collisions and pairs are those of a :class:`motion_nodes.scene.checker.CollisionChecker`, whose
spheres are used by planners.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.kernels.collision.piece_arrays import (
    BLOCK,
    COLLISION,
    FULL,
    PieceBodies,
    Pieces,
    PieceWorld,
    SweepWorkspace,
    Table,
)
from motion_nodes.kernels.kinematic_arrays import PackedArrays, pack, reroot
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, frozen
from motion_nodes.scene.collision_world_arrays import checked_matrix, spatial_order
from motion_nodes.scene.configurations import checked_configurations
from motion_nodes.scene.contacts import Contact, ContactKind, in_order, in_words, limit_contacts
from motion_nodes.scene.convex_pieces import (
    boxes_around,
    chosen,
    joined,
    pieces_of,
    placed,
    shrunk,
    sphere_pieces,
)
from motion_nodes.scene.penetration import overlap
from motion_nodes.scene.robot_spheres import CollisionBody, link_parts
from motion_nodes.scene.scene import Scene, WorldObject

if TYPE_CHECKING:
    from motion_nodes.scene.checker import CollisionChecker

ROUNDING = 5e-5
"""Penetration below which a pair is not in collision [m]: resting contacts."""
_FAR = 1e6
"""Max absolute joint position [rad or m]."""
_PAIRS, _MOST_PAIRS = 4096, 1 << 22
"""Capacity for pairs of pieces, initially and at most."""
_STACK = 64
_MOST_CONTACTS, _MOST_OF_A_PAIR = 256, 6
"""Max number of reported pairs of pieces, in total and per pair of names."""


@dataclass(frozen=True)
class Sweep:
    """Result of checking a path."""

    free: bool
    configurations: int
    """Number of configurations checked."""
    unproven: float
    """Length not proven between configurations, in units of the path parameter."""
    place: float
    """Path parameter of the collision, if any."""


class ExactChecks:
    """Checks a checker's robot in its current scene; not thread-safe."""

    def __init__(self, checker: CollisionChecker) -> None:
        """Create the checks; data of recent robots and scenes is reused.

        Args:
            checker: robot, joints, scene, base pose and clearance.
        """
        # Imported on demand: Numba takes a quarter of a second to import.
        from motion_nodes.kernels.array_bridge import table_of
        from motion_nodes.kernels.collision.path_sweep import sweep

        self._checker, self._sweep, self._table_of = checker, sweep, table_of
        robot, joints = checker.robot, checker.joint_names
        self._others = tuple(name for name in robot.joint_names if name not in joints)
        self._standing = checker.positions[robot.indices(self._others)]
        bodies = _bodies(robot, joints, checker.bodies, checker.pairs)
        X_PJ = bodies.X_PJ.copy()
        X_PJ[0] = checker.base_pose @ X_PJ[0]
        self._bodies = bodies._replace(X_PJ=X_PJ)
        self._world, self._objects = _surroundings(checker.scene, checker.bodies)
        self._reserve(_PAIRS)

    def is_free(self, q: ArrayLike) -> bool:
        """Return whether a configuration is collision-free; limits are ignored. NaN is not free.

        Args:
            q: positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong number of positions.
        """
        return bool(self.are_free(np.asarray(q, np.float64)[np.newaxis])[0])

    def are_free(self, Q: ArrayLike) -> NDArray[np.bool_]:
        """Return the same for many configurations, shape (m, n), as shape (m,)."""
        values = checked_configurations(Q, self._checker.joint_names, 2)
        usable = np.asarray((np.abs(values) < _FAR).all(axis=1))
        free = [
            ok and self._swept(q[np.newaxis], 0)[0] for ok, q in zip(usable, values, strict=True)
        ]
        return np.array(free, np.bool_)

    def sweep(self, path: Array, places: Array, roots: int, finest: float) -> Sweep:
        """Check a path continuously, both ends included.

        Args:
            path: waypoints joined by straight lines, all finite, shape (k, n).
            places: increasing path parameters, from 0, shape (k,).
            roots: number of initial segments.
            finest: shorter segments count as collision-free if their middles are.
        """
        free, out, _ = self._swept(path, roots, places, finest)
        return Sweep(free, int(out[0]), float(out[1]), float(out[2]))

    def explain(self, q: ArrayLike) -> tuple[Contact, ...]:
        """Return all violations, as ``CollisionChecker.explain`` does.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        checker = self._checker
        values = checked_configurations(q, checker.joint_names, 1)
        contacts = limit_contacts(checker.limits, values)
        if not (np.abs(values) < _FAR).all():
            return in_order(contacts)
        _, out, found = self._swept(values[np.newaxis], 0, most=_MOST_CONTACTS)
        worst: dict[tuple[str, str], Contact] = {}
        seen: Counter[tuple[str, str]] = Counter()
        for one, two, key in found[: int(out[3])].tolist():
            names, kind, pieces = self._pair(one, two, key)
            seen[names] += 1
            if seen[names] > _MOST_OF_A_PAIR:
                continue
            depth, position, normal = overlap(pieces)
            depth += checker.required_distance(names)
            if names not in worst or depth > worst[names].depth:
                worst[names] = Contact(kind, names, depth, frozen(position), frozen(normal))
        return in_order([*contacts, *worst.values()])

    def problems(self, q: ArrayLike, tolerance: float = 0.0) -> tuple[str, ...]:
        """Return all violations as text, as ``CollisionChecker.problems`` does.

        Raises:
            InvalidCommand: wrong number of positions.
        """
        checker = self._checker
        values = checked_configurations(q, checker.joint_names, 1)
        contacts = (found for found in self.explain(values) if found.kind != "limit")
        words = (in_words(found, checker.required_distance(found.pair)) for found in contacts)
        return (*checker.limits.violations(values, tolerance), *words)

    def _pair(self, one: int, two: int, key: int) -> tuple[tuple[str, str], ContactKind, Pieces]:
        """Return the names of a pair, its kind, and the two pieces in the world."""
        table, X, bodies = self._bodies, self._work.X, self._checker.bodies

        def of_robot(body: int, piece: int) -> Pieces:
            X_WL = np.vstack([X[table.row[body]], [0.0, 0.0, 0.0, 1.0]])
            return placed(chosen(table.pieces, np.array([piece])), X_WL)

        i, j = table.pairs[key, :2] if key >= 0 else (-1 - key, -1)
        if key >= 0:
            other, second = of_robot(j, two), bodies[j].name
            carried = bool(bodies[i].carried or bodies[j].carried)
        else:
            other = chosen(self._world.pieces, np.array([two]))
            second = self._objects[int(self._world.owner[two])].name
            carried = bool(bodies[i].carried)
        kind: ContactKind = "attached" if carried else "self" if key >= 0 else "world"
        return (bodies[i].name, second), kind, joined([of_robot(i, one), other])

    def _swept(
        self,
        path: Array,
        roots: int,
        places: Array | None = None,
        finest: float = 0.0,
        most: int = 1,
    ) -> tuple[bool, Array, NDArray[np.int32]]:
        """Return whether a path is collision-free, and the kernel's statistics and contacts."""
        n = path.shape[1]
        whole = np.empty((len(path), n + len(self._standing)))
        whole[:, :n], whole[:, n:] = path, self._standing
        variation = np.zeros_like(whole)
        np.cumsum(np.abs(np.diff(path, axis=0)), axis=0, out=variation[1:, :n])
        at = np.zeros(len(path)) if places is None else places
        contacts, out = np.empty((most, 3), np.int32), np.empty(4)
        while True:
            found = self._sweep(self._table, whole, at, variation, roots, finest, contacts, out)
            if found != FULL or self._room >= _MOST_PAIRS:
                break
            self._reserve(4 * self._room)
        return found != COLLISION and found != FULL, out, contacts

    def _reserve(self, room: int) -> None:
        """Allocate memory for pairs of pieces."""
        bodies, self._room = self._bodies, room
        rows, joints = len(bodies.parent), len(self._checker.robot.joint_names)
        self._work = SweepWorkspace(
            X=np.zeros((rows, 3, 4)),
            centres=np.zeros((len(bodies.pieces.kind), 3)),
            motion=np.zeros((len(bodies.row), rows + 1)),
            pose=np.zeros((2, 3, 4)),
            gjk=np.zeros((6, 3)),
            q=np.zeros((2, joints)),
            ends=np.zeros((_STACK, 2)),
            lists=np.zeros((_STACK, 2), np.int32),
            candidates=np.zeros((room, 3), np.int32),
        )
        self._kept = Table(bodies, self._world, self._work, float(self._checker.clearance))
        self._table = self._table_of(self._kept)


@functools.lru_cache(maxsize=16)
def _bodies(
    robot: Robot,
    joints: tuple[str, ...],
    bodies: tuple[CollisionBody, ...],
    pairs: tuple[tuple[int, int], ...],
) -> PieceBodies:
    """Return a robot for the kernel; its configurations are ``joints``, then the others."""
    tree = robot.tree
    others = tuple(name for name in robot.joint_names if name not in joints)
    frame = {name: row for row, name in enumerate(tree.frame_names)}
    arrays = pack(tree.packed, (*joints, *others), {})
    if robot.base_frame != tree.root:
        arrays = reroot(arrays, frame[robot.base_frame])
    rows = [arrays.frame_rows[frame[body.link]] for body in bodies]
    chains = [_chain(arrays, row) for row in rows]
    own = [
        (
            i,
            j,
            sum(r not in chains[j] for r in chains[i]),
            sum(r not in chains[i] for r in chains[j]),
        )
        for i, j in pairs
    ]
    pieces = [_body_pieces(robot, body) for body in bodies]
    sizes = [len(part.kind) for part in pieces]
    return PieceBodies(
        parent=np.asarray(arrays.parent, np.int32),
        kind=np.asarray(arrays.kind, np.int32),
        X_PJ=np.ascontiguousarray(arrays.X_PJ),
        axis=np.ascontiguousarray(arrays.axis),
        joint=np.asarray(arrays.q_index, np.int32),
        multiplier=np.ascontiguousarray(arrays.multiplier),
        offset=np.ascontiguousarray(arrays.offset),
        row=np.array(rows, np.int32),
        ball=np.array([_ball(part) for part in pieces]).reshape(-1, 4),
        first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
        chain_first=np.concatenate([[0], np.cumsum([len(c) for c in chains])]).astype(np.int32),
        chain=np.array([row for chain in chains for row in chain], np.int32),
        pairs=np.array(own, np.int32).reshape(-1, 4),
        pieces=_contiguous(joined([pieces_of([])[0], *pieces])),
    )


def _chain(arrays: PackedArrays, row: int) -> list[int]:
    """Return the moving rows from a row to the base."""
    chain = []
    while row >= 0:
        if arrays.kind[row] != 0:
            chain.append(row)
        row = int(arrays.parent[row])
    return chain


def _body_pieces(robot: Robot, body: CollisionBody) -> Pieces:
    """Return a body's exact shapes in its link, reduced by half of the rounding tolerance."""
    known = _known_bodies.get(body)
    if known is None:
        item = body.carried
        X_LO = np.eye(4) if item is None else item.X_LO
        parts = link_parts(robot, body.link) if item is None else item.parts
        if item is None and len(parts) < max(1, len(robot.tree.links[body.link].collisions)):
            found = sphere_pieces(body.spheres)
        else:
            found, owner = pieces_of([part.solid for part in parts], moving=True)
            found = placed(found, X_LO @ np.stack([part.X_OS for part in parts])[owner])
        known = _known_bodies[body] = shrunk(found, 0.5 * ROUNDING)
    return known


_known_bodies: weakref.WeakKeyDictionary[CollisionBody, Pieces] = weakref.WeakKeyDictionary()


def _ball(pieces: Pieces) -> Array:
    """Return a bounding sphere of pieces: centre and radius [m], shape (4,)."""
    boxes = boxes_around(pieces)
    middle = 0.5 * (boxes[:, :3].min(axis=0) + boxes[:, 3:].max(axis=0))
    reach = np.linalg.norm(pieces.X[:, :, 3] - middle, axis=1) + pieces.reach
    return np.append(middle, reach.max())


@functools.lru_cache(maxsize=8)
def _surroundings(
    scene: Scene, bodies: tuple[CollisionBody, ...]
) -> tuple[PieceWorld, tuple[WorldObject, ...]]:
    """Return a world for the kernel, and its objects in index order."""
    objects = tuple(item for item in scene.objects.values() if item.enabled)
    parts = [part for item in objects for part in item.parts]
    pieces, part_of = pieces_of([part.solid for part in parts])
    owner = np.repeat(np.arange(len(objects)), [len(item.parts) for item in objects])[part_of]
    if parts:
        X_WO, X_OS = np.stack([o.X_WO for o in objects]), np.stack([part.X_OS for part in parts])
        pieces = placed(pieces, X_WO[owner] @ X_OS[part_of])
    boxes = boxes_around(pieces)
    order = spatial_order(boxes.reshape(-1, 2, 3))
    boxes = boxes[order]
    blocks = _around(boxes)
    world = PieceWorld(
        pieces=_contiguous(chosen(pieces, order)),
        owner=owner[order].astype(np.int32),
        boxes=boxes,
        blocks=blocks,
        branches=_around(blocks),
        checked=checked_matrix(scene.allowed, objects, bodies),
    )
    return world, objects


def _around(boxes: Array) -> Array:
    """Return the bounding boxes of each block of boxes."""
    if not len(boxes):
        return boxes
    starts = np.arange(0, len(boxes), BLOCK)
    low = np.minimum.reduceat(boxes[:, :3], starts)
    return np.concatenate([low, np.maximum.reduceat(boxes[:, 3:], starts)], axis=1)


def _contiguous(pieces: Pieces) -> Pieces:
    return Pieces._make(np.ascontiguousarray(array) for array in pieces)
