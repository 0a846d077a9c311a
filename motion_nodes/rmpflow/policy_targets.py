# SPDX-License-Identifier: Apache-2.0
"""Inputs of a policy: targets, posture, stop, base pose, obstacles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.joint_turns import JointTurns
from motion_nodes.model.poses import from_xyz_quat
from motion_nodes.model.tree import Array, frozen
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.rmpflow.policy_state import ObservedPolicy
from motion_nodes.rmpflow.validation import finite_numbers, joint_numbers
from motion_nodes.scene.scene import Scene, checked_pose


class TargetedPolicy(ObservedPolicy):
    """Base class of a policy with targets and obstacles; subclasses implement the steps."""

    turns: JointTurns
    """Differences of positions of the active joints."""
    _default_posture: Array
    _posture: Array
    _position: Array | None
    _rotation: Array | None
    _stopping: bool
    _braked: float

    def set_robot_base_pose(self, X_WB: ArrayLike) -> None:
        """Set the pose of the robot's base frame in the world, shape (4, 4).

        Raises:
            InvalidCommand: invalid pose.
        """
        X = checked_pose(np.asarray(X_WB, np.float64), "base of the robot")
        self._surroundings.set_base(X)
        self._refresh_goal()

    @property
    def default_cspace_target(self) -> Array:
        """Default posture of the active joints [rad or m], shape (n,)."""
        return self._default_posture

    def set_cspace_target(self, q: ArrayLike) -> None:
        """Set the target posture; with a target of the tool it resolves the redundancy.

        Args:
            q: positions of the active joints [rad or m], shape (n,).

        Raises:
            InvalidCommand: wrong length, or values that are not finite.
        """
        self._posture = frozen(joint_numbers(q, self.active_joints, "posture"))
        self._stopping = False
        self._refresh_goal()

    def set_end_effector_target(
        self, position: ArrayLike | None = None, orientation: ArrayLike | None = None
    ) -> None:
        """Set the target position and orientation of the tool in the world, or one of them.

        Args:
            position: of the tool [m], shape (3,); None: unconstrained.
            orientation: of the tool, quat_xyzw, shape (4,); None: unconstrained. Without both, only
                the posture is active.

        Raises:
            InvalidCommand: values that are not finite, wrong lengths, or no rotation.
        """
        p = None if position is None else finite_numbers(position, 3, "position")
        R = None
        if orientation is not None:
            quaternion = finite_numbers(orientation, 4, "orientation (quat_xyzw)")
            if np.linalg.norm(quaternion) < 1e-6:
                raise InvalidCommand(
                    "the target's orientation (quat_xyzw) is zero.", field="orientation"
                )
            R = from_xyz_quat((0.0, 0.0, 0.0), quaternion)[:3, :3]
        self._position, self._rotation = p, R
        self._stopping = False
        self._refresh_goal()

    def set_goal(self, goal: Goal) -> None:
        """Set posture and tool pose in the world at once, without validation.

        Faster for goals that move in each frame.
        """
        self._posture, self._position, self._rotation = goal.posture, goal.position, goal.rotation
        self._stopping = False
        self._refresh_goal()

    def stop(self) -> None:
        """Stop with damping, and stay at rest until there is a new target.

        Obstacles and limits are respected. For lost targets.
        """
        self._position = self._rotation = None
        if not self._stopping:
            self._braked = 0.0
        self._stopping = True
        self._refresh_goal()

    def set_scene(self, scene: Scene, now: float | None = None) -> None:
        """Set the obstacles and attached bodies.

        Objects that are disabled, or with which all links may collide, have no effect. The twists
        of objects are estimated from successive scenes, and their poses predicted in between.

        Args:
            scene: the world.
            now: time on the clock of the objects' stamps (``observed_at``) [s]; None: poses count
                as observed now.

        Raises:
            InvalidCommand: an attached body is not supported; the previous scene stays.
        """
        self._surroundings.set_scene(scene, now)

    def set_obstacle_twists(self, twists: Mapping[str, ArrayLike]) -> None:
        """Set the twists of obstacles, instead of estimating them from successive scenes.

        Args:
            twists: by name of the object: velocity of its origin [m/s] and angular velocity [rad/s]
                in the world, shape (6,). They are valid until the next call.

        Raises:
            InvalidCommand: values that are not finite, or wrong lengths.
        """
        self._surroundings.set_twists(
            {name: finite_numbers(twist, 6, f"twist of '{name}'") for name, twist in twists.items()}
        )

    def elapse(self, duration: float) -> None:
        """Advance the time [s] without a frame, for the estimation of obstacle twists."""
        self._surroundings.elapse(duration)

    def _turn_posture(self, q: Array) -> None:
        """Approach the posture the short way from positions [rad or m], shape (n,)."""
        if self.turns.any and not self._stopping:
            near = self.turns.nearest(self._posture, q)
            if not np.array_equal(near, self._posture):
                self._posture = frozen(near)
                self._refresh_goal()

    def _refresh_goal(self) -> None:
        """Transform the targets to the base frame."""
        X_BW = self._surroundings.X_BW
        p, R = self._position, self._rotation
        position = None if p is None else X_BW[:3, :3] @ p + X_BW[:3, 3]
        rotation = None if R is None else X_BW[:3, :3] @ R
        self._evaluator.set_goal(Goal(self._posture, position, rotation))
