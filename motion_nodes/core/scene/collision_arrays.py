# SPDX-License-Identifier: Apache-2.0
"""Robots and worlds as arrays for the collision kernels.

A robot's bodies are spheres in the frames of their rigid groups; the world consists of leaves in
the robot's base frame, in spatial order: the primitive pieces that spheres are tested against. Most
solids are one leaf, and the test is exact. A convex mesh consists of the triangles of its hull and
one leaf for its inside, and is exact as well. Any other mesh consists of its triangles and, if
closed, of boxes that fill its inside: spheres of at least ``FILLING`` of the mesh's size inside it
are always detected.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Joint, JointKind
from motion_nodes.core.scene.mesh_distance import Surface, surface_of
from motion_nodes.core.scene.robot_spheres import CollisionBody, rigid_links
from motion_nodes.core.scene.scene import AllowedCollisions, Part, Scene, WorldObject
from motion_nodes.core.scene.shapes import Solid, TriangleMesh, type_of
from motion_nodes.core.scene.triangle_surfaces import spatial_order
from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.kernels.collision.collision_binding import (
    CollisionCalls,
    TablePart,
    place_function,
)
from motion_nodes.kernels.collision.collision_memory import (
    ALIGNED_BOX,
    BOX,
    LEAF,
    PARAMETERS,
    PLANES,
    TRIANGLE,
)
from motion_nodes.kernels.kinematic_arrays import PRISMATIC, pack, reroot
from motion_nodes.tolerances import SINGLE_PRECISION
from motion_nodes.typing import Array

_Placed = tuple[Array, Array, NDArray[np.int32]]
FILLING = 1.0 / 16.0
"""Edge of the cells that fill a closed mesh, relative to its longest side. A sphere with a radius
of sqrt(3) cells cannot be inside without touching a box or the surface."""
_UNMOVED = np.eye(4).tolist()
_UNMOVED_ROW = np.eye(4).ravel().tolist()
_ZEROS = (0.0, 0.0, 0.0)
_NO_PLANES = np.empty((0, 4))
Fields = dict[str, int | NDArray[Any]]


class CheckedRobot(NamedTuple):
    """A robot, and how it is checked."""

    bodies: tuple[CollisionBody, ...]
    """Links and attached bodies."""
    pairs: tuple[tuple[int, int], ...]
    """Checked pairs of bodies."""
    positions: Array
    """Positions of all joints [rad or m]; only those of joints outside configurations are used."""
    steps: Array
    """Max joint steps on an edge [rad or m], shape (n,)."""
    clearance: float
    """Min allowed distance from the world [m]."""
    margin: float
    """Min allowed distance of pairs of bodies, and added to the clearance [m]."""


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

    def fields(self, robot: CheckedRobot) -> Fields:
        """Return the robot's fields of ``collision_memory``; bodies are in memory order."""
        bodies, pairs, positions, steps, clearance, margin = robot
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


_SIZE, _MIDDLE, _HALF = slice(1, 4), slice(4, 7), slice(7, 10)
_ROUNDING, _DISC, _POSE, _ROW = 10, 11, 12, 28


class Leaves(NamedTuple):
    """Leaves of an object, in the object's frame."""

    rows: Array
    """One row per leaf, so that those of several objects are joined at once, shape (k, 28)."""
    planes: Array
    """Planes of the leaves of that kind, shape (p, 4)."""

    @property
    def kind(self) -> Array:
        """Kind of each leaf, shape (k,)."""
        return self.rows[:, 0]

    @property
    def size(self) -> Array:
        """See ``collision_memory.PARAMETERS``, shape (k, 3)."""
        return self.rows[:, _SIZE]

    @property
    def middle(self) -> Array:
        """Centre of the bounding box of the leaf's core, in the leaf's frame [m], shape (k, 3)."""
        return self.rows[:, _MIDDLE]

    @property
    def half(self) -> Array:
        """Half edges of that box [m], shape (k, 3)."""
        return self.rows[:, _HALF]

    @property
    def rounding(self) -> Array:
        """Rounding radius of the leaf [m], shape (k,)."""
        return self.rows[:, _ROUNDING]

    @property
    def disc(self) -> Array:
        """Radius of the disc swept along z [m], shape (k,)."""
        return self.rows[:, _DISC]

    @property
    def X_OL(self) -> Array:
        """Pose of each leaf, shape (k, 4, 4)."""
        return self.rows[:, _POSE:].reshape(-1, 4, 4)


def leaves_of(parts: tuple[Part, ...]) -> Leaves:
    """Return the leaves of an object's parts."""
    return joined([_placed(_leaves_of(part.solid), part.X_OS) for part in parts])


