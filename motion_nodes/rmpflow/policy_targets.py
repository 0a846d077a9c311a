# SPDX-License-Identifier: Apache-2.0
"""What a policy is to do, and among what: targets, posture, stop, base, obstacles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.tree import Array, frozen
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.rmpflow.policy_state import ObservedPolicy
from motion_nodes.rmpflow.validation import finite_numbers, joint_numbers
from motion_nodes.scene.scene import Scene, checked_pose


class TargetedPolicy(ObservedPolicy):
    """The part of a policy that takes targets and surroundings; who extends it makes the steps."""

    _default_posture: Array
    _posture: Array
    _position: Array | None
    _rotation: Array | None
    _stopping: bool
    _braked: float

    def set_robot_base_pose(self, X_WB: ArrayLike) -> None:
        """Say where the robot's base frame is in the world, shape (4, 4).

        Raises:
            InvalidCommand: it is no pose.
        """
        X = checked_pose(np.asarray(X_WB, np.float64), "base of the robot")
        self._surroundings.set_base(X)
        self._refresh_goal()

    @property
    def default_cspace_target(self) -> Array:
        """Posture that is kept to where none was set, shape (n,)."""
        return self._default_posture

    def set_cspace_target(self, q: ArrayLike) -> None:
        """Lead to a posture; with a target of the tool it settles what the target leaves open.

        Args:
            q: positions of the active joints [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong number of positions, or one that is not finite.
        """
        self._posture = frozen(joint_numbers(q, self.active_joints, "posture"))
        self._stopping = False
        self._refresh_goal()

    def set_end_effector_target(
        self, position: ArrayLike | None = None, orientation: ArrayLike | None = None
    ) -> None:
        """Lead the tool to a position and an orientation in the world, or to one of them.

        Args:
            position: of the tool [m], shape (3,); None: any.
            orientation: of the tool, quat_xyzw, shape (4,); None: any. Without both, the posture
                alone leads.

        Raises:
            InvalidCommand: numbers that are not finite, too few or too many, or no rotation.
        """
        p = None if position is None else finite_numbers(position, 3, "position")
        R = None
        if orientation is not None:
            quaternion = finite_numbers(orientation, 4, "orientation (quat_xyzw)")
            if np.linalg.norm(quaternion) < 1e-6:
                raise InvalidCommand("the target's orientation (quat_xyzw) is zero.")
            R = from_xyz_quat((0.0, 0.0, 0.0), quaternion)[:3, :3]
        self._position, self._rotation = p, R
        self._stopping = False
        self._refresh_goal()

    def set_goal(self, goal: Goal) -> None:
        """Lead to posture and tool's pose at once; numbers that were checked before, in the world.

        The faster way for those who move the goal in each frame.
        """
        self._posture, self._position, self._rotation = goal.posture, goal.position, goal.rotation
        self._stopping = False
        self._refresh_goal()

    def stop(self) -> None:
        """Come to rest, damped, and stay there until there is a new target.

        Obstacles and limits are minded all the while. For a target that was lost.
        """
        self._position = self._rotation = None
        if not self._stopping:
            self._braked = 0.0
        self._stopping = True
        self._refresh_goal()

    def set_scene(self, scene: Scene) -> None:
        """Mind the obstacles of a scene, and what the tool carries, from now on.

        Objects that are disabled, or that all links may touch, have no effect. How objects move is
        seen from scene to scene, in the time of the frames between them.

        Raises:
            InvalidCommand: something is attached that cannot be minded; the scene before stays.
        """
        self._surroundings.set_scene(scene)

    def set_obstacle_twists(self, twists: Mapping[str, ArrayLike]) -> None:
        """Say how obstacles move, instead of seeing it from scene to scene.

        Args:
            twists: by name of the object: velocity of its origin [m/s] and angular velocity
                [rad/s] in the world, shape (6,). They hold until the next call.

        Raises:
            InvalidCommand: numbers that are not finite, or not six.
        """
        self._surroundings.set_twists(
            {name: finite_numbers(twist, 6, f"twist of '{name}'") for name, twist in twists.items()}
        )

    def elapse(self, duration: float) -> None:
        """Let time [s] go by without a frame, for how fast obstacles are seen to move."""
        self._surroundings.elapse(duration)

    def _refresh_goal(self) -> None:
        """Restate the targets in the base frame."""
        X_BW = self._surroundings.X_BW
        p, R = self._position, self._rotation
        position = None if p is None else X_BW[:3, :3] @ p + X_BW[:3, 3]
        rotation = None if R is None else X_BW[:3, :3] @ R
        self._evaluator.set_goal(Goal(self._posture, position, rotation))
