# SPDX-License-Identifier: Apache-2.0
"""Detection of mecanum wheels in a URDF without joints of rollers.

Few URDFs model rollers as joints. Most have rollers in a mesh, diagonal friction directions for
Gazebo, or the word in the name of a plugin, a controller or the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.tree import KinematicTree
from motion_nodes.robot_setup.link_geometry import triangles_of
from motion_nodes.robot_setup.wheels import Wheel, link_poses
from motion_nodes.typing import Array

_RIM, _OUTWARD = 0.92, 0.6
"""Min distance from the axis (relative to the radius) and min radial component of the normals of
the surface of rollers."""
_OBLIQUE, _UNEVEN = 0.6, 0.02
"""Min correlation of tangential and axial components of these normals, and min variance of the
tangential component: the correlation of rollers is above 0.9, of tyres and treads below 0.2."""
_DIAGONAL = (math.radians(30.0), math.radians(60.0))


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
    seen = (distance > _RIM * radius) & (double_areas > 0.0)
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