def joined(all_leaves: Sequence[Leaves]) -> Leaves:
    """Return the leaves of several parts as one; planes keep their positions."""
    if len(all_leaves) == 1:
        return all_leaves[0]
    rows = np.concatenate([leaves.rows for leaves in all_leaves])
    if not any(len(leaves.planes) for leaves in all_leaves):
        return Leaves(rows, _NO_PLANES)
    first = np.cumsum([0, *(len(leaves.planes) for leaves in all_leaves)])
    shift = np.repeat(first[:-1], [len(leaves.rows) for leaves in all_leaves])
    faces = rows[:, 0] == PLANES
    rows[faces, 1] += shift[faces]
    return Leaves(rows, np.concatenate([leaves.planes for leaves in all_leaves]))


def _placed(leaves: Leaves, X: Array) -> Leaves:
    if X.tolist() == _UNMOVED:
        return leaves
    planes, rows = leaves.planes.copy(), leaves.rows.copy()
    if len(planes):
        planes[:, :3] = planes[:, :3] @ X[:3, :3].T
        planes[:, 3] += planes[:, :3] @ X[:3, 3]
    rows[:, _POSE:] = (X @ leaves.X_OL).reshape(-1, 16)
    return Leaves(rows, planes)


_known: weakref.WeakKeyDictionary[Solid, Leaves] = weakref.WeakKeyDictionary()


def _leaves_of(solid: Solid) -> Leaves:
    if not isinstance(solid, TriangleMesh | Voxels):
        return _one(solid)
    known = _known.get(solid)
    if known is None:
        made = _mesh(solid) if isinstance(solid, TriangleMesh) else _boxes(solid.boxes)
        known = _known[solid] = made
    return known


def _boxes(boxes: Array) -> Leaves:
    """Return boxes as leaves; min and max corners [m], shape (b, 2, 3)."""
    X = np.tile(np.eye(4), (len(boxes), 1, 1))
    X[:, :3, 3] = 0.5 * (boxes[:, 0] + boxes[:, 1])
    half = 0.5 * (boxes[:, 1] - boxes[:, 0])
    return _leaves(BOX, X, half, half=half)


def _one(solid: Solid) -> Leaves:
    known = type_of(solid)
    rounding = known.rounding(solid) if known.bounded else math.inf
    row = [known.kind, *known.padded_sizes(solid), *_ZEROS, *known.half(solid), rounding]
    return Leaves(np.array([[*row, known.disc(solid), *_UNMOVED_ROW]]), _NO_PLANES)


def _leaves(
    kind: float,
    X: Array,
    size: Array,
    *,
    half: Array,
    middle: ArrayLike = 0.0,
    planes: Array = _NO_PLANES,
) -> Leaves:
    rows = np.zeros((len(X), _ROW))
    rows[:, 0], rows[:, _SIZE], rows[:, _MIDDLE], rows[:, _HALF] = kind, size, middle, half
    rows[:, _POSE:] = X.reshape(-1, 16)
    return Leaves(rows, planes)


def _mesh(mesh: TriangleMesh) -> Leaves:
    surface = surface_of(mesh)
    pieces = [_triangles(surface.corners)]
    if surface.planes is not None:
        low, high = surface.corners.min(axis=(0, 1)), surface.corners.max(axis=(0, 1))
        size = np.array([[0.0, len(surface.planes), 0.0]])
        middle, half = 0.5 * (low + high)[None], 0.5 * (high - low)[None]
        inside = _leaves(
            PLANES, np.eye(4)[None], size, half=half, middle=middle, planes=surface.planes
        )
        pieces.append(inside)
    else:
        boxes = filling_boxes(surface)
        if len(boxes):
            pieces.append(_boxes(boxes))
    return joined(pieces)


