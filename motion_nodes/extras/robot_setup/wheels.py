# SPDX-License-Identifier: Apache-2.0
"""Detection of wheels from a robot's geometry.

Mecanum wheels are detected without joints of rollers, too. Few URDFs model rollers as joints. Most
have rollers in a mesh, diagonal friction directions for Gazebo, or the word in the name of a
plugin, a controller or the file.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.tree import Joint, JointKind, KinematicTree
from motion_nodes.core.scene.link_geometry import LinkGeometry, triangles_of
from motion_nodes.core.scene.robot_spheres import rigid_links
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.typing import Array

_LEAST = 3
"""Min number of rollers per wheel."""
Geometries = Mapping[str, LinkGeometry]
_ROUND = 0.08  # max relative deviation of a wheel's outline from a circle
_GAPPY = 0.25  # max relative deviation for a rim of rollers with gaps
_RIM = 0.9  # min distance of the rim's points from the axis, relative to the radius
_LEVEL = 0.15  # max sine of the angle between axes
_ON_FLOOR = 0.03  # max height of a wheel's lowest point above the robot's [m]
_ROLLER_RIM, _OUTWARD = 0.92, 0.6
"""Min distance from the axis (relative to the radius) and min radial component of the normals of
the surface of rollers."""
_OBLIQUE, _UNEVEN = 0.6, 0.02
"""Min correlation of tangential and axial components of these normals, and min variance of the
tangential component: the correlation of rollers is above 0.9, of tyres and treads below 0.2."""
_DIAGONAL = (math.radians(30.0), math.radians(60.0))


def rollers_by_wheel(tree: KinematicTree, endless: Sequence[Joint]) -> dict[str, tuple[Joint, ...]]:
    """Return the joints of rollers by the joint of the wheel that carries them.

    Args:
        tree: the robot.
        endless: its continuous joints.
    """
    rigid = rigid_links(tree)
    found = {}
    for wheel in endless:
        carried = tuple(joint for joint in endless if rigid[joint.parent] == wheel.child)
        if len(carried) >= _LEAST:
            found[wheel.name] = carried
    return found


def roller_angle_deg(
    rollers: Sequence[Joint],
    axis: Array,
    centre: Array,
    poses: Mapping[str, Array],
    geometries: Mapping[str, LinkGeometry],
) -> float:
    """Return the angle from a wheel's axis to that of its lowest roller [deg], 0 to 180.

    Counter-clockwise as seen from above. Each roller is rotated to the floor about the wheel's
    axis; the angle is the mean of all, with axes of unknown sign.

    Args:
        rollers: rollers of one wheel.
        axis: axis of the wheel in the base frame, horizontal, shape (3,).
        centre: centre of the wheel in the base frame [m], shape (3,).
        poses: poses of the links in the base frame.
        geometries: geometries of the links.
    """
    doubled = 0.0j
    down = np.array([0.0, 0.0, -1.0])
    ahead = np.cross(down, axis)
    for roller in rollers:
        X = poses[roller.parent] @ roller.X_PJ
        middle = X[:3, 3]
        if roller.child in geometries:
            X_child = poses[roller.child]
            middle = X_child[:3, :3] @ geometries[roller.child].bounds.mean(axis=0) + X_child[:3, 3]
        place = middle - centre
        turn = math.atan2(float(place @ ahead), float(place @ down))
        on_floor = _turned(X[:3, :3] @ roller.axis, axis, turn)
        sine = float(np.cross(axis, on_floor)[2])
        doubled += complex(float(axis @ on_floor), sine) ** 2
    return math.degrees(0.5 * np.angle(doubled)) % 180.0


def _turned(vector: Array, axis: Array, angle: float) -> Array:
    """Return a vector rotated about a unit vector (Rodrigues' formula)."""
    c, s = math.cos(angle), math.sin(angle)
    return np.asarray(
        c * vector + s * np.cross(axis, vector) + (1.0 - c) * float(axis @ vector) * axis
    )


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

    In a robot that has such wheels, round links that only steer are wheels, too.

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
    if any(wheel.swivel is None for wheel in found):
        found += _steered_only(tree, geometries, poses, lowest)
    return tuple(found)


def _steered_only(
    tree: KinematicTree, geometries: Geometries, poses: Mapping[str, Array], lowest: float
) -> list[Wheel]:
    """Return wheels that steer, but do not turn: round links on the floor at a vertical joint.

    Their joints, limited to less than half a turn, are their swivels, too.

    Args:
        tree: the robot.
        geometries: geometries of its links.
        poses: poses of the links in the base frame.
        lowest: height of the robot's lowest point [m].
    """
    rigid, ahead = rigid_links(tree), np.array([0.0, 1.0, 0.0])
    found = []
    for joint in (tree.joints[name] for name in tree.joint_names):
        X = poses[joint.parent] @ joint.X_PJ
        upwards = float((X[:3, :3] @ joint.axis)[2])
        narrow = joint.kind is JointKind.REVOLUTE and joint.upper - joint.lower < math.pi
        parts = [link for link in geometries if rigid[link] == joint.child]
        carries = any(
            other.movable and rigid[other.parent] == joint.child for other in tree.joints.values()
        )
        if not narrow or abs(upwards) < 0.95 or not parts or carries:
            continue
        points = np.concatenate([in_base(poses[link], geometries[link]) for link in parts])
        centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
        radius = _radius(points - centre, ahead, _ROUND)
        if radius is not None and points[:, 2].min() < lowest + 0.3 * radius:
            found.append(Wheel(joint.name, radius, centre, ahead, joint, upwards < 0.0))
    return found


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
    candidates = [
        joint
        for joint in (tree.joints[name] for name in tree.joint_names)
        if joint.kind is JointKind.CONTINUOUS
        and (link := tree.links[joint.child]).visuals
        and link.collisions
    ]
    if not candidates:
        return {}
    known = {wheel.joint for wheel in find_wheels(tree, geometries, base)}
    poses = link_poses(tree, base)
    lows = {link: float(in_base(poses[link], g)[:, 2].min()) for link, g in geometries.items()}
    seen = {}
    for joint in (each for each in candidates if each.name not in known):
        link = tree.links[joint.child]
        if link.name in lows and lows[link.name] < min(lows.values()) + _ON_FLOOR:
            with contextlib.suppress(InvalidDescription):
                geometry = LinkGeometry.of_shapes(link.visuals, search.find)
                seen.update({} if geometry is None else {link.name: geometry})
    wheels = find_wheels(tree, {**geometries, **seen}, base) if seen else ()
    round_ones = [tree.joints[wheel.joint].child for wheel in wheels if wheel.joint not in known]
    return {link: seen[link] for link in round_ones if link in seen}


def _radius(points: Array, axis: Array, uneven: float) -> float | None:
    """Return the radius of a round link about an axis through the origin; None if not round."""
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


def mecanum_evidence(
    root: Any,
    tree: KinematicTree,
    wheels: Sequence[Wheel],
    find_mesh: Callable[[str], Path],
    file: str = "",
) -> str:
    """Return the evidence for mecanum wheels; empty if there is none.

    Args:
        root: the URDF's <robot>, including extensions for other programs.
        tree: the same robot.
        wheels: its wheels.
        find_mesh: returns the file of a mesh's ``filename``.
        file: name of the robot's file.
    """
    if not wheels:
        return ""
    links = [tree.joints[wheel.joint].child for wheel in wheels]
    if _slippery(root).issuperset(links):
        return "their friction in Gazebo is diagonal"
    angles = [_angle_on_mesh(tree, wheel, find_mesh) for wheel in wheels]
    if None not in angles:
        return "their meshes have rollers at " + ", ".join(f"{a:.0f}" for a in angles) + " degrees"
    if any("mecanum" in text.lower() for text in (file, *_texts(root))):
        return "the file contains the word mecanum"
    return ""


def roller_angle_of_surface(corners: Array, axis: Array) -> float | None:
    """Return the angle from a wheel's axis to the roller in contact with the floor [deg].

    Counter-clockwise as seen from above, 0 to 180. The surface of a roller is curved only across
    its axis: at the rim, normals vary along one oblique direction.

    Args:
        corners: triangles of the wheel, relative to a point of its axis [m], shape (t, 3, 3).
        axis: axis of the wheel, unit vector, shape (3,).

    Returns:
        The angle; None without oblique rollers.
    """
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    double_areas = np.linalg.norm(normals, axis=1)
    every = corners.reshape(-1, 3)
    radius = np.linalg.norm(every - np.outer(every @ axis, axis), axis=1).max()
    middles = corners.mean(axis=1)
    across = middles - np.outer(middles @ axis, axis)
    distance = np.linalg.norm(across, axis=1)
    seen = (distance > _ROLLER_RIM * radius) & (double_areas > 0.0)
    if not seen.any():
        return None
    radial = across[seen] / distance[seen, None]
    normals = normals[seen] / double_areas[seen, None]
    outward = np.einsum("ij,ij->i", normals, radial)
    normals *= np.sign(outward)[:, None]  # normals of meshes may point inward
    kept = np.abs(outward) > _OUTWARD
    if not kept.any():
        return None
    weights = double_areas[seen][kept]
    weights = weights / weights.sum()
    around = np.cross(axis, radial[kept])
    tangential = np.einsum("ij,ij->i", normals[kept], around)
    axial = normals[kept] @ axis
    tt, aa = float(weights @ tangential**2), float(weights @ axial**2)
    ta = float(weights @ (tangential * axial))
    if tt < _UNEVEN or abs(ta) < _OBLIQUE * math.sqrt(tt * aa):
        return None
    # The roller's axis is perpendicular to the direction in which the normals vary.
    return math.degrees(-0.5 * math.atan2(2.0 * ta, tt - aa)) % 180.0


def _angle_on_mesh(
    tree: KinematicTree, wheel: Wheel, find_mesh: Callable[[str], Path]
) -> float | None:
    joint = tree.joints[wheel.joint]
    link = tree.links[joint.child]
    try:
        pieces = [triangles_of(shape, find_mesh) for shape in link.visuals or link.collisions]
    except InvalidDescription:
        return None
    if not pieces:
        return None
    # The axis is the joint axis in the child's frame; the angle refers to the base's z axis.
    R_BL = link_poses(tree, tree.root)[joint.child][:3, :3]
    return roller_angle_of_surface(np.concatenate(pieces) @ R_BL.T, R_BL @ joint.axis)


def _slippery(root: Any) -> set[str]:
    """Return the links with a diagonal friction direction in Gazebo."""
    found = set()
    for element in root.iter("gazebo", "link"):
        link = element.get("reference") or element.get("name")
        for direction in element.iter("fdir1"):
            text = (direction.text or "").strip() or direction.get("value", "")
            try:
                x, y, _ = (abs(float(word)) for word in text.split())
            except ValueError:
                continue
            if link and _DIAGONAL[0] < math.atan2(y, x) < _DIAGONAL[1]:
                found.add(link)
    return found


def _texts(root: Any) -> Iterable[str]:
    for element in root.iter():
        yield from (str(value) for value in element.attrib.values())
        yield element.text or ""
