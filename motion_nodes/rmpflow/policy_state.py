# SPDX-License-Identifier: Apache-2.0
"""Read-only part of a policy: its joints, its state, and derived quantities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.compiled_policy import Evaluator
from motion_nodes.rmpflow.integration import JointMotion
from motion_nodes.rmpflow.numpy_policy import NumpyEvaluation
from motion_nodes.rmpflow.obstacle_scene import MovingScene
from motion_nodes.rmpflow.policy_view import PolicyView
from motion_nodes.rmpflow.progress import StuckSettings, TargetProgress
from motion_nodes.rmpflow.validation import joint_numbers
from motion_nodes.scene.scene import Scene


class ObservedPolicy:
    """Read-only base class of a policy; subclasses fill in the state."""

    _evaluator: Evaluator
    _surroundings: MovingScene
    _state: JointMotion | None
    # offset from the state to the positions used by the RMPs: lag of the measured joints
    _sag: Array
    _watched_q: Array
    _watched_qd: Array
    _progress: TargetProgress

    @property
    def active_joints(self) -> tuple[str, ...]:
        """Joints moved by the policy, in the order of its arrays."""
        return self._evaluator.active

    @property
    def watched_joints(self) -> tuple[str, ...]:
        """Joints that only move links passively, in the order of its arrays."""
        return self._evaluator.watched

    @property
    def settings(self) -> RmpflowSettings:
        """Parameters in use."""
        return self._evaluator.settings

    @property
    def scene(self) -> Scene:
        """Obstacles in use, and attached bodies."""
        return self._surroundings.scene

    @property
    def obstacle_twists(self) -> dict[str, Array]:
        """Twists of objects that move, in the world [m/s, rad/s], shape (6,) each."""
        return self._surroundings.twists

    @property
    def base_pose(self) -> Array:
        """Pose of the robot's base frame in the world, shape (4, 4)."""
        return self._surroundings.X_WB

    @property
    def stuck_settings(self) -> StuckSettings:
        """Criteria for a stuck policy."""
        return self._progress.settings

    @property
    def stuck(self) -> bool:
        """Whether the target made no progress for the patience time."""
        return self._progress.stuck

    def view(self) -> PolicyView | None:
        """Return all inputs of the next step, for inspection; None before any state."""
        if self._state is None:
            return None
        around = self._surroundings
        return PolicyView(
            self._whole_q(),
            np.concatenate((self._state.qd, self._watched_qd)),
            self._evaluator.goal,
            around.scene,
            around.twists,
            around.X_WB,
            self.settings,
        )

    def report(self) -> NumpyEvaluation | None:
        """Return the contribution of each RMP in the current state; None before any."""
        if self._state is None:
            return None
        qd = np.concatenate((self._state.qd, self._watched_qd))
        return self._evaluator.report(self._whole_q(), qd)

    def tool_pose(self, active_q: ArrayLike) -> Array:
        """Return the pose of the tool in the world, shape (4, 4).

        Raises:
            InvalidCommand: wrong number of positions, or one that is not finite.
        """
        q = joint_numbers(active_q, self.active_joints, "active_q")
        X_BT = self._evaluator.tool_pose(np.concatenate((q, self._watched_q)))
        return np.asarray(self._surroundings.X_WB @ X_BT)

    def sphere_positions(self) -> Array:
        """Return the spheres of the policy's own state in the world [m], shape (s, 4)."""
        if self._state is None:
            return np.empty((0, 4))
        spheres = self._evaluator.sphere_positions(self._whole_q())
        X_WB = self._surroundings.X_WB
        spheres[:, :3] = spheres[:, :3] @ X_WB[:3, :3].T + X_WB[:3, 3]
        return spheres

    def clearance(self) -> float:
        """Return the min distance of a sphere to an obstacle [m]; inf without obstacles."""
        if self._state is None:
            return float("inf")
        return float(self._evaluator.clearances(self._whole_q()).min(initial=np.inf))

    @property
    def seen_positions(self) -> Array:
        """Positions of the active joints as used by the RMPs [rad or m], shape (n,)."""
        assert self._state is not None
        return np.asarray(self._state.q + self._sag)

    def _whole_q(self) -> Array:
        return np.concatenate((self.seen_positions, self._watched_q))
