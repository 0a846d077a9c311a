# SPDX-License-Identifier: Apache-2.0
"""Published collision meshes of manufacturers: sources, and poses in the links.

The meshes are not part of this repository. Panda: ``link0.stl`` to ``link7.stl``, ``hand.stl`` of
``franka_description/meshes/collision`` in frankaemika/franka_ros, or the same files in the package
``example-robot-data`` on PyPI; the boxes of the fingers are those of ``franka_hand.xacro`` there.
UR10e: ``meshes/ur10e/collision`` in UniversalRobots/Universal_Robots_ROS2_Description; poses in the
links: ``urdf/ur_macro.xacro`` with ``config/ur10e/visual_parameters.yaml`` and
``physical_parameters.yaml``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.mesh_file import read_mesh

XYZ = tuple[float, float, float]

PANDA = {f"panda_link{i}": (f"link{i}.stl", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)) for i in range(8)} | {
    "panda_hand": ("hand.stl", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
}
FINGER = (
    ((0.0, 0.0185, 0.011), (0.022, 0.015, 0.02), 0.0),
    ((0.0, 0.0068, 0.0022), (0.022, 0.0088, 0.0038), 0.0),
    ((0.0, 0.0159, 0.02835), (0.0175, 0.007, 0.0235), math.pi / 6.0),
    ((0.0, 0.00758, 0.04525), (0.0175, 0.0152, 0.0185), 0.0),
)
"""Boxes of the left finger: centre, size [m], rotation about x [rad]; right finger: y mirrored."""
_TURNED: XYZ = (0.0, 0.0, math.pi)
_ALONG: XYZ = (math.pi / 2.0, 0.0, -math.pi / 2.0)
_TILTED: XYZ = (math.pi / 2.0, 0.0, 0.0)
UR10E = {
    "base_link_inertia": ("base.stl", (0.0, 0.0, 0.0), _TURNED),
    "shoulder_link": ("shoulder.stl", (0.0, 0.0, 0.0), _TURNED),
    "upper_arm_link": ("upperarm.stl", (0.0, 0.0, 0.1762), _ALONG),
    "forearm_link": ("forearm.stl", (0.0, 0.0, 0.0393), _ALONG),
    "wrist_1_link": ("wrist1.stl", (0.0, 0.0, -0.135), _TILTED),
    "wrist_2_link": ("wrist2.stl", (0.0, 0.0, -0.12), (0.0, 0.0, 0.0)),
    "wrist_3_link": ("wrist3.stl", (0.0, 0.0, -0.1168), _TILTED),
}
MESHES: Mapping[str, Mapping[str, tuple[str, XYZ, XYZ]]] = {"franka": PANDA, "ur10e": UR10E}
"""By robot and link: file, and pose in the link as xyz [m] and rpy [rad]."""


def link_triangles(robot: str, folder: Path) -> dict[str, np.ndarray]:
    """Return the published meshes as triangles in the links' frames [m], shape (t, 3, 3) each."""
    found = {}
    for link, (file, xyz, rpy) in MESHES[robot].items():
        X = from_xyz_rpy(xyz, rpy)
        mesh = read_mesh(folder / file)
        found[link] = mesh.vertices[mesh.triangles] @ X[:3, :3].T + X[:3, 3]
    return found


def link_vertices(robot: str, folder: Path) -> dict[str, np.ndarray]:
    """Return the vertices of the published meshes in the links' frames [m], shape (v, 3) each."""
    triangles = link_triangles(robot, folder)
    return {link: np.unique(t.reshape(-1, 3).round(7), axis=0) for link, t in triangles.items()}


def finger_boxes() -> dict[str, list[tuple[Box, np.ndarray]]]:
    """Return the boxes of both fingers with their poses in the link, shape (4, 4)."""
    found: dict[str, list[tuple[Box, np.ndarray]]] = {}
    for link, side in (("panda_leftfinger", 1.0), ("panda_rightfinger", -1.0)):
        found[link] = [
            (Box(size), from_xyz_rpy((x, side * y, z), (side * turn, 0.0, 0.0)))
            for (x, y, z), size, turn in FINGER
        ]
    return found
