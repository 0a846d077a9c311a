# SPDX-License-Identifier: Apache-2.0
"""How far every part of a robot is from touching, along a path; plain NumPy over many at once.

Distances come from the scene itself, not from the planners' packed memory. Each body has a column
for the world and each pair of bodies one of its own, so that it can be told of each how far it may
go until it may touch.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.poses import inverse
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, Box
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.edge_steps import joint_steps
from motion_nodes.scene.robot_spheres import Body, checked_pairs
from motion_nodes.scene.scene import Scene
from motion_nodes.scene.shapes import HalfSpace, Solid, bounding_radius
from motion_nodes.scene.signed_distance import signed_distance

EXACT = 0.1
"""Distances up to this are exact [m]; of greater ones a lower bound is good enough."""
_BLOCK = 256
"""Configurations at once; more would need more memory than caches hold."""
_AT_ONCE = 64
"""Objects at once, for the same reason."""
_MORE = 1.1
"""The reach of a joint is found by sampling; so much more is reckoned with."""


class PathMargins:
    """Distances of one checker's robot, in its scene as it is now."""

    travel: Array
    """How far each joint moves what a column is about, at most, shape (n, c) [m per rad or m]."""

    def __init__(self, checker: CollisionChecker) -> None:
        """Prepare.

        Args:
            checker: whose robot, scene and clearance count.
        """
        self._checker, robot = checker, checker.robot
        self._kinematics = Kinematics(robot.tree, base=robot.base_frame)
        rows = {name: i for i, name in enumerate(self._kinematics.frame_names)}
        bodies = checker.bodies
        sizes = [len(body.spheres) for body in bodies]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self._body = np.repeat(np.arange(len(bodies)), sizes)
        self._rows = np.array([rows[body.link] for body in bodies], np.intp)
        spheres = np.concatenate([b.spheres for b in bodies] or [np.empty((0, 4))])
        self._centres, self._radii = spheres[:, :3], spheres[:, 3]
        self._bounds = np.array([b.bounding_sphere for b in bodies]).reshape(-1, 4)
        self._columns = robot.indices(checker.joint_names)
        around = _around(robot, bodies, checker.scene, checker.joint_names)
        self._pairs, self._boxes, self.travel = around.pairs, around.boxes, around.travel

    def margins(self, Q: Array) -> Array:
        """Return how far each column is from touching, shape (m, c) [m]; see ``EXACT``."""
        pieces = [self._margins(Q[i : i + _BLOCK]) for i in range(0, len(Q), _BLOCK)]
        return np.concatenate(pieces) if pieces else np.empty((0, self.travel.shape[1]))

    def _margins(self, Q: Array) -> Array:
        if not len(self._rows):
            return np.full((len(Q), 1), np.inf)
        full = np.tile(self._checker.positions, (len(Q), 1))
        full[:, self._columns] = Q
        frames = self._checker.base_pose @ self._kinematics.frames_batch(full)[:, self._rows]
        X = frames[:, self._body]
        places = np.einsum("msij,sj->msi", X[:, :, :3, :3], self._centres) + X[:, :, :3, 3]
        bounds = np.einsum("mbij,bj->mbi", frames[:, :, :3, :3], self._bounds[:, :3])
        bounds += frames[:, :, :3, 3]
        world, apart = self._to_world(places, bounds), self._between(places, bounds)
        return np.concatenate([world, apart], axis=1) - self._checker.clearance

    def _to_world(self, places: Array, bounds: Array) -> Array:
        """Return how far each body is from all objects, shape (m, b)."""
        least = np.full(bounds.shape[:2], np.inf)
        if not self._boxes:
            return least
        groups = np.stack([boxes.gap(bounds) for boxes in self._boxes]) - self._bounds[:, 3]
        for number in np.argsort(groups.min(axis=(1, 2))):
            if (groups[number] >= least).all():
                continue  # nothing in there is as near as what is known already
            boxes = self._boxes[number]
            away = boxes.away(bounds) - self._bounds[:, 3]
            away[np.broadcast_to(~boxes.counted[:, np.newaxis], away.shape)] = np.inf
            near = away < EXACT
            least = np.minimum(least, np.where(near, np.inf, away).min(axis=0))
            some = np.flatnonzero(near.any(axis=(1, 2)))
            for k in some[np.argsort(away[some].min(axis=(1, 2)))]:
                asked = near[k] & (away[k] < least)
                if not asked.any():
                    continue
                solid, X_SW, _ = boxes.parts[k]
                spheres = asked[:, self._body]
                local = places[spheres] @ X_SW[:3, :3].T + X_SW[:3, 3]
                gaps = np.full(spheres.shape, np.inf)
                gaps[spheres] = signed_distance(solid, local)[0]
                exact = np.minimum.reduceat(gaps - self._radii, self._starts[:-1], axis=1)
                least = np.where(asked, np.minimum(least, exact), least)
        return least

    def _between(self, places: Array, bounds: Array) -> Array:
        """Return how far the bodies of each pair are from each other, shape (m, p)."""
        first, second = self._pairs.T
        away = bounds[:, first] - bounds[:, second]
        apart: Array = np.sqrt(np.einsum("mpi,mpi->mp", away, away))
        apart -= self._bounds[first, 3] + self._bounds[second, 3]
        close = apart < EXACT
        for k in np.flatnonzero(close.any(axis=0)):
            near, (i, j) = np.flatnonzero(close[:, k]), self._pairs[k]
            a = slice(self._starts[i], self._starts[i + 1])
            b = slice(self._starts[j], self._starts[j + 1])
            offsets = places[near, a, np.newaxis] - places[near, np.newaxis, b]
            gaps = np.sqrt(np.einsum("mijk,mijk->mij", offsets, offsets))
            gaps -= self._radii[a, np.newaxis] + self._radii[np.newaxis, b]
            apart[near, k] = gaps.min(axis=(1, 2))
        return apart


