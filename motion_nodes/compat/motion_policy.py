# SPDX-License-Identifier: Apache-2.0
"""Interface of motion policies, as in Isaac Sim."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array


class MotionPolicy(Protocol):
    """Moves some joints of a robot towards a target, step by step."""

    @property
    def active_joints(self) -> tuple[str, ...]:
        """Controlled joints, in the order of the arrays."""

    @property
    def watched_joints(self) -> tuple[str, ...]:
        """Joints that are only observed, in the order of the arrays."""

    def set_robot_base_pose(self, X_WB: ArrayLike) -> None:
        """Set the pose of the robot's base frame in the world, shape (4, 4)."""

    def set_cspace_target(self, q: ArrayLike) -> None:
        """Set the target posture of the active joints [rad or m], shape (n,)."""

    def set_end_effector_target(
        self, position: ArrayLike | None = None, orientation: ArrayLike | None = None
    ) -> None:
        """Set the target pose of the tool in the world.

        Args:
            position: position [m], shape (3,); None: unconstrained.
            orientation: quat_xyzw, shape (4,); None: unconstrained.
        """

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
        """Return the targets of the active joints at the end of a frame.

        Args:
            active_q: positions of the active joints [rad or m], shape (n,).
            active_qd: velocities of the active joints [rad/s or m/s], shape (n,).
            watched_q: positions of the watched joints [rad or m], shape (w,).
            watched_qd: velocities of the watched joints [rad/s or m/s], shape (w,).
            frame_duration: frame duration [s].

        Returns:
            Positions [rad or m] and velocities [rad/s or m/s], shape (n,) each.
        """

    def reset(self) -> None:
        """Clear targets, obstacles and state."""
