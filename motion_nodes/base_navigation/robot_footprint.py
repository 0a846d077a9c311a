# SPDX-License-Identifier: Apache-2.0
"""Footprint of a robot, from its description or its collision geometry."""

from __future__ import annotations

import math

import numpy as np

from motion_nodes.base_navigation.footprint import Footprint, footprint_from
from motion_nodes.model.link_poses import LinkPoses
from motion_nodes.model.poses import inverse
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.scene.robot_spheres import link_parts
from motion_nodes.scene.shapes import Solid, TriangleMesh
from motion_nodes.typing import Array

_CIRCLE = 16
"""Number of corners of the polygon around a circle."""
AROUND_FRAMES = 0.1
"""Half the edge of the square around each link's frame without collision geometry [m]."""


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
