# SPDX-License-Identifier: Apache-2.0
"""Motions checked by coal and pinocchio against the collision meshes that manufacturers publish.

The meshes are not part of this repository. Panda: ``link0.stl`` to ``link7.stl``, ``hand.stl`` of
``franka_description/meshes/collision`` in frankaemika/franka_ros, or the same files in the package
``example-robot-data`` on PyPI; the boxes of the fingers are figures of ``franka_hand.xacro`` there.
UR10e: ``meshes/ur10e/collision`` in UniversalRobots/Universal_Robots_ROS2_Description; where each
mesh stands in its link: ``urdf/ur_macro.xacro`` with ``config/ur10e/visual_parameters.yaml`` and
``physical_parameters.yaml``.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import coal
import numpy as np
import pinocchio as pin

from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Box, Sphere
from motion_nodes.scene.mesh_file import read_mesh
from motion_nodes.scene.robot_spheres import checked_pairs, link_bodies
from motion_nodes.scene.scene import Scene

XYZ = tuple[float, float, float]
Parts = list[tuple[coal.CollisionGeometry, np.ndarray]]

PANDA = {f"panda_link{i}": (f"link{i}.stl", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)) for i in range(8)} | {
    "panda_hand": ("hand.stl", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
}
FINGER = (
    ((0.0, 0.0185, 0.011), (0.022, 0.015, 0.02), 0.0),
    ((0.0, 0.0068, 0.0022), (0.022, 0.0088, 0.0038), 0.0),
    ((0.0, 0.0159, 0.02835), (0.0175, 0.007, 0.0235), math.pi / 6.0),
    ((0.0, 0.00758, 0.04525), (0.0175, 0.0152, 0.0185), 0.0),
)
"""Boxes of the left finger: centre, size [m] and turn about x [rad]; the right one mirrors y."""
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
"""By robot and link: file, and where it stands in the link as xyz [m] and rpy [rad]."""


def panda_folder() -> Path | None:
    """Return the Panda's meshes of the package example-robot-data; None if it is not installed."""
    try:
        files = importlib.metadata.files("example-robot-data") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [f for f in files if str(f).endswith("panda_description/meshes/collision/link0.stl")]
    return Path(str(found[0].locate())).parent if found else None


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
    """Return the boxes of both fingers, each with its pose in the link."""
    found: dict[str, list[tuple[Box, np.ndarray]]] = {}
    for link, side in (("panda_leftfinger", 1.0), ("panda_rightfinger", -1.0)):
        found[link] = [
            (Box(size), from_xyz_rpy((x, side * y, z), (side * turn, 0.0, 0.0)))
            for (x, y, z), size, turn in FINGER
        ]
    return found


def published_parts(robot: str, folder: Path) -> dict[str, Parts]:
    """Return what is published of each link as coal's shapes, with their poses in the link.

    All published meshes are convex, so each is the hull of its vertices.
    """
    parts: dict[str, Parts] = {}
    for link, vertices in link_vertices(robot, folder).items():
        parts[link] = [(convex(vertices), np.eye(4))]
    if robot == "franka":
        for link, boxes in finger_boxes().items():
            parts[link] = [(coal.Box(*box.size), X) for box, X in boxes]
    return parts


def convex(vertices: np.ndarray) -> coal.CollisionGeometry:
    """Return the convex hull of points as coal has it."""
    points = coal.StdVec_Vec3s()
    for vertex in vertices:
        points.append(vertex)
    return coal.Convex.convexHull(points, True, "Qt")


@dataclass(frozen=True)
class Touch:
    """Two shapes that are in each other."""

    first: str
    """A link."""
    second: str
    """A link, or an object of the scene."""
    depth: float
    """[m]"""


class TrueGeometry:
    """A robot as its published meshes, in a scene."""

    def __init__(self, robot: Robot, parts: Mapping[str, Parts], scene: Scene) -> None:
        """Prepare.

        Args:
            robot: whose joints move; pairs of links that it never checks are not checked here.
            parts: of each link, as :func:`published_parts` gives them.
            scene: spheres, boxes and cylinders.
        """
        self.model = pin.buildModelFromXML(robot.urdf)
        self.geometry = pin.GeometryModel()
        self._names: list[str] = []
        for link, shapes in parts.items():
            frame = self.model.getFrameId(link)
            joint, X_JL = self.model.frames[frame].parentJoint, self.model.frames[frame].placement
            for k, (shape, X) in enumerate(shapes):
                placed = X_JL * pin.SE3(np.array(X))
                item = pin.GeometryObject(f"{link}_{k}", joint, frame, placed, shape)
                self.geometry.addGeometryObject(item)
                self._names.append(link)
        links = len(self._names)
        for item in scene.objects.values():
            X_WP = pin.SE3(np.array(item.X_WO @ item.parts[0].X_OS))
            shape = obstacle(item.parts[0].solid)
            self.geometry.addGeometryObject(pin.GeometryObject(item.name, 0, 0, X_WP, shape))
            self._names.append(item.name)
        bodies = link_bodies(robot)
        checked = {
            frozenset((bodies[i].name, bodies[j].name))
            for i, j in checked_pairs(robot, bodies, scene.allowed)
        }
        for i in range(links):
            for j in range(i + 1, len(self._names)):
                if j >= links or frozenset((self._names[i], self._names[j])) in checked:
                    self.geometry.addCollisionPair(pin.CollisionPair(i, j))
        self._data, self._geometry_data = self.model.createData(), self.geometry.createData()
        self._full = robot.home.copy()

    def touches(self, q: np.ndarray) -> bool:
        """Return whether anything touches, the joints of the arm being the robot's first."""
        self._full[: len(q)] = q
        model, data = self.model, self._data
        found = pin.computeCollisions(
            model, data, self.geometry, self._geometry_data, self._full, True
        )
        return bool(found)

    def deepest(self, q: np.ndarray) -> Touch:
        """Return the pair that is deepest in each other; depth -inf where none touches."""
        self._full[: len(q)] = q
        model, data = self.model, self._data
        pin.computeCollisions(model, data, self.geometry, self._geometry_data, self._full, False)
        request = coal.DistanceRequest()
        request.enable_signed_distance = True
        best = Touch("", "", -math.inf)
        results = self._geometry_data.collisionResults
        for found, pair in zip(results, self.geometry.collisionPairs, strict=True):
            if not found.isCollision():
                continue
            shapes = [self.geometry.geometryObjects[k].geometry for k in (pair.first, pair.second)]
            poses = [self._geometry_data.oMg[k] for k in (pair.first, pair.second)]
            placed = [coal.Transform3s(X.rotation, X.translation) for X in poses]
            result = coal.DistanceResult()
            distance = coal.distance(shapes[0], placed[0], shapes[1], placed[1], request, result)
            if -distance > best.depth:
                best = Touch(self._names[pair.first], self._names[pair.second], -distance)
        return best


def obstacle(solid: object) -> coal.CollisionGeometry:
    """Return a sphere, box or cylinder as coal has it."""
    if isinstance(solid, Sphere):
        return coal.Sphere(solid.radius)
    if isinstance(solid, Box):
        return coal.Box(*solid.size)
    return coal.Cylinder(solid.radius, solid.length)  # type: ignore[attr-defined]
