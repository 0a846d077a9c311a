# SPDX-License-Identifier: Apache-2.0
"""Laser scanners of simulated robots: ray casts against the collision geometry."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.robot_yaml import LaserScannerDescription
from motion_nodes.sim.mjcf_shapes import VISUAL_GROUP
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.typing import Array


class SimulatedLaser:
    """Scans of one laser scanner; all ranges of a scan have the same time stamp.

    Rays pass through the scanner's own link and hit all other links of its robot.
    """

    def __init__(
        self,
        world: MujocoWorld,
        robot: str,
        scanner: LaserScannerDescription,
        X_LS: Array | None = None,
    ) -> None:
        """Create the scanner.

        Args:
            world: the cell.
            robot: name of the scanner's robot in the cell.
            scanner: its description.
            X_LS: pose of the scanner in its link, shape (4, 4); None: identity.
        """
        self._X_LS = np.eye(4) if X_LS is None else X_LS
        self.scanner = scanner
        self._world, self._body = world, f"{robot}/{scanner.link}"
        angles = np.linspace(scanner.angle_min, scanner.angle_max, scanner.rays)
        self._rays = np.column_stack((np.cos(angles), np.sin(angles), np.zeros(scanner.rays)))
        self._groups = np.array([k != VISUAL_GROUP for k in range(6)], np.uint8)
        self._rng = np.random.default_rng(0)

    def scan(self) -> NDArray[np.float32]:
        """Return the ranges in the last computed state [m], shape (rays,).

        inf where nothing is in range, -inf where something is closer than ``range_min``.
        """
        scanner, model, data = self.scanner, self._world.model, self._world.data
        body = data.body(self._body)
        R = body.xmat.reshape(3, 3)
        eye = body.xpos + R @ self._X_LS[:3, 3]
        directions = self._rays @ (R @ self._X_LS[:3, :3]).T
        count = scanner.rays
        geoms, ranges = np.empty(count, np.int32), np.empty(count)
        mujoco.mj_multiRay(
            model, data, eye, directions.ravel(), self._groups, True, body.id, geoms,
            ranges, None, count, scanner.range_max,
        )  # fmt: skip
        hit = (geoms >= 0) & (ranges >= 0.0)
        if scanner.noise > 0.0:
            ranges += scanner.noise * self._rng.normal(size=count)
        close = hit & (ranges < scanner.range_min)
        far = ~hit | (ranges > scanner.range_max)
        ranges[close], ranges[far] = -np.inf, np.inf
        return ranges.astype(np.float32)
