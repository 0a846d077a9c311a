# SPDX-License-Identifier: Apache-2.0
"""Footprint of a base: a convex polygon on the floor, and distances of points from it.

The time until a footprint at a constant twist violates its clearance is exact. In the base frame,
points move: along lines, or along circles about the instantaneous centre of rotation. A footprint
with a clearance is a polygon with rounded corners, whose boundary consists of shifted edges and
circles about the corners; the first crossing of any of them is the contact, in closed form. A
robot's footprint is that of its description, or derived from its collision geometry.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.poses import inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere, frozen
from motion_nodes.core.scene.robot_spheres import link_parts
from motion_nodes.core.scene.shapes import Solid, TriangleMesh
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

MOST_CORNERS = 16
"""Max number of corners; an outline with more is replaced by a polygon that contains it."""
_CIRCLE = 16
"""Number of corners of the polygon around a circle."""
AROUND_FRAMES = 0.1
"""Half the edge of the square around each link's frame without collision geometry [m]."""
STRAIGHT = 1e-4
"""Curvature below which a motion counts as straight [1/m]: 0.05 mm off the arc after 1 m."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """A convex polygon in the base frame, and the heights of the body above it."""

    corners: Array
    """Corners, counter-clockwise [m], shape (k, 2), read-only."""
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
        """Vectors from each corner to the next [m], shape (k, 2)."""
        return np.asarray(np.roll(self.corners, -1, axis=0) - self.corners)

    @functools.cached_property
    def lengths(self) -> Array:
        """Lengths of the edges [m], shape (k,)."""
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
        InvalidConfig: fewer than three non-collinear points, or a point that is not finite.
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
            "the corners of the footprint are collinear; at least 3 must not be in one line",
            field="footprint",
        )
    return Footprint(frozen(corners), **heights)


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
    # Intersection of two supporting lines.
    following, reach = np.roll(normals, -1, axis=0), np.roll(supports, -1)
    matrices = np.stack((normals, following), axis=1)
    return convex_hull(
        np.linalg.solve(matrices, np.stack((supports, reach), 1)[:, :, None])[..., 0]
    )


def footprint_of(robot: Robot) -> Footprint:
    """Return the footprint of a robot: ``base.footprint`` of its robot.yaml, or its outline.

    The outline is the projection of the collision geometry of all links in the home state to the
    floor. Floor and height always follow from the collision geometry. Without any, the outline
    contains squares around the frames of the links.
    """
    return _footprint(robot, _body_points(robot)) or footprint_from(_frame_outline(robot))


def carrier_footprint(robot: Robot) -> Footprint:
    """Return the footprint of all links that the arm does not move."""
    moved, names = set[str](), robot.tree.frame_names
    for link in names[1:]:
        joint = robot.tree.parent_joint[link]
        if joint.name in robot.arm_joints or joint.parent in moved:
            moved.add(link)
    return _footprint(robot, _body_points(robot, frozenset(moved))) or footprint_of(robot)


def solid_outline(solid: Solid, X: Array) -> Array:
    """Return corners whose convex hull contains the projection of a solid at a pose [m], (n, 2)."""
    return _outline(solid, X)[:, :2]


def _footprint(robot: Robot, points: Array) -> Footprint | None:
    """Return ``base.footprint``, or the projection of points, (n, 3); None without either."""
    given = robot.base.footprint if robot.base is not None else ()
    if not given and not len(points):
        return None
    return footprint_from(given or points[:, :2], **_heights(points))


def _frame_outline(robot: Robot) -> Array:
    """Return corners around the frames of all links in the base frame [m], shape (n, 2)."""
    corners = AROUND_FRAMES * np.array([(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)])
    return np.concatenate([X_BL[:2, 3] + corners for X_BL in _home_poses(robot)])


def body_heights(robot: Robot) -> dict[str, float]:
    """Return ``floor`` and ``top`` of a robot's footprint [m]; empty without collision geometry."""
    return _heights(_body_points(robot))


def _heights(points: Array) -> dict[str, float]:
    if not len(points):
        return {}
    return {"floor": float(points[:, 2].min()), "top": float(points[:, 2].max())}


def _body_points(robot: Robot, without: frozenset[str] = frozenset()) -> Array:
    """Return points whose hull contains links in the home state, in the base frame, (n, 3)."""
    found = [np.empty((0, 3))]
    for link, X_BL in zip(robot.tree.frame_names, _home_poses(robot), strict=True):
        if link in without:
            continue
        for part in link_parts(robot, link):
            found.append(_outline(part.solid, X_BL @ part.X_OS))
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


def _home_poses(robot: Robot) -> Array:
    """Return the poses of all links in the base frame in the home state, shape (f, 4, 4)."""
    X_RL = LinkPoses(robot.tree).in_root(robot.home)
    return np.asarray(inverse(X_RL[robot.tree.frame_names.index(robot.base_frame)]) @ X_RL)


