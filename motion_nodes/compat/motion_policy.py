# SPDX-License-Identifier: Apache-2.0
"""Interface of motion policies."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from motion_nodes.model.tree import Array
from motion_nodes.scene.scene import Scene


class MotionPolicy(Protocol):
    """Moves some joints of a robot, step by step, towards a target."""

    @property
    def active_joints(self) -> tuple[str, ...]:
        """Joints moved by the policy, in the order of its arrays."""

    @property
    def watched_joints(self) -> tuple[str, ...]:
        """Joints that are only observed, in the order of its arrays."""

    def set_robot_base_pose(self, X_WB: ArrayLike) -> None:
        """Set the pose of the robot's base frame in the world, shape (4, 4)."""

    def set_cspace_target(self, q: ArrayLike) -> None:
        """Set the target posture of the active joints [rad or m], shape (n,)."""

    def set_end_effector_target(
        self, position: ArrayLike | None = None, orientation: ArrayLike | None = None
    ) -> None:
        """Set the target position of the tool (3,) [m] and its orientation, quat_xyzw (4,)."""

    def set_scene(self, scene: Scene) -> None:
        """Set the obstacles."""

    def compute_joint_targets(
        self,
        active_q: ArrayLike,
        active_qd: ArrayLike,
        watched_q: ArrayLike,
        watched_qd: ArrayLike,
        frame_duration: float,
    ) -> tuple[Array, Array]:
        """Return positions and velocities of the active joints after a duration [s], (n,) each."""

    def reset(self) -> None:
        """Clear targets, obstacles and state."""