def _triangles(corners: Array) -> Leaves:
    """Return each triangle in its own frame: x along its first edge, z along its normal."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    normal = np.cross(b - a, c - a)
    x, z = b - a, normal
    x, z = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, z))
    y = np.cross(z, x)
    X = np.tile(np.eye(4), (len(corners), 1, 1))
    X[:, :3, 0], X[:, :3, 1], X[:, :3, 2], X[:, :3, 3] = x, y, z, a
    along, across = (np.einsum("ti,ti->t", c - a, v) for v in (x, y))
    size = np.column_stack((np.linalg.norm(b - a, axis=1), along, across))
    low = np.minimum(0.0, along)
    high = np.maximum(size[:, 0], along)
    zero = np.zeros(len(corners))
    middle = np.column_stack((0.5 * (low + high), 0.5 * across, zero))
    half = np.column_stack((0.5 * (high - low), 0.5 * across, zero))
    return _leaves(TRIANGLE, X, size, half=half, middle=middle)


def filling_boxes(surface: Surface) -> Array:
    """Return boxes inside a closed surface, merged from cells whose centres are inside.

    Returns:
        Min and max corner [m], shape (b, 2, 3); none for a surface that is not closed.
    """
    if not surface.closed:
        return np.empty((0, 2, 3))
    low, high = surface.corners.min(axis=(0, 1)), surface.corners.max(axis=(0, 1))
    edge = FILLING * float((high - low).max())
    counts = np.maximum(1, np.ceil((high - low) / edge)).astype(int)
    size = (high - low) / counts
    axes = [low[k] + (np.arange(counts[k]) + 0.5) * size[k] for k in range(3)]
    # Only cells that the surface does not cross; others would exceed the solid.
    crossed = surface.near_grid(*axes, distance=0.5 * float(np.linalg.norm(size)))
    cells = surface.inside_grid(*axes) & ~crossed
    boxes = []
    for i, j in np.argwhere(cells.any(axis=2)):
        steps = np.flatnonzero(np.diff(np.concatenate(([0], cells[i, j].astype(int), [0]))))
        for first, last in steps.reshape(-1, 2):
            corner = low + np.array([i, j, first]) * size
            boxes.append((corner, low + np.array([i + 1, j + 1, last]) * size))
    return np.array(boxes).reshape(-1, 2, 3)


Known = dict[int, tuple[tuple[Part, ...], Leaves]]


@dataclass(frozen=True, eq=False)
class PackedWorld:
    """The part of a world within a robot's reach; the fields of ``collision_memory`` by name."""

    part: TablePart
    objects: tuple[WorldObject, ...]
    """The enabled objects, in the order of the rows of ``checked``."""
    known: Known
    """Cached leaves of the objects' parts."""


def pack_world(
    scene: Scene,
    bodies: tuple[CollisionBody, ...],
    X_BW: Array,
    reach: float,
    lanes: int,
    known: Known,
) -> PackedWorld:
    """Return the arrays of a world for the kernels.

    Args:
        scene: the world.
        bodies: bodies of the robot, in memory order: from the last to the first.
        X_BW: pose of the world in the robot's base, shape (4, 4).
        reach: max distance of the robot from its base, including the clearance [m].
        lanes: number of leaves per SIMD register.
        known: cached leaves, by id of the parts.
    """
    objects, checked = checked_objects(scene, bodies[::-1])
    used: Known = {}
    for item in objects:
        key = id(item.parts)
        used[key] = known.get(key) or (item.parts, leaves_of(item.parts))
    fields: Fields = {"checked": np.ascontiguousarray(checked[:, ::-1])}
    fields.update(
        _pack_leaves([used[id(o.parts)][1] for o in objects], objects, X_BW, reach, lanes)
    )
    return PackedWorld(TablePart(fields), objects, used)


@functools.lru_cache(maxsize=4)
def checked_objects(
    scene: Scene, bodies: tuple[CollisionBody, ...]
) -> tuple[tuple[WorldObject, ...], NDArray[np.int8]]:
    """Return the enabled objects, and which of them and bodies are checked; once per scene.

    Args:
        scene: the world.
        bodies: of the robot, in the order of the checker.
    """
    objects = tuple(item for item in scene.objects.values() if item.enabled)
    return objects, checked_matrix(scene.allowed, objects, bodies)


def checked_matrix(
    allowed: AllowedCollisions, objects: tuple[WorldObject, ...], bodies: tuple[CollisionBody, ...]
) -> NDArray[np.int8]:
    """Return which objects and bodies are checked, shape (objects, bodies)."""
    checked = np.empty((len(objects), len(bodies)), np.int8)
    checked[:] = [body.in_world for body in bodies]
    if not (allowed.defaults or allowed.pairs):
        return checked
    rows, columns = _places(item.name for item in objects), _places(body.name for body in bodies)
    for name in allowed.defaults:
        pairs = [(name, other) for other in columns] if name in rows else []
        pairs += [(other, name) for other in rows] if name in columns else []
        for a, b in pairs:
            checked[np.ix_(rows[a], columns[b])] = not allowed.allows(a, b)
    for pair, allows in allowed.pairs.items():
        for a, b in (pair, pair[::-1]):
            if a in rows and b in columns:
                checked[np.ix_(rows[a], columns[b])] = not allows
    checked[:, [not body.in_world for body in bodies]] = 0
    return checked


