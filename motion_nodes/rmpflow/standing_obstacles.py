# SPDX-License-Identifier: Apache-2.0
"""Exact collision checks of a policy's motion against static obstacles.

Moving objects are handled by the RMPs, which retreat: braking would not avoid them. Voxels of
cameras, which change with each image, are handled by the RMPs, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.convex_pieces import pieces_of
from motion_nodes.scene.exact_checks import ExactChecks
from motion_nodes.scene.moved_links import scene_for
from motion_nodes.scene.scene import Scene, difference
from motion_nodes.scene.shapes import TriangleMesh
from motion_nodes.scene.voxels import Voxels
from motion_nodes.typing import Array

ENDS = np.array([0.0, 1.0])
"""Path parameters of the ends of a straight path."""


def prepare(scene: Scene) -> None:
    """Prepare the new meshes of a scene outside the control loop; may take seconds."""
    solids = (part.solid for item in scene.objects.values() for part in item.parts)
    pieces_of([solid for solid in solids if isinstance(solid, TriangleMesh)])


class StandingObstacles:
    """Objects at rest of a policy's scene; not thread-safe."""

    def __init__(self, policy: RmpflowPolicy, joints: Sequence[str]) -> None:
        """Create without obstacles.

        Args:
            policy: provides the scene and the twists of objects.
            joints: joints of configurations, the policy's active and watched ones.
        """
        self._policy = policy
        self._checker = CollisionChecker(policy.robot, joints)
        self._base = policy.base_pose
        self._scene: Scene | None = None
        self._moving = frozenset[str]()
        self._standing = Scene()
        self._exact: ExactChecks | None = None

    def update(self) -> bool:
        """Read the policy's scene; return whether objects at rest have changed."""
        policy = self._policy
        if policy.base_pose is not self._base and not np.array_equal(policy.base_pose, self._base):
            # Relative to a moving base all obstacles move.
            self._base, self._scene, self._exact = policy.base_pose, None, None
            return True
        scene, moving = policy.scene, frozenset(policy.obstacle_twists)
        if scene is self._scene and moving == self._moving:
            return False
        first = self._scene is None
        self._scene, self._moving = scene, moving
        objects = {
            name: item
            for name, item in scene.objects.items()
            if name not in moving and not any(isinstance(p.solid, Voxels) for p in item.parts)
        }
        standing = replace(scene, objects=MappingProxyType(objects))
        if not first and difference(self._standing, standing).empty:
            return False
        self._standing = standing
        self._exact = self._checks(standing) if objects else None
        return True

    def free(self, path: Array, finest: float) -> bool:
        """Return whether a straight path [rad or m], shape (2, n), is collision-free.

        Args:
            path: its ends.
            finest: shorter parts, as a fraction, are free if their midpoints are.
        """
        return self._exact is None or self._exact.sweep(path, ENDS, 1, finest).free

    def _checks(self, scene: Scene) -> ExactChecks:
        checker = self._checker
        checker.set_base_pose(self._base)
        checker.set_scene(scene_for(checker.robot, checker.joint_names, scene))
        return checker.exact
