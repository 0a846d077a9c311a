# SPDX-License-Identifier: Apache-2.0
"""Robots and worlds as convex pieces, for the exact collision checks."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from functools import partial

import numpy as np

from motion_nodes.kernels.collision.piece_arrays import (
    BLOCK,
    PieceBodies,
    Pieces,
    PieceWorld,
)
from motion_nodes.kernels.kinematic_arrays import PackedArrays, pack, reroot
from motion_nodes.kernels.shared_work import in_turns
from motion_nodes.model.robot import Robot
from motion_nodes.scene.collision_world_arrays import checked_matrix
from motion_nodes.scene.convex_decomposition import convex_parts
from motion_nodes.scene.convex_pieces import (
    boxes_around,
    chosen,
    joined,
    padded,
    pieces_of,
    placed,
    shrunk,
    sphere_pieces,
)
from motion_nodes.scene.exact_sweep import SweepMemory
from motion_nodes.scene.link_margins import scaled
from motion_nodes.scene.robot_spheres import CollisionBody, link_parts
from motion_nodes.scene.scene import Part, Scene, WorldObject
from motion_nodes.scene.shapes import TriangleMesh
from motion_nodes.scene.spatial_order import spatial_order
from motion_nodes.typing import Array

ROUNDING = 5e-5
"""Penetration below which a pair is not in collision [m]: resting contacts."""
SELF_CLEARANCE = 2e-4
"""Min distance between links [m], a margin for path tracking errors; 0 for attached bodies and for
pairs that are closer than this in a named state."""
_MOST_CONTACTS = 256
"""Max number of reported pairs of pieces in a named state."""


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
        _, out, contacts = memory.sweep(q, np.zeros(1), most=_MOST_CONTACTS)
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
def world_pieces(
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