def _places(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the indices of each name."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        places.setdefault(name, []).append(i)
    return places


def _pack_leaves(
    per_object: list[Leaves],
    objects: tuple[WorldObject, ...],
    X_BW: Array,
    reach: float,
    lanes: int,
) -> Fields:
    if not per_object:
        return _in_blocks(np.empty((0, LEAF), np.float32), np.empty((0, 2, 3)), lanes) | {
            "planes": np.empty((0, 4), np.float32)
        }
    counts = [len(leaves.rows) for leaves in per_object]
    owner = np.repeat(np.arange(len(objects)), counts)
    X_BO = X_BW @ np.array([item.X_WO for item in objects])
    planes = _planes_in_base(per_object, X_BO)
    leaves = joined(per_object)
    X = X_BO[owner] @ leaves.X_OL
    boxes = _bounds(leaves, X)
    beside = np.maximum(np.maximum(boxes[:, 0], -boxes[:, 1]), 0.0)
    kept = np.flatnonzero((beside * beside).sum(axis=1) <= reach * reach)
    boxes = boxes[kept]
    order = spatial_order(boxes)
    rows = _rows(leaves, X, owner)
    return _in_blocks(rows[kept[order]], boxes[order], lanes) | {"planes": planes}


def _planes_in_base(per_object: list[Leaves], X_BO: Array) -> NDArray[np.float32]:
    moved = [_NO_PLANES]
    for leaves, X in zip(per_object, X_BO, strict=True):
        if len(leaves.planes):
            normals = leaves.planes[:, :3] @ X[:3, :3].T
            moved.append(np.column_stack((normals, leaves.planes[:, 3] + normals @ X[:3, 3])))
    return np.concatenate(moved).astype(np.float32)


def _bounds(leaves: Leaves, X: Array) -> Array:
    """Return min and max corner of each leaf in the base [m], shape (k, 2, 3)."""
    R = X[:, :3, :3]
    boxes = np.empty((len(X), 2, 3))
    middle = X[:, :3, 3] + _turned(R, leaves.middle)
    # A disc with normal z reaches r sqrt(1 - z_i^2) along axis i.
    disc = leaves.disc[:, None] * np.sqrt(np.maximum(0.0, 1.0 - R[:, :, 2] ** 2))
    half = _turned(np.abs(R), leaves.half) + disc + (leaves.rounding[:, None] + SINGLE_PRECISION)
    boxes[:, 0], boxes[:, 1] = middle - half, middle + half
    return boxes


def _turned(R: Array, x: Array) -> Array:
    """Return vectors, shape (k, 3), multiplied by matrices, shape (k, 3, 3)."""
    return np.asarray((R @ x[:, :, None])[:, :, 0])


def _rows(leaves: Leaves, X: Array, owner: NDArray[np.intp]) -> NDArray[np.float32]:
    kind, size, R = leaves.kind.astype(np.int32), leaves.size, X[:, :3, :3]
    # Each row of a rotation by multiples of 90 degrees has one entry of +-1.
    straight = (np.abs(R).max(axis=2) > 1.0 - 1e-12).all(axis=1) & (kind == BOX)
    kind[straight] = ALIGNED_BOX
    inverse = R.transpose(0, 2, 1).copy()
    inverse[straight | (kind == 0)] = np.eye(3)
    rows = np.zeros((len(kind), LEAF), np.float32)
    whole, numbers = rows.view(np.int32), rows[:, 4:]
    whole[:, 0], whole[:, 1] = kind, owner
    numbers[:, :9] = inverse.reshape(-1, 9)
    numbers[:, 9:12] = -_turned(inverse, X[:, :3, 3])
    at = PARAMETERS["size"]
    numbers[:, at : at + 3] = np.where(straight[:, None], _turned(np.abs(R), size), size)
    numbers[:, at + 3] = leaves.rounding
    faces = kind == PLANES
    if faces.any():
        whole[faces, 4 + at : 4 + at + 2] = size[faces, :2].astype(np.int32)
    return rows


def _in_blocks(rows: NDArray[np.float32], boxes: Array, lanes: int) -> Fields:
    """Return leaves in blocks of ``lanes`` (one register), and blocks in branches of ``lanes``."""
    branches = -(-len(rows) // (lanes * lanes))
    blocks = branches * lanes
    leaves = np.zeros((blocks * lanes, LEAF), np.float32)
    leaves[: len(rows)] = rows
    # An inverted box overlaps nothing.
    rows_of_boxes = np.empty((blocks * lanes, 2, 3))
    rows_of_boxes[:, 0], rows_of_boxes[:, 1] = np.inf, -np.inf
    rows_of_boxes[: len(boxes)] = boxes
    padded = rows_of_boxes.reshape(blocks, lanes, 2, 3)
    around = np.empty((blocks, 2, 3))
    padded[:, :, 0].min(axis=1, out=around[:, 0])
    padded[:, :, 1].max(axis=1, out=around[:, 1])
    return {
        "leaf_count": len(rows),
        "branches": branches,
        "branch_boxes": _lanes_last(around.reshape(branches, lanes, 2, 3)),
        "block_boxes": _lanes_last(padded),
        "leaves": leaves,
    }


def _lanes_last(boxes: Array) -> NDArray[np.float32]:
    return np.ascontiguousarray(boxes.transpose(0, 2, 3, 1), np.float32)
