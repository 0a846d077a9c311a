# SPDX-License-Identifier: Apache-2.0
"""Collision checks of the exact geometry: the final verification of paths and configurations.

Links are represented by the collision geometry of the URDF (or their spheres if there is none),
attached bodies and the world by the shapes of the scene, all as convex pieces. Clearance, allowed
collisions and pairs are those of a :class:`motion_nodes.core.scene.checker.CollisionChecker`, whose
spheres are used by planners.

Reports contain penetration depth and contact point, in plain NumPy. Source: van den Bergen,
Proximity queries and penetration depth computation on 3D game objects (GDC 2001), expanding
polytope algorithm: the Minkowski difference is approximated from inside by a polytope, whose face
closest to the origin is expanded until it is on the surface.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.configurations import checked_configurations
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.collision_arrays import checked_objects
from motion_nodes.core.scene.contacts import (
    Contact,
    ContactKind,
    in_order,
    in_words,
    limit_contacts,
    required_distance,
)
from motion_nodes.core.scene.convex_decomposition import convex_parts
from motion_nodes.core.scene.convex_pieces import (
    boxes_around,
    chosen,
    joined,
    padded,
    pieces_of,
    placed,
    shrunk,
    sphere_pieces,
)
from motion_nodes.core.scene.robot_spheres import CollisionBody, link_parts, scaled
from motion_nodes.core.scene.scene import Part, Scene, WorldObject
from motion_nodes.core.scene.shapes import TriangleMesh
from motion_nodes.core.scene.triangle_surfaces import spatial_order
from motion_nodes.kernels.cache import in_turns
from motion_nodes.kernels.collision.piece_arrays import (
    BLOCK,
    BOX,
    CONE,
    FREE,
    FULL,
    HALF_SPACE,
    POINTS,
    PieceBodies,
    Pieces,
    PieceWorld,
    SweepWorkspace,
)
from motion_nodes.kernels.kinematic_arrays import PackedArrays, pack, reroot
from motion_nodes.tolerances import DEPTH_ACCURACY, RESTING_DEPTH
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.core.scene.checker import CollisionChecker

_PAIRS, _MOST_PAIRS = 4096, 1 << 22
"""Initial and max capacity for pairs of pieces."""
_STACK = 64
SELF_CLEARANCE = 2e-4
"""Min distance between links [m], a margin for path tracking errors; 0 for attached bodies and for
pairs that are closer than this in a named state."""
_MOST_PIECE_CONTACTS = 256
"""Max number of reported pairs of pieces in a named state."""
_STEPS = 40
_FAR = 1e6
"""Max absolute joint position [rad or m]."""
_MOST_CONTACTS, _MOST_OF_A_PAIR = 256, 6
"""Max number of reported pairs of pieces, in total and per pair of names."""


class SweepMemory:
    """A robot for the kernel, with scratch memory that grows on demand; used by one thread."""

    def __init__(self, bodies: PieceBodies, joints: int) -> None:
        """Allocate the memory; call :meth:`enter` before a check.

        Args:
            bodies: the robot.
            joints: number of the robot's joints.
        """
        # Imported on demand: Numba takes a quarter of a second to import.
        from motion_nodes.kernels.collision.path_sweep import sweep
        from motion_nodes.kernels.memory_layout import table_of

        self._bodies, self._joints = bodies, joints
        self._sweep, self._table_of = sweep, table_of
        self._surroundings: tuple[PieceWorld, float] | None = None
        self._of_bodies = table_of(bodies)
        self._reserve(_PAIRS)

    def enter(self, world: PieceWorld, clearance: float = 0.0) -> None:
        """Check against a world from now on.

        Args:
            world: the world.
            clearance: min allowed distance from it [m].
        """
        last = self._surroundings
        if last is None or last[0] is not world or last[1] != clearance:
            self._surroundings = world, clearance
            self._assemble()

    def sweep(
        self, path: Array, places: Array, roots: int = 0, finest: float = 0.0, most: int = 1
    ) -> tuple[bool, Array, NDArray[np.int32]]:
        """Check a path, see :func:`motion_nodes.kernels.collision.path_sweep.sweep`.

        Args:
            path: waypoints of all joints, shape (k, n).
            places: their path parameters, shape (k,).
            roots: number of initial segments.
            finest: length up to which a segment with a collision-free middle is collision-free.
            most: max number of contacts.

        Returns:
            Whether it is collision-free, the kernel's statistics, and the contacts.
        """
        variation = np.zeros_like(path)
        np.abs(path[1:] - path[:-1]).cumsum(axis=0, out=variation[1:])
        contacts, out = np.empty((most, 3), np.int32), np.empty(4)
        return self._run(path, places, variation, roots, finest, contacts, out), out, contacts

    def free_states(self, Q: Array) -> NDArray[np.bool_]:
        """Return which configurations of all joints, shape (m, n), are collision-free."""
        place, still = np.zeros(1), np.zeros((1, Q.shape[1]))
        contacts, out = np.empty((1, 3), np.int32), np.empty(4)
        free = [self._run(q, place, still, 0, 0.0, contacts, out) for q in Q[:, np.newaxis]]
        return np.array(free, np.bool_)

    def _run(self, *arguments: Any) -> bool:
        """Call the kernel, with more memory if needed; return whether the path is free."""
        while True:
            found = self._sweep(self._table, *arguments)
            if found != FULL or self._room >= _MOST_PAIRS:
                return bool(found == FREE)
            self._reserve(4 * self._room)
            self._assemble()

    def _reserve(self, room: int) -> None:
        """Allocate memory for pairs of pieces."""
        bodies, self._room = self._bodies, room
        rows = len(bodies.parent)
        self.work = SweepWorkspace(
            X=np.zeros((rows, 3, 4)),
            centres=np.zeros((len(bodies.pieces.kind), 3)),
            motion=np.zeros((len(bodies.row), rows + 1)),
            pose=np.zeros((2, 3, 4)),
            gjk=np.zeros((6, 3)),
            q=np.zeros((2, self._joints)),
            ends=np.zeros((_STACK, 2)),
            lists=np.zeros((_STACK, 2), np.int32),
            candidates=np.zeros((room, 3), np.int32),
        )
        self._of_work = self._table_of(self.work)

    def _assemble(self) -> None:
        """Set the kernel's table: the fields of :class:`~.piece_arrays.Table`, in order."""
        assert self._surroundings is not None
        world, clearance = map(self._table_of, ((self._surroundings[0],), self._surroundings[1:]))
        self._table = np.concatenate((self._of_bodies, world, self._of_work, clearance))


