# SPDX-License-Identifier: Apache-2.0
"""Distances of a robot's geometry by pinocchio and coal; they share no code with the suite's."""

from __future__ import annotations

from collections.abc import Sequence

import coal
import numpy as np
import pinocchio as pin
from true_geometry import convex, obstacle

from motion_nodes.model.robot import Robot
from motion_nodes.scene.robot_spheres import link_parts
from motion_nodes.scene.scene import Scene
from motion_nodes.scene.shapes import TriangleMesh


def coal_shape(solid: object) -> coal.CollisionGeometry:
    """Return a sphere, box, cylinder or mesh as coal has it; a mesh counts as its convex hull."""
    return convex(solid.vertices) if isinstance(solid, TriangleMesh) else obstacle(solid)


class LinkDistances:
    """Distances of the links that move, by the collision geometry of the URDF."""

    def __init__(self, robot: Robot, joints: Sequence[str]) -> None:
        """Read the URDF's shapes; joints that are not named stand at home."""
        self._model = pin.buildModelFromXML(robot.urdf)
        self._data = self._model.createData()
        names = [self._model.names[k] for k in range(1, self._model.njoints)]
        self._home = robot.home[robot.indices(names)]
        self._places = [names.index(name) for name in joints]
        frames = {link: self._model.getFrameId(link) for link in robot.tree.frame_names}
        self._shapes = [
            (frame, pin.SE3(np.array(part.X_OS)), coal_shape(part.solid))
            for link, frame in frames.items()
            if self._model.frames[frame].parentJoint
            for part in link_parts(robot, link)
        ]

    def least(self, q: np.ndarray, scene: Scene) -> float:
        """Return the least distance of any link that moves from any object [m]."""
        full = self._home.copy()
        full[self._places] = q
        pin.framesForwardKinematics(self._model, self._data, full)
        request, found = coal.DistanceRequest(), [np.inf]
        for item in scene.objects.values():
            solid, X_WO = coal_shape(item.parts[0].solid), item.X_WO @ item.parts[0].X_OS
            there = coal.Transform3s(X_WO[:3, :3], X_WO[:3, 3])
            for frame, X_LS, shape in self._shapes:
                placed = self._data.oMf[frame] * X_LS
                here = coal.Transform3s(placed.rotation, placed.translation)
                result = coal.DistanceResult()
                found.append(coal.distance(shape, here, solid, there, request, result))
        return float(min(found))
