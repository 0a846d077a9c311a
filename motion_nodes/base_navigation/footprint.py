# SPDX-License-Identifier: Apache-2.0
"""Footprint of a base: a convex polygon on the floor, and distances of points from it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.poses import inverse, rotation_about
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, Box, Cylinder, Joint, JointKind, Sphere, frozen
from motion_nodes.scene.robot_spheres import link_parts
from motion_nodes.scene.shapes import Solid, TriangleMesh

MOST_CORNERS = 16
"""Max number of corners; a rounder outline is replaced by a polygon that contains it."""
_CIRCLE = 16
"""Corners of the polygon around a circle."""


AROUND_FRAMES = 0.1
"""Half the edge of the square around each link's frame without collision geometry [m]."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """A convex polygon in the base frame, and the heights of the body above it."""

    corners: Array
    """Counter-clockwise [m], shape (k, 2), read-only."""
    floor: float = 0.0
    """Height of the floor in the base frame [m]."""
    top: float = math.inf
    """Height of the body's highest point in the base frame [m]."""

    @functools.cached_property
    def radius(self) -> float:
        """Radius of the circle about the base frame that contains the polygon [m]."""
        return float(np.hypot(*self.corners.T).max())

    @functools.cached_property
    def edges(self) -> Array:
        """From each corner to the next [m], shape (k, 2)."""
        return np.asarray(np.roll(self.corners, -1, axis=0) - self.corners)

    @functools.cached_property
    def lengths(self) -> Array:
        """Of the edges [m], shape (k,)."""
        return np.hypot(self.edges[:, 0], self.edges[:, 1])

    @functools.cached_property
    def along(self) -> Array:
        """Unit vectors along the edges, shape (k, 2)."""
        return np.asarray(self.edges / self.lengths[:, None])

    @functools.cached_property
    def normals(self) -> Array:
        """Unit normals of the edges, outward, shape (k, 2)."""
        return np.column_stack((self.along[:, 1], -self.along[:, 0]))

    def distances(self, points: Array) -> Array:
        """Return the distances of points in the base frame [m], shape (n,); 0 inside."""
        return self.nearest(points)[0]

    def nearest(self, points: Array) -> tuple[Array, Array]:
        """Return distances of points, and the points of the outline closest to them.

        Args:
            points: in the base frame [m], shape (n, 2).

        Returns:
            Distances [m], shape (n,), 0 inside; the closest points of the outline [m], (n, 2).
        """
        (ex, ey), (ax, ay) = self.along.T, self.corners.T
        px, py = points[:, :1] - ax, points[:, 1:] - ay
        t = np.minimum(np.maximum(px * ex + py * ey, 0.0), self.lengths)
        dx, dy = px - t * ex, py - t * ey
        squares = dx * dx + dy * dy
        best, rows = squares.argmin(axis=1), np.arange(len(points))
        inside = (ex * py - ey * px >= 0.0).all(axis=1)
        offsets = np.column_stack((dx[rows, best], dy[rows, best]))
        return np.where(inside, 0.0, np.sqrt(squares[rows, best])), points - offsets


def footprint_from(points: Array | Sequence[Sequence[float]], **heights: float) -> Footprint:
    """Return the convex hull of points in the base frame [m], shape (n, 2).

    Raises:
        InvalidConfig: fewer than three points that are not in a line, or one that is not finite.
    """
    given = np.array(points, np.float64)
    if given.ndim != 2 or given.shape[1:] != (2,) or not np.isfinite(given).all():
        raise InvalidConfig(
            f"footprint has the corners {points}; it needs at least 3 corners, each with finite x "
            "and y in the base frame [m]",
            field="footprint",
        )
    if np.abs(given).max(initial=0.0) > 100.0:
        raise InvalidConfig("corners of the footprint must be within 100 m", field="footprint")
    corners = _fewer_corners(convex_hull(given))
    if len(corners) < 3:
        raise InvalidConfig(
            "the corners of the footprint are in one line; it needs 3 that are not",
            field="footprint",
        )
    return Footprint(frozen(corners), **heights)


def footprint_of(robot: Robot) -> Footprint:
    """Return the footprint of a robot: ``base.footprint`` of its robot.yaml, or its outline.

    The outline is that of all links' collision geometry in the home state, projected to the floor.
    Floor and height are always those of that geometry. Without it the outline is that of the links'
    frames, 10 cm wider.
    """
    points = _body_points(robot)
    given = robot.base.footprint if robot.base is not None else ()
    if not given and not len(points):
        return footprint_from(_frame_outline(robot))
    return footprint_from(given or points[:, :2], **_heights(points))


def _frame_outline(robot: Robot) -> Array:
    """Return corners around the frames of all links in the base frame [m], shape (n, 2)."""
    poses = _link_poses(robot)
    X_BR = inverse(poses[robot.base_frame])
    corners = AROUND_FRAMES * np.array([(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)])
    return np.concatenate([(X_BR @ X_RL)[:2, 3] + corners for X_RL in poses.values()])