@functools.lru_cache(maxsize=16)
def robot_pieces(
    robot: Robot,
    joints: tuple[str, ...],
    bodies: tuple[CollisionBody, ...],
    pairs: tuple[tuple[int, int], ...],
) -> PieceBodies:
    """Return a robot for the kernel, with the min distances of its links from each other.

    Args:
        robot: the robot.
        joints: the first joints of the kernel's configurations; the others follow.
        bodies: links and attached bodies.
        pairs: indices of the bodies that are checked against each other.
    """
    table = _bodies(robot, joints, bodies, pairs)
    links = np.array([not (bodies[i].carried or bodies[j].carried) for i, j in pairs], np.bool_)
    table = table._replace(apart=np.where(links, SELF_CLEARANCE, 0.0))
    order = robot.indices((*joints, *(n for n in robot.joint_names if n not in joints)))
    memory = SweepMemory(table, len(order))
    memory.enter(world_pieces(Scene(), bodies)[0])
    near = np.zeros(len(pairs), np.bool_)
    for name in robot.state_names:
        q = np.array(robot.named_state(name)[order], np.float64)[np.newaxis]
        _, out, contacts = memory.sweep(q, np.zeros(1), most=_MOST_PIECE_CONTACTS)
        near[contacts[: int(out[3]), 2]] = True
    return table._replace(apart=np.where(near, 0.0, table.apart))


@functools.lru_cache(maxsize=16)
def robot_at(
    robot: Robot,
    joints: tuple[str, ...],
    bodies: tuple[CollisionBody, ...],
    pairs: tuple[tuple[int, int], ...],
    X_WB: bytes,
) -> tuple[PieceBodies, list[SweepMemory]]:
    """Return :func:`robot_pieces` with the base at a pose, and a list of idle memory for it.

    Args:
        robot: the robot.
        joints: see :func:`robot_pieces`.
        bodies: likewise.
        pairs: likewise.
        X_WB: pose of the base in the world, the bytes of an array of shape (4, 4).
    """
    table = robot_pieces(robot, joints, bodies, pairs)
    X_PJ = table.X_PJ.copy()
    X_PJ[0] = np.frombuffer(X_WB).reshape(4, 4) @ X_PJ[0]
    return table._replace(X_PJ=X_PJ), []


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
    in_turns(partial(convex_parts, mesh) for body in bodies for mesh in _cut_meshes(robot, body))
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
        apart=np.zeros(len(own)),
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


