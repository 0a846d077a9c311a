# SPDX-License-Identifier: Apache-2.0
"""How near a robot is to obstacles: kinematics by pinocchio, the URDF's shapes, coal."""

from __future__ import annotations

from collections.abc import Sequence

import coal
import numpy as np
import pinocchio as pin
from collision_peers import coal_shape

from motion_nodes.model.robot import Robot
from motion_nodes.scene.robot_spheres import link_parts
from motion_nodes.scene.scene import Scene


class Truth:
    """Distances that share no code with the policy."""

    def __init__(self, robot: Robot, joints: Sequence[str]) -> None:
        """Take the shapes of the robot's URDF; joints that are not named stand at home."""
        self._model = pin.buildModelFromXML(robot.urdf)
        self._data = self._model.createData()
        names = [self._model.names[k] for k in range(1, self._model.njoints)]
        self._home = robot.home[robot.indices(names)]
        self._places = [names.index(name) for name in joints]
        moved = {link for link in robot.tree.frame_names if self._moves(link)}
        self._shapes = [
            (self._model.getFrameId(link), pin.SE3(np.array(part.X_OS)), coal_shape(part.solid))
            for link in moved
            for part in link_parts(robot, link)
        ]

    def _moves(self, link: str) -> bool:
        return bool(self._model.frames[self._model.getFrameId(link)].parentJoint)

    def distance(self, q: np.ndarray, scene: Scene) -> float:
        """Return the least distance of any shape that moves from any object [m]."""
        full = self._home.copy()
        full[self._places] = q
        pin.framesForwardKinematics(self._model, self._data, full)
        request = coal.DistanceRequest()
        least = np.inf
        for item in scene.objects.values():
            solid = coal_shape(item.parts[0].solid)
            X = item.X_WO @ item.parts[0].X_OS
            there = coal.Transform3s(X[:3, :3], X[:3, 3])
            for frame, X_LG, shape in self._shapes:
                placed = self._data.oMf[frame] * X_LG
                here = coal.Transform3s(placed.rotation, placed.translation)
                result = coal.DistanceResult()
                least = min(least, coal.distance(shape, here, solid, there, request, result))
        return float(least)
