# SPDX-License-Identifier: Apache-2.0
"""Rollers that a URDF models as links: their wheels and mounting angles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from motion_nodes.model.tree import Joint, KinematicTree
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.scene.robot_spheres import rigid_links
from motion_nodes.typing import Array

_LEAST = 3
"""Min number of rollers per wheel."""


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
