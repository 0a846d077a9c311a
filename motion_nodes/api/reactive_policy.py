# SPDX-License-Identifier: Apache-2.0
"""RMPflow for one group, one step at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand
from motion_nodes.model.poses import to_quat_xyzw
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.status import PolicyStatus
from motion_nodes.scene.scene import checked_pose
from motion_nodes.scene.world import World


class ReactivePolicy:
    """Moves a group's tip to a target, around obstacles and within all limits, by RMPflow."""

    rmpflow: RmpflowPolicy
    """The policy behind it: settings, postures, obstacle velocities, metrics of each RMP."""

    def __init__(self, robot: Robot, group: str, tip: str, world: World | None = None) -> None:
        """Prepare; ``group.rmpflow(world)`` makes one. Code is generated once for a robot."""
        self.rmpflow = RmpflowPolicy(robot, joints=group, tool=tip)
        self._world = world
        self._revision = -1

    def __repr__(self) -> str:
        """Return tip and joints."""
        return f"ReactivePolicy({self.rmpflow.tool} by {', '.join(self.joint_names)})"

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints that it moves, in the order of ``q``."""
        return self.rmpflow.active_joints

    @property
    def status(self) -> PolicyStatus:
        """Errors to the target [m, rad], and whether the policy is stuck or stopping."""
        return self.rmpflow.status

    def step(
        self, q: ArrayLike, qd: ArrayLike, target: ArrayLike | None, dt: float = 0.01
    ) -> tuple[Array, Array]:
        """Return the next joint reference.

        Obstacles are those of the world now; how they move is observed from step to step.

        Args:
            q: measured positions [rad or m], shape (n,).
            qd: measured velocities [rad/s or m/s], shape (n,).
            target: pose of the tip in the robot's base frame, shape (4, 4); or its position alone
                [m], shape (3,); None: come to rest.
            dt: period [s].

        Returns:
            Positions [rad or m] and velocities [rad/s or m/s] at the end of the period, (n,) each.

        Raises:
            InvalidCommand: wrong lengths, numbers that are not finite, or no pose; nothing changes.
            InvalidConfig: a period that is not positive and finite.
        """
        self._set_target(target)
        if self._world is not None and self._world.revision != self._revision:
            scene = self._world.scene
            self.rmpflow.set_scene(scene)
            self._revision = scene.revision
        return self.rmpflow.compute_joint_targets(q, qd, frame_duration=dt)

    def clearance(self) -> float:
        """Return the min distance of the robot from an obstacle [m]; inf without obstacles."""
        return self.rmpflow.clearance()

    def reset(self) -> None:
        """Forget target, obstacles and state."""
        self.rmpflow.reset()
        self._revision = -1

    def _set_target(self, target: ArrayLike | None) -> None:
        if target is None:
            self.rmpflow.stop()
            return
        values = np.asarray(target, dtype=np.float64)
        if values.shape == (3,):
            self.rmpflow.set_end_effector_target(values)
        elif values.shape == (4, 4):
            X = checked_pose(values, "target")
            self.rmpflow.set_end_effector_target(X[:3, 3], to_quat_xyzw(X))
        else:
            raise InvalidCommand(
                "a target is a pose of shape (4, 4) or a position of shape (3,), got shape "
                f"{values.shape}."
            )