class _Around(NamedTuple):
    """What does not depend on where the robot is."""

    pairs: NDArray[np.intp]
    """Bodies that must not touch each other, shape (p, 2)."""
    boxes: list[_Boxes]
    """The scene."""
    travel: Array
    """See :class:`PathMargins`."""


@functools.lru_cache(maxsize=4)
def _around(
    robot: Robot, bodies: tuple[Body, ...], scene: Scene, joints: tuple[str, ...]
) -> _Around:
    """Return what paths of a robot are compared with; a node asks for the same many times."""
    pairs = checked_pairs(robot, bodies, scene.allowed)
    parts = [
        (part.solid, inverse(item.X_WO @ part.X_OS), counted)
        for item in scene.objects.values()
        if item.enabled
        for counted in [np.array([not scene.allowed.allows(b.name, item.name) for b in bodies])]
        for part in item.parts
    ]
    reach = [_reach(robot, body, joints) for body in bodies]
    single = _single(robot, joints)
    columns = [*reach, *(_apart(reach[i], reach[j], single) for i, j in pairs)]
    return _Around(
        np.array(pairs, np.intp).reshape(-1, 2),
        [_Boxes([parts[k] for k in group]) for group in _groups(parts)],
        np.stack(columns or [np.zeros(len(joints))], axis=1),
    )


def _groups(parts: list[tuple[Solid, Array, NDArray[np.bool_]]]) -> list[NDArray[np.intp]]:
    """Return which parts of a scene are near to each other, by halving the widest extent."""
    if not parts:
        return []
    X_SW = np.stack([X for _, X, _ in parts])
    places = -np.einsum("kji,kj->ki", X_SW[:, :3, :3], X_SW[:, :3, 3])
    groups, left = [], [np.arange(len(parts))]
    while left:
        group = left.pop()
        if len(group) <= _AT_ONCE:
            groups.append(group)
            continue
        axis = int(np.argmax(np.ptp(places[group], axis=0)))
        ordered = group[np.argsort(places[group, axis], kind="stable")]
        left += [ordered[: len(group) // 2], ordered[len(group) // 2 :]]
    return groups


class _Boxes:
    """Some parts of the scene, each in a box that may be rounded, for distances of many at once."""

    def __init__(self, parts: list[tuple[Solid, Array, NDArray[np.bool_]]]) -> None:
        """Keep solids, their frames' inverse poses, and which bodies must not touch them."""
        self.parts = parts
        self.counted = np.stack([counted for *_, counted in parts])
        X = np.stack([X_SW for _, X_SW, _ in parts])
        centres = -np.einsum("kji,kj->ki", X[:, :3, :3], X[:, :3, 3])
        radii = np.array([bounding_radius(solid) for solid, *_ in parts])[:, np.newaxis]
        self._low, self._high = (centres - radii).min(axis=0), (centres + radii).max(axis=0)
        shapes = [_box_around(solid) for solid, *_ in parts]
        # The axis comes first, so that all is done along long rows: (3, parts, points).
        self._R = X[:, :3, :3].transpose(1, 0, 2).reshape(-1, 3)
        self._t = X[:, :3, 3].T[:, :, np.newaxis]
        self._half = np.array([half for half, _ in shapes]).T[:, :, np.newaxis]
        self._radius = np.array([radius for _, radius in shapes])[:, np.newaxis]

    def gap(self, points: Array) -> Array:
        """Return how far points (m, b, 3) are from the box around all parts, shape (m, b)."""
        beyond = np.maximum(np.maximum(self._low - points, points - self._high), 0.0)
        return np.asarray(np.sqrt(np.einsum("mbi,mbi->mb", beyond, beyond)))

    def away(self, points: Array) -> Array:
        """Return distances that are not too great; points (m, b, 3), result (parts, m, b)."""
        local = (self._R @ points.reshape(-1, 3).T).reshape(3, len(self.parts), -1)
        beyond = np.abs(local + self._t) - self._half
        outside = np.sqrt((np.maximum(beyond, 0.0) ** 2).sum(axis=0))
        away = outside + np.minimum(beyond.max(axis=0), 0.0) - self._radius
        return np.asarray(away.reshape(len(self.parts), *points.shape[:2]))


def _box_around(solid: Solid) -> tuple[tuple[float, float, float], float]:
    """Return half edges of a box around a solid, or in it, and how far beyond the solid reaches."""
    if isinstance(solid, HalfSpace):
        return (np.inf, np.inf, np.inf), 0.0  # so that it is always near
    if isinstance(solid, Box):
        x, y, z = solid.size
        return (0.5 * x, 0.5 * y, 0.5 * z), 0.0
    return (0.0, 0.0, 0.0), bounding_radius(solid)


@functools.lru_cache(maxsize=256)
def _reach(robot: Robot, body: Body, joints: tuple[str, ...]) -> Array:
    """Return how far each joint moves any sphere of a body, shape (n,) [m per rad or m]."""
    unit = 1e-3
    steps = joint_steps(robot, (body,), joints, unit)
    return np.where(steps < np.pi, _MORE * unit / steps, 0.0)


def _single(robot: Robot, joints: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which joints no other joint mimics, shape (n,)."""
    led = {joint.mimic.joint for joint in robot.tree.joints.values() if joint.mimic is not None}
    return np.array([name not in led for name in joints])


def _apart(a: Array, b: Array, single: NDArray[np.bool_]) -> Array:
    """Return how far each joint moves two bodies against each other.

    What moves both moves them as one, unless other joints mimic it.
    """
    return np.where(single & (a > 0.0) & (b > 0.0), 0.0, a + b)