def contact_times(footprint: Footprint, points: Array, radii: Array, twist: Twist2) -> Array:
    """Return the times at which points come closer to a moving footprint than their radii.

    Args:
        footprint: footprint of the base.
        points: points in the base frame [m], shape (n, 2), farther away than their radii.
        radii: radii, not negative [m], shape (n,).
        twist: constant velocity of the base.

    Returns:
        Times [s], shape (n,); inf where there is no contact.
    """
    speed = math.hypot(twist.vx, twist.vy)
    if not len(points) or (speed == 0.0 and twist.wz == 0.0):
        return np.full(len(points), math.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        if abs(twist.wz) <= STRAIGHT * speed:
            times = _straight(footprint, points, radii, twist)
        else:
            times = _turning(footprint, points, radii, twist)
    return np.asarray(np.where(np.isnan(times), math.inf, times).min(axis=1))


def _straight(footprint: Footprint, points: Array, radii: Array, twist: Twist2) -> Array:
    """Return the crossings of every point with every edge and corner, shape (n, 2 k)."""
    corners, along, normals = footprint.corners, footprint.along, footprint.normals
    lengths = footprint.lengths
    v = np.array((twist.vx, twist.vy))
    offsets = points[:, None] - corners
    # |offset - v t| = radius
    b, square = offsets @ v, float(v @ v)
    gap = (offsets**2).sum(axis=2) - radii[:, None] ** 2
    root = np.sqrt(b * b - square * gap)
    circles = np.where(b > 0.0, gap / (b + root), math.inf)
    # normal . (offset - v t) = radius, between the ends of the edge
    closing = normals @ v
    t = ((offsets * normals).sum(axis=2) - radii[:, None]) / closing
    at = (offsets * along).sum(axis=2) - t * (along @ v)
    lines = np.where((closing > 0.0) & (t >= 0.0) & (at >= 0.0) & (at <= lengths), t, math.inf)
    return np.concatenate((circles, lines), axis=1)


def _turning(footprint: Footprint, points: Array, radii: Array, twist: Twist2) -> Array:
    """Return the crossings of every point with every edge and corner, shape (n, 4 k).

    Angles in a triangle use half-angle formulas, because the centre of rotation may be kilometres
    away.
    """
    corners, along, normals = footprint.corners, footprint.along, footprint.normals
    lengths, w = footprint.lengths, twist.wz
    centre = np.array((-twist.vy / w, twist.vx / w))
    arm = points - centre
    rho, phi = np.hypot(arm[:, 0], arm[:, 1])[:, None], np.arctan2(arm[:, 1], arm[:, 0])[:, None]
    r = radii[:, None]
    to_corner = corners - centre
    d, alpha = np.hypot(*to_corner.T), np.arctan2(to_corner[:, 1], to_corner[:, 0])
    half = np.arcsin(np.sqrt((r * r - (rho - d) ** 2) / (4.0 * rho * d)))
    found = [_until(phi - (alpha + side * 2.0 * half), w) for side in (-1.0, 1.0)]
    level = (to_corner * normals).sum(axis=1) + r
    nu, spread = np.arctan2(normals[:, 1], normals[:, 0]), np.arccos(level / rho)
    start = (to_corner * along).sum(axis=1)
    for side in (-1.0, 1.0):
        hit = nu + side * spread
        # Coordinate along the edge: the edge's direction is 90 degrees ahead of its normal.
        at = rho * np.sin(side * spread) - start
        t = _until(phi - hit, w)
        found.append(np.where((at >= 0.0) & (at <= lengths), t, math.inf))
    return np.concatenate(found, axis=1)


def _until(angle: Array, w: float) -> Array:
    """Return the time until a point rotates by an angle [rad] at ``-w``."""
    return np.asarray(np.mod(math.copysign(1.0, w) * angle, math.tau) / abs(w))


def keeps_clear(
    footprint: Footprint, points: Array, twist: Twist2, time: float, clearance: float,
    *, lenient: bool = False,
) -> bool:  # fmt: skip
    """Return whether a motion satisfies a clearance from points.

    Args:
        footprint: footprint of the base.
        points: points in the initial frame of the base [m], shape (n, 2).
        twist: constant velocity of the base.
        time: duration [s].
        clearance: min distance [m].
        lenient: for points that are initially closer, require only that they come no closer.
    """
    reach = footprint.radius + clearance + math.hypot(twist.vx, twist.vy) * time
    local = points[np.hypot(points[:, 0], points[:, 1]) <= reach]
    if not len(local):
        return True
    distances = footprint.distances(local)
    if not lenient and distances.min() < clearance:
        return False
    radii = np.minimum(clearance - 1e-4, np.maximum(distances - 2e-3, 0.0))
    return bool(contact_times(footprint, local, radii, twist).min() >= time)


def into_base(points: Array, pose: Pose2) -> Array:
    """Return points of an outer frame in the base frame at a pose [m], shape (n, 2)."""
    c, s = math.cos(pose.yaw), math.sin(pose.yaw)
    return np.asarray((points - (pose.x, pose.y)) @ np.array(((c, -s), (s, c))))


def out_of_base(points: Array, pose: Pose2) -> Array:
    """Return points in the base frame at a pose in the outer frame [m], shape (n, 2)."""
    c, s = math.cos(pose.yaw), math.sin(pose.yaw)
    return np.asarray(points @ np.array(((c, s), (-s, c))) + (pose.x, pose.y))
