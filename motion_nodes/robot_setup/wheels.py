# SPDX-License-Identifier: Apache-2.0
"""Detection of wheels from a robot's geometry."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.tree import Joint, JointKind, KinematicTree
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.package_search import PackageSearch
from motion_nodes.robot_setup.roller_rims import roller_angle_deg, rollers_by_wheel
from motion_nodes.scene.robot_spheres import rigid_links
from motion_nodes.typing import Array

Geometries = Mapping[str, LinkGeometry]

_ROUND = 0.08  # max relative deviation of a wheel's outline from a circle
_GAPPY = 0.25  # max relative deviation for a rim of rollers with gaps
_RIM = 0.9  # min distance of the rim's points from the axis, relative to the radius
_LEVEL = 0.15  # max sine of the angle between axes
_ON_FLOOR = 0.03  # max height of a wheel's lowest point above the robot's [m]


@dataclass(frozen=True)
class Wheel:
    """A round link that is moved by a joint and in contact with the floor."""

    joint: str
    radius: float
    """Rolling radius [m]."""
    centre: Array
    """Centre in the base frame, all joints at zero [m], shape (3,)."""
    axis: Array
    """Axis of the joint in the base frame, shape (3,)."""
    swivel: Joint | None
    """Vertical joint that carries the wheel, if there is one."""
    swivels_down: bool = False
    """Whether the axis of this joint points down in the base frame: positive angles turn right."""
    rollers: tuple[str, ...] = ()
    """Joints of rollers on its rim, if in the URDF."""
    roller_angle_deg: float | None = None
    """Angle from its axis to the axis of the roller in contact with the floor, counter-clockwise
    from above [deg]."""


def find_wheels(tree: KinematicTree, geometries: Geometries, base: str) -> tuple[Wheel, ...]:
    """Return the wheels of a robot: continuous joints with horizontal axes and round links.

    Args:
        tree: the robot.
        geometries: geometries of its links.
        base: frame in which z is up.
    """
    candidates = [
        joint
        for name in tree.joint_names
        if (joint := tree.joints[name]).kind is JointKind.CONTINUOUS
    ]
    if not candidates or not geometries:
        return ()
    poses = link_poses(tree, base)
    rigid = rigid_links(tree)
    lowest = min(in_base(poses[link], g)[:, 2].min() for link, g in geometries.items())
    rollers = rollers_by_wheel(tree, candidates)
    on_rims = {roller.name for rim in rollers.values() for roller in rim}
    found = []
    for joint in candidates:
        if joint.name in on_rims:
            continue
        rim = rollers.get(joint.name, ())
        turned = {joint.child, *(roller.child for roller in rim)}
        parts = [link for link in geometries if rigid[link] in turned]
        X = poses[joint.parent] @ joint.X_PJ
        axis = X[:3, :3] @ joint.axis
        if not parts or abs(axis[2]) > _LEVEL:
            continue
        points = np.concatenate([in_base(poses[link], geometries[link]) for link in parts])
        radius = _radius(points - X[:3, 3], axis, _GAPPY if rim else _ROUND)
        if radius is None or points[:, 2].min() > lowest + 0.3 * radius:
            continue
        along = _along_rim(points - X[:3, 3], axis, radius)
        centre = X[:3, 3] + 0.5 * (along.min() + along.max()) * axis
        above = tree.parent_joint.get(rigid[joint.parent])
        upwards = (poses[above.child][:3, :3] @ above.axis)[2] if above is not None else 0.0
        sprung = above is not None and above.kind is JointKind.PRISMATIC
        swivel = above if abs(upwards) > 0.95 and not sprung else None
        names = tuple(roller.name for roller in rim)
        stated = joint.rollers.angle_deg if joint.rollers else None
        angle = roller_angle_deg(rim, axis, centre, poses, geometries) if rim else stated
        down = swivel is not None and upwards < 0.0
        found.append(Wheel(joint.name, radius, centre, axis, swivel, down, names, angle))
    return tuple(found)


def wheels_as_seen(
    tree: KinematicTree, geometries: Geometries, search: PackageSearch, base: str
) -> dict[str, LinkGeometry]:
    """Return the visual geometry of wheels whose collision geometry is not round, such as boxes.

    Args:
        tree: the robot.
        geometries: geometries of its links.
        search: finds meshes.
        base: frame in which z is up.
    """
    known = {wheel.joint for wheel in find_wheels(tree, geometries, base)}
    poses = link_poses(tree, base)
    lows = {link: float(in_base(poses[link], g)[:, 2].min()) for link, g in geometries.items()}
    seen = {}
    for joint in (tree.joints[name] for name in tree.joint_names if name not in known):
        link = tree.links[joint.child]
        if joint.kind is not JointKind.CONTINUOUS or not (link.visuals and link.collisions):
            continue
        if link.name in lows and lows[link.name] < min(lows.values()) + _ON_FLOOR:
            with contextlib.suppress(InvalidDescription):
                geometry = LinkGeometry.of_shapes(link.visuals, search.find)
                seen.update({} if geometry is None else {link.name: geometry})
    wheels = find_wheels(tree, {**geometries, **seen}, base) if seen else ()
    round_ones = [tree.joints[wheel.joint].child for wheel in wheels if wheel.joint not in known]
    return {link: seen[link] for link in round_ones if link in seen}


def _radius(points: Array, axis: Array, uneven: float) -> float | None:
    """Return the radius of a round link about an axis through the origin; None if not round.

    Args:
        points: points of the surface, relative to the axis [m], shape (k, 3).
        axis: unit vector, shape (3,).
        uneven: max relative deviation of the outline from a circle.
    """
    across = points - np.outer(points @ axis, axis)
    distance = np.linalg.norm(across, axis=1)
    radius = float(distance.max())
    side = np.cross(axis, [0.0, 0.0, 1.0])
    side /= max(float(np.linalg.norm(side)), 1e-9)
    angle = np.arctan2(across @ np.cross(side, axis), across @ side)
    sector = np.floor((angle + math.pi) / (2.0 * math.pi) * 16.0).astype(int) % 16
    reach = np.array([distance[sector == k].max(initial=0.0) for k in range(16)])
    return radius if radius > 0.0 and reach.min() > (1.0 - uneven) * radius else None


def _along_rim(points: Array, axis: Array, radius: float) -> Array:
    """Return the position of the rim along the axis [m]; a hub may protrude on one side."""
    along = points @ axis
    distance = np.linalg.norm(points - np.outer(along, axis), axis=1)
    return np.asarray(along[distance > _RIM * radius])


def link_poses(tree: KinematicTree, base: str, q: Array | None = None) -> dict[str, Array]:
    """Return the pose of each link in the base frame; ``q``: joint positions, default zero."""
    kinematics = Kinematics(tree, base=base, generic=True)
    poses = kinematics.frames(np.zeros(len(tree.joint_names)) if q is None else q)
    return dict(zip(kinematics.frame_names, poses, strict=True))


def in_base(X_BL: Array, geometry: LinkGeometry) -> Array:
    """Return the surface of a link in the base frame [m], shape (k, 3)."""
    return np.asarray(geometry.surface @ X_BL[:3, :3].T + X_BL[:3, 3])
