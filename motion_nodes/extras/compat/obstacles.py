# SPDX-License-Identifier: Apache-2.0
"""Obstacles with the interface of Isaac Sim's motion generation.

Calls return True or False and never raise: each error is logged once, so that a script continues.
The underlying :class:`~motion_nodes.core.scene.world.World` raises errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import checked_pose, world_object
from motion_nodes.core.scene.shapes import TYPES, Capsule, Cone, Solid, TriangleMesh
from motion_nodes.core.scene.world import World
from motion_nodes.errors import MotionError
from motion_nodes.typing import Array

_LOG = logging.getLogger(__name__)
_GROUND = (50.0, 0.001)  # width and thickness of the ground plate [m]

Pose = Callable[[], ArrayLike]
"""Returns the current pose of an externally moved obstacle, shape (4, 4)."""


class Obstacles:
    """Obstacles of a world by name.

    Poses are ``X_WO`` [m], shape (4, 4). Calls return False for unknown or existing names and
    invalid arguments. Arguments not documented below are those of :meth:`add_obstacle`.
    """

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self._poses: dict[str, Pose | None] = {}
        self._static: set[str] = set()
        self._warned: set[str] = set()

    def add_obstacle(
        self, name: str, solid: object, pose: ArrayLike | Pose | None = None, static: bool = False
    ) -> bool:
        """Add an obstacle of any shape.

        Args:
            name: name of the obstacle.
            solid: shape of :mod:`motion_nodes.core.scene.shapes`.
            pose: pose ``X_WO`` [m], shape (4, 4), or a function that returns it; default: identity.
            static: the obstacle does not move; its pose function is called only if the base moves.

        Returns:
            Whether it was added; False: the name exists, or invalid shape or pose.
        """
        if name in self._poses:
            return self._refuse(f"there is an obstacle '{name}' already")
        if not (isinstance(solid, TriangleMesh) or type(solid) in TYPES):
            return self._refuse(f"obstacles of type {type(solid).__name__} are not implemented")
        pose_function = pose if callable(pose) else None
        try:
            X = _pose(pose_function() if pose_function else pose, name)  # type: ignore[arg-type]
            self.world.add(world_object(name, cast(Solid, solid), X))
        except (MotionError, ValueError, TypeError) as error:
            return self._refuse(str(error))
        self._poses[name] = pose_function
        if static:
            self._static.add(name)
        return True

    def add_cuboid(
        self, name: str, size: ArrayLike, pose: ArrayLike | Pose | None = None, static: bool = False
    ) -> bool:
        """Add a box; ``size``: edge lengths [m], shape (3,)."""
        return self._add(name, lambda: Box(_three(size)), pose, static)

    def add_sphere(
        self, name: str, radius: float, pose: ArrayLike | Pose | None = None, static: bool = False
    ) -> bool:
        """Add a sphere; ``radius`` [m]."""
        return self._add(name, lambda: Sphere(float(radius)), pose, static)

    def add_capsule(
        self,
        name: str,
        radius: float,
        height: float,
        pose: ArrayLike | Pose | None = None,
        static: bool = False,
    ) -> bool:
        """Add a capsule about z; ``radius`` and ``height`` of its cylinder [m]."""
        return self._add(name, lambda: Capsule(float(radius), float(height)), pose, static)

    def add_cylinder(
        self,
        name: str,
        radius: float,
        height: float,
        pose: ArrayLike | Pose | None = None,
        static: bool = False,
    ) -> bool:
        """Add a cylinder about z; ``radius`` and ``height`` [m]."""
        return self._add(name, lambda: Cylinder(float(radius), float(height)), pose, static)

    def add_cone(
        self,
        name: str,
        radius: float,
        height: float,
        pose: ArrayLike | Pose | None = None,
        static: bool = False,
    ) -> bool:
        """Add a cone about z, apex at the top; ``radius`` and ``height`` [m]."""
        return self._add(name, lambda: Cone(float(radius), float(height)), pose, static)

    def add_ground_plane(
        self, name: str = "ground", height: float = 0.0, width: float = _GROUND[0]
    ) -> bool:
        """Add a thin square plate; ``height`` of its top and ``width`` [m]."""
        X = np.eye(4)
        X[2, 3] = height - 0.5 * _GROUND[1]
        return self._add(name, lambda: Box((width, width, _GROUND[1])), X, True)

    def enable_obstacle(self, name: str) -> bool:
        """Enable collision checks with an obstacle; False if unknown or already enabled."""
        return self._enable(name, True)

    def disable_obstacle(self, name: str) -> bool:
        """Disable collision checks with an obstacle; False if unknown or already disabled."""
        return self._enable(name, False)

    def remove_obstacle(self, name: str) -> bool:
        """Remove an obstacle; its name may be used again."""
        if name not in self._poses:
            return self._refuse(f"there is no obstacle '{name}'")
        if name in self.world.scene.objects:
            self.world.remove(name)
        del self._poses[name]
        self._static.discard(name)
        return True

    def update_world(
        self, updated_obstacles: Iterable[str] | None = None, base_moved: bool = False
    ) -> bool:
        """Update the poses of obstacles that have a pose function.

        Args:
            updated_obstacles: names of the obstacles; default: all.
            base_moved: whether the robot's base moved; if so, static obstacles are also updated.

        Returns:
            Whether all poses were valid; obstacles with invalid ones keep their poses.
        """
        done = True
        moved: dict[str, Array] = {}
        for name in list(self._poses) if updated_obstacles is None else updated_obstacles:
            pose_function = self._poses.get(name)
            if name not in self._poses:
                done = self._refuse(f"there is no obstacle '{name}'")
            elif pose_function is not None and (base_moved or name not in self._static):
                try:
                    moved[name] = _pose(pose_function(), name)
                except (MotionError, ValueError, TypeError) as error:
                    done = self._refuse(str(error))
        present = {name: X for name, X in moved.items() if name in self.world.scene.objects}
        if present:
            self.world.move(present)
        return done

    def set_pose(self, name: str, pose: ArrayLike) -> bool:
        """Set the pose of an obstacle, shape (4, 4); False if it is unknown or static."""
        if name not in self.world.scene.objects or name in self._static:
            return self._refuse(f"there is no obstacle '{name}' that may be moved")
        try:
            self.world.move({name: _pose(pose, name)})
        except (MotionError, ValueError, TypeError) as error:
            return self._refuse(str(error))
        return True

    def reset(self) -> bool:
        """Remove all obstacles that were added by this object."""
        self.world.remove(*(name for name in self._poses if name in self.world.scene.objects))
        self._poses.clear()
        self._static.clear()
        return True

    def _add(
        self, name: str, make: Callable[[], Solid], pose: ArrayLike | Pose | None, static: bool
    ) -> bool:
        try:
            solid = make()
        except (TypeError, ValueError) as error:
            return self._refuse(f"obstacle '{name}': {error}")
        return self.add_obstacle(name, solid, pose, static)

    def _enable(self, name: str, enabled: bool) -> bool:
        item = self.world.scene.objects.get(name)
        if name not in self._poses or item is None:
            return self._refuse(f"there is no obstacle '{name}'")
        if item.enabled == enabled:
            return self._refuse(f"obstacle '{name}' is {'en' if enabled else 'dis'}abled already")
        self.world.enable(name, enabled)
        return True

    def _refuse(self, why: str) -> bool:
        """Log an error, equal ones only once; return False."""
        if why not in self._warned:
            self._warned.add(why)
            _LOG.warning("%s; ignored.", why)
        return False


def _three(size: ArrayLike) -> tuple[float, float, float]:
    x, y, z = np.asarray(size, dtype=np.float64).tolist()
    return x, y, z


def _pose(pose: ArrayLike | None, name: str) -> Array:
    given = np.eye(4) if pose is None else np.asarray(pose, dtype=np.float64)
    return checked_pose(given, f"obstacle '{name}'")
