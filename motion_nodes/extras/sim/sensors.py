# SPDX-License-Identifier: Apache-2.0
"""Sensors of a simulated cell: ray casts against the collision geometry, without a GPU.

A camera renders a snapshot of the world, so it can run in a thread of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.robot_yaml import LaserScannerDescription
from motion_nodes.core.scene.depth_camera import DepthProjection, Pinhole
from motion_nodes.extras.sim.cell_words import MountedCamera
from motion_nodes.extras.sim.mjcf_shapes import VISUAL_GROUP
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

_BACKGROUND = np.array([190, 210, 235], np.uint8)


@dataclass(frozen=True)
class CameraSettings:
    """Image and noise of the simulated cameras."""

    width: int = setting(160, doc="Width of the images.", unit="pixels", ge=8, le=1920)
    height: int = setting(120, doc="Height of the images.", unit="pixels", ge=8, le=1080)
    field_of_view: float = setting(1.2, doc="Horizontal field of view.", unit="rad", ge=0.1, le=2.8)
    max_range: float = setting(
        5.0, doc="Max measured depth; inf beyond it.", unit="m", gt=0.0, le=100.0
    )
    noise: float = setting(
        0.001, doc="Standard deviation of the depth at 1 m; it scales with the depth squared.",
        unit="m", ge=0.0, le=0.1,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def pinhole(self) -> Pinhole:
        """The intrinsics."""
        focal = 0.5 * self.width / math.tan(0.5 * self.field_of_view)
        return Pinhole(
            self.width, self.height, focal, focal, 0.5 * (self.width - 1), 0.5 * (self.height - 1)
        )


class Snapshot(NamedTuple):
    """State of the world at one time."""

    model: mujoco.MjModel
    time: float
    """[s]"""
    qpos: Array
    mocap_pos: Array
    mocap_quat: Array


def snapshot(world: MujocoWorld) -> Snapshot:
    """Return a copy of the state that images depend on; in the thread of the loop."""
    data = world.data
    return Snapshot(
        world.model, world.time, data.qpos.copy(), data.mocap_pos.copy(), data.mocap_quat.copy()
    )


class SimulatedCamera:
    """Renders the depth images of one camera."""

    def __init__(self, world: MujocoWorld, robot: str, camera: MountedCamera) -> None:
        """Create the camera.

        Args:
            world: the cell.
            robot: name of the camera's robot in the cell.
            camera: the camera.

        Raises:
            InvalidConfig: the robot has no such link.
        """
        camera.check_link(next(p.robot for p in world.placements if p.name == robot))
        self.camera = camera
        self._body = f"{robot}/{camera.link}"
        self._groups = np.array([k != VISUAL_GROUP for k in range(6)], np.uint8)
        self._data: tuple[mujoco.MjModel, mujoco.MjData] | None = None
        self._rays: DepthProjection | None = None
        self._rng = np.random.default_rng(0)

    def render(
        self, seen: Snapshot, settings: CameraSettings
    ) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """Return the images of a snapshot.

        Returns:
            depth: [m], shape (h, w); inf where nothing is in range.
            color: of the same pixels, red, green, blue, without light, shape (h, w, 3).
        """
        if self._data is None or self._data[0] is not seen.model:
            self._data = (seen.model, mujoco.MjData(seen.model))
        model, data = self._data
        data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = seen[2:]
        mujoco.mj_kinematics(model, data)
        if self._rays is None or self._rays.camera != settings.pinhole:
            self._rays = DepthProjection(settings.pinhole)
        body = data.body(self._body)
        R = body.xmat.reshape(3, 3) @ self.camera.X_LO[:3, :3]
        eye = body.xpos + body.xmat.reshape(3, 3) @ self.camera.X_LO[:3, 3]
        # One ray per pixel, scaled to depth 1, so that distances along it are depths.
        rays = np.asarray(self._rays.rays, np.float64)
        lengths = np.linalg.norm(rays, axis=1)
        directions = (rays / lengths[:, None]) @ R.T
        count = len(rays)
        geoms, distance = np.empty(count, np.int32), np.empty(count)
        mujoco.mj_multiRay(
            model, data, eye, directions.ravel(), self._groups, True, -1, geoms, distance, None,
            count, settings.max_range * lengths.max(),
        )  # fmt: skip
        depth = np.where(geoms < 0, np.inf, distance / lengths)
        depth[depth > settings.max_range] = np.inf
        hit = np.flatnonzero(np.isfinite(depth))
        depth[hit] += settings.noise * depth[hit] ** 2 * self._rng.normal(size=len(hit))
        image = np.where((geoms < 0)[:, None], _BACKGROUND, _colors(model)[geoms])
        size = (settings.height, settings.width)
        return depth.reshape(size).astype(np.float32), image.reshape(*size, 3)


def _colors(model: mujoco.MjModel) -> NDArray[np.uint8]:
    """Return the color of each geom, shape (n, 3)."""
    rgba = np.where(
        (model.geom_matid < 0)[:, None], model.geom_rgba, model.mat_rgba[model.geom_matid]
    ) if model.nmat else model.geom_rgba  # fmt: skip
    return np.asarray(np.round(255.0 * rgba[:, :3]), np.uint8)


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