def _exact_parts(robot: Robot, body: CollisionBody) -> tuple[Part, ...]:
    """Return a body's shapes; none if it is checked by its spheres."""
    item = body.carried
    parts = link_parts(robot, body.link) if item is None else item.parts
    if item is None and len(parts) < max(1, len(robot.tree.links[body.link].collisions)):
        return ()
    return tuple(scaled(part, body.margin.scale) for part in parts)


def _cut_meshes(robot: Robot, body: CollisionBody) -> Iterator[TriangleMesh]:
    """Yield the meshes of a body that are decomposed, if its pieces are not known yet."""
    for part in () if body in _known_bodies else _exact_parts(robot, body):
        if isinstance(part.solid, TriangleMesh) and not part.solid.convex:
            yield part.solid


def _body_pieces(robot: Robot, body: CollisionBody) -> Pieces:
    """Return a body's exact shapes in its link, reduced by half of the rounding tolerance."""
    known = _known_bodies.get(body)
    if known is None:
        X_LO = np.eye(4) if body.carried is None else body.carried.X_LO
        parts = _exact_parts(robot, body)
        if not parts:
            found = sphere_pieces(body.spheres)
        else:
            found, owner = pieces_of([part.solid for part in parts], moving=True)
            found = placed(found, X_LO @ np.stack([part.X_OS for part in parts])[owner])
            found = padded(found, body.margin.padding)
        known = _known_bodies[body] = shrunk(found, 0.5 * RESTING_DEPTH)
    return known


_known_bodies: weakref.WeakKeyDictionary[CollisionBody, Pieces] = weakref.WeakKeyDictionary()


def _ball(pieces: Pieces) -> Array:
    """Return a bounding sphere of pieces: centre and radius [m], shape (4,)."""
    boxes = boxes_around(pieces)
    middle = 0.5 * (boxes[:, :3].min(axis=0) + boxes[:, 3:].max(axis=0))
    reach = np.linalg.norm(pieces.X[:, :, 3] - middle, axis=1) + pieces.reach
    return np.append(middle, reach.max())


@functools.lru_cache(maxsize=8)
def world_pieces(
    scene: Scene, bodies: tuple[CollisionBody, ...]
) -> tuple[PieceWorld, tuple[WorldObject, ...]]:
    """Return a world for the kernel, and its objects in index order."""
    objects, checked = checked_objects(scene, bodies)
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
        checked=checked,
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


_DIRECTIONS = np.array([d for d in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(d)])


class Overlap(NamedTuple):
    """The min translation that separates two pieces."""

    depth: float
    """Penetration depth, negative for a distance [m]."""
    position: Array
    """Contact point [m], shape (3,)."""
    normal: Array
    """Direction in which the first piece is separated from the second, shape (3,)."""


def overlap(pieces: Pieces) -> Overlap:
    """Return the penetration depth of two pieces, or their distance."""
    if pieces.kind[1] == HALF_SPACE:
        normal, origin = pieces.X[1, :, 2], pieces.X[1, :, 3]
        lowest = _support(pieces, 0, -normal[None])[0]
        height = float(normal @ (lowest - origin))
        return Overlap(-height, lowest - 0.5 * height * normal, normal)
    apart = _apart(pieces)
    return _expanded(pieces) if apart is None else apart


def _apart(pieces: Pieces) -> Overlap | None:
    """Return the distance of two pieces as a negative depth; None if their cores overlap."""
    # Imported on demand: Numba takes a quarter of a second to import.
    from motion_nodes.kernels.collision.path_sweep import separations

    work, out = np.zeros((6, 3)), np.zeros((1, 2))
    pairs = np.array([[0, 1]], np.int32)
    separations(pieces, pairs, work, out)
    length = float(np.linalg.norm(work[4]))
    if not np.isfinite(out[0, 0]) or length == 0.0:
        return None
    normal = work[4] / length
    a, b = _support(pieces, 0, -normal[None])[0], _support(pieces, 1, normal[None])[0]
    return Overlap(-float(out[0, 0]), 0.5 * (a + b), normal)


