# SPDX-License-Identifier: Apache-2.0
"""A scene, a robot and its settings as arrays for RMPflow's code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.rmpflow_settings import BodyCapsule, RmpflowSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.robot_spheres import cover, link_bodies
from motion_nodes.core.scene.scene import Part
from motion_nodes.core.scene.shapes import Capsule, HalfSpace, Solid, TriangleMesh, type_of
from motion_nodes.core.scene.voxels import Voxels
from motion_nodes.errors import InvalidConfig, UnknownFrame
from motion_nodes.kernels.collision.collision_memory import added_digest
from motion_nodes.kernels.kinematic_arrays import PackedArrays, pack, reroot
from motion_nodes.kernels.rmp.rmp_leaves import LEAVES, coefficients, leaf_digest
from motion_nodes.kernels.rmp.rmp_memory import OBSTACLE, ObstacleArrays, RmpModel, obstacle_shapes
from motion_nodes.typing import Array

_LARGE = 10.0
"""Radius from which on a ball is packed as a box without size [m]."""
_VAST = 1e3  # half size of the box that replaces a half space [m]
_STILL = np.zeros(6)
_MAX_BOXES = 500
"""Max number of boxes of a voxel map; a step takes some 0.5 us for each."""


@dataclass(frozen=True, eq=False)
class RobotSpheres:
    """Spheres of a robot that are moved by the active joints."""

    links: tuple[str, ...]
    """Link of each sphere."""
    centres: Array
    """In the frame of the link [m], shape (s, 3)."""
    radii: Array
    """Radii [m], shape (s,)."""


def rmp_model(
    robot: Robot, active: Sequence[str], tool: str, settings: RmpflowSettings
) -> tuple[RmpModel, RobotSpheres]:
    """Return the model that the code of a robot is generated for.

    Args:
        robot: the robot.
        active: active joints.
        tool: frame of the tool.
        settings: parameters.

    Raises:
        UnknownFrame: the robot does not have the tool or a controller's frame.
    """
    watched = [name for name in robot.joint_names if name not in active]
    arrays = pack(robot.tree.packed, [*active, *watched], {})
    row_of = {name: row for row, name in enumerate(robot.tree.frame_names)}
    base = row_of[robot.base_frame]
    if base != 0:
        arrays = reroot(arrays, base)
    for name in (tool, *(item.name for item in settings.body_collision_controllers)):
        if name not in row_of:
            raise UnknownFrame(name, robot.tree.frame_names, robot.name)
    rows = {name: arrays.frame_rows[row] for name, row in row_of.items()}
    guards = tuple(rows[item.name] for item in settings.body_collision_controllers)
    moved = _moved_rows(arrays, len(active))
    bodies = [body for body in link_bodies(robot) if moved[rows[body.link]]]
    links = tuple(body.link for body in bodies for _ in body.spheres)
    numbers = np.concatenate([np.empty((0, 4)), *(body.spheres for body in bodies)])
    spheres = RobotSpheres(links, numbers[:, :3].copy(), numbers[:, 3].copy())
    sphere_rows = tuple(rows[link] for link in links)
    return (
        RmpModel(
            *(arrays, len(active), rows[tool], sphere_rows, spheres.centres, guards),
            leaves=tuple(LEAVES),
            parameters=tuple(coefficients(settings)),
            formulas=leaf_digest(settings) + added_digest(),
        ),
        spheres,
    )


def _moved_rows(arrays: PackedArrays, active: int) -> list[bool]:
    """Return for each row whether an active joint moves it."""
    moved: list[bool] = []
    for row, parent in enumerate(arrays.parent):
        own = 0 <= arrays.q_index[row] < active
        moved.append(own or (parent >= 0 and moved[parent]))
    return moved


def parameter_numbers(model: RmpModel, settings: RmpflowSettings) -> Array:
    """Return the coefficients of the code [SI, m, s], in memory order, shape (k,)."""
    values = coefficients(settings)
    return np.array([values[name] for name in model.parameters])


def buffered_limits(
    lower: Array, upper: Array, settings: RmpflowSettings, names: Sequence[str]
) -> tuple[Array, Array]:
    """Return the position limits of the active joints reduced by their buffers.

    A joint without limits gets a range of a thousand turns, in which no limit is active.

    Args:
        lower: lower limits [rad or m], shape (n,).
        upper: upper limits [rad or m], shape (n,).
        settings: with ``joint_limit_buffers``.
        names: names of the joints, for errors.

    Raises:
        InvalidConfig: wrong number of buffers, or buffers that leave no range.
    """
    buffers = np.array(settings.joint_limit_buffers)
    if len(buffers) not in (1, len(names)):
        raise InvalidConfig(
            f"joint_limit_buffers has {len(buffers)} numbers; {len(names)} joints are active: "
            f"{', '.join(names)}.",
            field="joint_limit_buffers",
        )
    endless = 1e3 * 2.0 * math.pi
    low = np.where(np.isfinite(lower), lower + buffers, -endless)
    high = np.where(np.isfinite(upper), upper - buffers, endless)
    for name, a, b in zip(names, low, high, strict=True):
        if not a < b:
            raise InvalidConfig(
                f"joint_limit_buffers leave no range for {name}: {a:.4g} to {b:.4g}."
            )
    return low, high


def pack_parts(parts: Iterable[Part]) -> ObstacleArrays:
    """Return the shapes of an object in its own frame, at rest."""
    rows: dict[str, list[Array]] = {name: [] for name in obstacle_shapes()}
    for part in parts:
        for name, row in _rows(part.solid, part.X_OS):
            rows[name].append(row)
    return ObstacleArrays(
        {name: np.array(found).reshape(-1, OBSTACLE) for name, found in rows.items()}
    )


def placed(rows: Array, X_BO: Array, twists: Array) -> Array:
    """Return packed shapes at the poses and with the twists of their objects.

    Args:
        rows: shapes in the frames of their objects, from :func:`pack_parts`, shape (k, OBSTACLE).
        X_BO: pose of each row's object, shape (k, 4, 4).
        twists: in the axes of the frame B, velocity of each object's origin [m/s] and its angular
            velocity [rad/s], shape (k, 6).
    """
    moved = rows.copy()
    R, turns = X_BO[:, :3, :3], twists[:, 3:]
    arms = np.einsum("kij,kj->ki", R, rows[:, 9:12])
    moved[:, :9] = (R @ rows[:, :9].reshape(-1, 3, 3)).reshape(-1, 9)
    moved[:, 9:12] = arms + X_BO[:, :3, 3]
    moved[:, -6:-3] = twists[:, :3] + np.cross(turns, arms)
    moved[:, -3:] = turns
    return moved


def _rows(solid: Solid, X: Array) -> list[tuple[str, Array]]:
    """Return the rows of one shape, each with the name of its formula."""
    if isinstance(solid, Sphere):
        # Distances of balls are in float32, too coarse for large ones: those are rounded points.
        name = "sphere" if solid.radius < _LARGE else "box"
        return [(name, _row(X, (0.0, 0.0, 0.0), solid.radius))]
    if isinstance(solid, Capsule):
        return [("box", _row(X, (0.0, 0.0, 0.5 * solid.length), solid.radius))]
    if isinstance(solid, HalfSpace):
        deep = X.copy()
        deep[:3, 3] -= _VAST * X[:3, 2]
        return [("box", _row(deep, (_VAST, _VAST, _VAST), 0.0))]
    if isinstance(solid, TriangleMesh):
        spheres = cover(solid).spheres
        centres = spheres[:, :3] @ X[:3, :3].T + X[:3, 3]
        places = [np.column_stack((X[:3, :3], centre)) for centre in centres]
        radii = spheres[:, 3]
        return [("sphere", _row(P, (0.0, 0.0, 0.0), r)) for P, r in zip(places, radii, strict=True)]
    if isinstance(solid, Voxels):
        return [("box", row) for row in _box_rows(_few_boxes(solid), X)]
    known = type_of(solid)
    return [(known.shape.name, _row(X, known.padded_sizes(solid), known.rounding(solid)))]


def _few_boxes(solid: Voxels) -> Array:
    """Return the boxes of voxels, at a coarser resolution if there are too many."""
    factor, boxes = 1, solid.boxes
    while len(boxes) > _MAX_BOXES:
        factor += 1
        boxes = solid.coarser(factor).boxes
    return boxes


def _box_rows(boxes: Array, X: Array) -> Array:
    """Return rows of boxes in a frame with the pose X; corners [m], shape (b, 2, 3)."""
    rows = np.zeros((len(boxes), OBSTACLE))
    rows[:, :9] = X[:3, :3].ravel()
    rows[:, 9:12] = boxes.mean(axis=1) @ X[:3, :3].T + X[:3, 3]
    rows[:, 12:15] = 0.5 * (boxes[:, 1] - boxes[:, 0])
    return rows


def _row(X: Array, sizes: ArrayLike, rounding: float) -> Array:
    return np.concatenate((X[:3, :3].ravel(), X[:3, 3], np.ravel(sizes), [rounding], _STILL))


def pack_capsules(capsules: Iterable[BodyCapsule]) -> Array:
    """Return the body capsules as boxes of the code, shape (c, OBSTACLE)."""
    rows = []
    for item in capsules:
        a, b = np.array(item.pt1), np.array(item.pt2)
        length = float(np.linalg.norm(b - a))
        X = np.eye(4)
        X[:3, 3] = 0.5 * (a + b)
        if length > 0.0:
            z = (b - a) / length
            x = np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
            x /= np.linalg.norm(x)
            X[:3, :3] = np.column_stack((x, np.cross(z, x), z))
        rows.append(_row(X, (0.0, 0.0, 0.5 * length), item.radius))
    return np.array(rows).reshape(-1, OBSTACLE)
