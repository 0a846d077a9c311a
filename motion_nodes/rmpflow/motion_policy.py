# SPDX-License-Identifier: Apache-2.0
"""What any policy of motion offers, RMPflow or another."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from motion_nodes.model.tree import Array
from motion_nodes.scene.scene import Scene


class MotionPolicy(Protocol):
    """Leads some joints of a robot, step by step, towards a target."""

    @property
    def active_joints(self) -> tuple[str, ...]:
        """Joints that are led, in the order of its arrays."""

    @property
    def watched_joints(self) -> tuple[str, ...]:
        """Joints that are only looked at, in the order of its arrays."""

    def set_robot_base_pose(self, X_WB: ArrayLike) -> None:
        """Say where the robot's base frame is in the world, shape (4, 4)."""

    def set_cspace_target(self, q: ArrayLike) -> None:
        """Lead to a posture of the active joints, shape (n,)."""

    def set_end_effector_target(
        self, position: ArrayLike | None = None, orientation: ArrayLike | None = None
    ) -> None:
        """Lead the tool to a position (3,) [m] and to an orientation, quat_xyzw (4,)."""

    def set_scene(self, scene: Scene) -> None:
        """Mind the obstacles of a scene from now on."""

    def compute_joint_targets(
        self,
        active_q: ArrayLike,
        active_qd: ArrayLike,
        watched_q: ArrayLike,
        watched_qd: ArrayLike,
        frame_duration: float,
    ) -> tuple[Array, Array]:
        """Return positions and velocities of the active joints after a time [s], (n,) each."""

    def reset(self) -> None:
        """Forget targets, obstacles and state."""