def _expanded(pieces: Pieces) -> Overlap:
    from scipy.spatial import ConvexHull, QhullError

    directions = _DIRECTIONS / np.linalg.norm(_DIRECTIONS, axis=1, keepdims=True)
    A, B = _support(pieces, 0, directions), _support(pieces, 1, -directions)
    best = Overlap(np.inf, 0.5 * (A[0] + B[0]), directions[0])
    for _ in range(_STEPS):
        heights = np.einsum("ij,ij->i", A[-len(directions) :] - B[-len(directions) :], directions)
        k = int(heights.argmin())
        if heights[k] < best.depth:
            first, second = A[k - len(directions)], B[k - len(directions)]
            best = Overlap(float(heights[k]), 0.5 * (first + second), -directions[k])
        try:
            hull = ConvexHull(A - B)
        except QhullError:
            break
        face = int(hull.equations[:, 3].argmax())
        if best.depth + hull.equations[face, 3] < DEPTH_ACCURACY:
            corners = hull.simplices[face]
            weights = _weights(
                (A - B)[corners], -hull.equations[face, 3] * hull.equations[face, :3]
            )
            place = 0.5 * weights @ (A[corners] + B[corners])
            return Overlap(best.depth, place, -hull.equations[face, :3])
        directions = hull.equations[face, :3][None]
        A = np.concatenate([A, _support(pieces, 0, directions)])
        B = np.concatenate([B, _support(pieces, 1, -directions)])
    return best


def _weights(corners: Array, point: Array) -> Array:
    """Return the barycentric weights of a triangle's point closest to a point."""
    system = np.vstack([corners.T, np.ones(3)])
    weights = np.linalg.lstsq(system, np.append(point, 1.0), rcond=None)[0].clip(0.0)
    return np.asarray(weights / weights.sum())


def _support(pieces: Pieces, k: int, directions: Array) -> Array:
    """Return the support points of a piece in directions, shape (m, 3)."""
    R, t, (a, b, c, radius) = pieces.X[k, :, :3], pieces.X[k, :, 3], pieces.size[k]
    local = directions @ R
    if pieces.kind[k] == POINTS:
        points = pieces.points[pieces.first[k] : pieces.first[k + 1]]
        found = points[(local @ points.T).argmax(axis=1)]
    elif pieces.kind[k] == BOX:
        found = np.where(local < 0.0, -1.0, 1.0) * (a, b, c)
    else:
        across = np.linalg.norm(local[:, :2], axis=1)
        rim = a * local / np.maximum(across, 1e-300)[:, None]
        rim[:, 2] = np.where(local[:, 2] < 0.0, -b, b)
        if pieces.kind[k] == CONE:
            top = local[:, 2] * 2.0 * b > across * a
            rim[:, 2] = -b
            rim = np.where(top[:, None], (0.0, 0.0, b), rim)
        found = rim
    return np.asarray(found @ R.T + t + radius * directions)


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

    def __init__(self, checker: CollisionChecker, *, beyond_spheres: bool = False) -> None:
        """Create the checks; data of recent robots and scenes is reused.

        Args:
            checker: robot, joints, scene, base pose and clearance.
            beyond_spheres: check only the pairs of bodies that its spheres do not check.
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
        pairs = checker.pairs_beyond_spheres if beyond_spheres else checker.pairs
        self._table, self._idle = robot_at(robot, joints, checker.bodies, pairs, X_WB)
        scene = Scene() if beyond_spheres else checker.scene
        self._world, self._objects = world_pieces(scene, checker.bodies)

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
        found, X = self._contacts(values)
        worst: dict[tuple[str, str], Contact] = {}
        seen: Counter[tuple[str, str]] = Counter()
        for one, two, key in found:
            names, kind, pieces = self._pair(X, one, two, key)
            seen[names] += 1
            if seen[names] > _MOST_OF_A_PAIR:
                continue
            depth, position, normal = overlap(pieces)
            depth += self._required(names)
            if names not in worst or depth > worst[names].depth:
                worst[names] = Contact(kind, names, depth, frozen(position), frozen(normal))
        return in_order([*contacts, *worst.values()])

    def touching(self, q: ArrayLike) -> set[tuple[str, str]]:
        """Return the pairs of the robot's bodies in contact, without depths, which take longer.

        Args:
            q: finite positions [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong number of positions.
        """
        found, _ = self._contacts(checked_configurations(q, self._joint_names, 1))
        pairs, bodies = self._table.pairs, self._bodies
        keys = {key for *_, key in found if key >= 0}
        return {(bodies[pairs[key, 0]].name, bodies[pairs[key, 1]].name) for key in keys}

    def _contacts(self, q: Array) -> tuple[list[list[int]], Array]:
        """Return the pieces in contact and the key of their pair, and the poses of all rows."""
        with self._memory() as memory:
            whole = self._whole(q[np.newaxis])
            _, out, found = memory.sweep(whole, np.zeros(1), most=_MOST_CONTACTS)
            return found[: int(out[3])].tolist(), memory.work.X.copy()

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