def body_heights(robot: Robot) -> dict[str, float]:
    """Return ``floor`` and ``top`` of a robot's footprint; empty without collision geometry."""
    return _heights(_body_points(robot))


def _heights(points: Array) -> dict[str, float]:
    if not len(points):
        return {}
    return {"floor": float(points[:, 2].min()), "top": float(points[:, 2].max())}


def convex_hull(points: Array) -> Array:
    """Return the corners of the convex hull of points, counter-clockwise, shape (k, 2).

    Source: Andrew, Another efficient algorithm for convex hulls in two dimensions (1979).
    """
    rows: list[list[float]] = np.unique(np.round(points, 9), axis=0).tolist()
    if len(rows) < 3:
        return np.array(rows).reshape(-1, 2)
    lower, upper = _chain(rows), _chain(rows[::-1])
    return np.array(lower[:-1] + upper[:-1])


def _chain(rows: list[list[float]]) -> list[list[float]]:
    chain: list[list[float]] = []
    for x, y in rows:
        while len(chain) > 1:
            (ax, ay), (bx, by) = chain[-2:]
            if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 1e-12:
                break
            chain.pop()
        chain.append([x, y])
    return chain


def _fewer_corners(corners: Array) -> Array:
    """Return a polygon with at most MOST_CORNERS corners that contains another."""
    if len(corners) <= MOST_CORNERS:
        return corners
    angles = np.arange(MOST_CORNERS) * (math.tau / MOST_CORNERS)
    normals = np.column_stack((np.cos(angles), np.sin(angles)))
    supports = (corners @ normals.T).max(axis=0)
    # The corner between two supporting lines.
    following, reach = np.roll(normals, -1, axis=0), np.roll(supports, -1)
    matrices = np.stack((normals, following), axis=1)
    return convex_hull(
        np.linalg.solve(matrices, np.stack((supports, reach), 1)[:, :, None])[..., 0]
    )


def _body_points(robot: Robot) -> Array:
    """Return points whose hull is that of the links in the home state, in the base frame."""
    poses = _link_poses(robot)
    X_BR = inverse(poses[robot.base_frame])
    found = [np.empty((0, 3))]
    for link, X_RL in poses.items():
        for part in link_parts(robot, link):
            found.append(_outline(part.solid, X_BR @ X_RL @ part.X_OS))
    return np.concatenate(found)


def _outline(solid: Solid, X: Array) -> Array:
    """Return points whose convex hull contains a link's solid at a pose, shape (n, 3)."""
    angles = np.arange(_CIRCLE) * (math.tau / _CIRCLE)
    circle = np.column_stack((np.cos(angles), np.sin(angles))) / math.cos(math.pi / _CIRCLE)
    if isinstance(solid, Sphere):
        rim = np.column_stack((solid.radius * circle, np.zeros(_CIRCLE)))
        poles = solid.radius * np.array([(0.0, 0.0, 1.0), (0.0, 0.0, -1.0)])
        return np.concatenate((rim, poles)) + X[:3, 3]
    if isinstance(solid, TriangleMesh):
        points = np.asarray(solid.vertices)
    elif isinstance(solid, Box):
        signs = np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3), axis=-1).reshape(-1, 3)
        points = signs * np.array(solid.size)
    else:
        assert isinstance(solid, Cylinder), "links have boxes, spheres, cylinders and meshes"
        half = np.array((0.0, 0.0, 0.5 * solid.length))
        rim = np.column_stack((solid.radius * circle, np.zeros(_CIRCLE)))
        points = np.concatenate((rim - half, rim + half))
    return np.asarray(points @ X[:3, :3].T + X[:3, 3])


def _link_poses(robot: Robot) -> dict[str, Array]:
    """Return the poses of all links in the root in the home state, without compiled code."""
    home = dict(zip(robot.joint_names, robot.home.tolist(), strict=True))
    tree, poses = robot.tree, {robot.tree.root: np.eye(4)}
    # Parents come before children.
    for link in tree.frame_names[1:]:
        joint = tree.parent_joint[link]
        poses[link] = poses[joint.parent] @ joint.X_PJ @ _displacement(joint, home)
    return poses


def _displacement(joint: Joint, home: dict[str, float]) -> Array:
    X: Array = np.eye(4)
    if not joint.movable:
        return X
    leader, scale, offset = joint.name, 1.0, 0.0
    if joint.mimic is not None:
        leader, scale, offset = joint.mimic.joint, joint.mimic.multiplier, joint.mimic.offset
    q = scale * home.get(leader, 0.0) + offset
    if joint.kind is JointKind.PRISMATIC:
        X[:3, 3] = q * joint.axis
    else:
        X[:3, :3] = rotation_about(joint.axis, np.array(q))
    return X
