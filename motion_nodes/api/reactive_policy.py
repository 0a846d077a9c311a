# SPDX-License-Identifier: Apache-2.0
"""Reactive motion of a joint group by RMPflow or by the reactive MPC."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.api.group_inputs import shape_of
from motion_nodes.core.reactive.mpc_policy import MpcPolicy
from motion_nodes.core.reactive.mpc_settings import MpcSettings
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import PolicyStatus
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scene import checked_pose
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, check_type
from motion_nodes.typing import Array


class ReactivePolicy:
    """Moves a group's tip to a target, avoids obstacles and respects joint limits.

    By RMPflow, or by the reactive MPC, which escapes local minima by prediction.
    """

    rmpflow: RmpflowPolicy
    """The underlying policy: settings, postures, obstacle velocities, metrics of each RMP."""

    def __init__(
        self,
        robot: Robot,
        group: str,
        tip: str,
        world: World | None = None,
        *,
        mpc: MpcSettings | None = None,
        others: Array | None = None,
    ) -> None:
        """Create a policy; usually ``group.rmpflow(world)`` or ``group.mpc(world)``.

        The first policy of a robot generates and compiles its code.

        Args:
            robot: description of the robot.
            group: name of the group.
            tip: controlled frame.
            world: obstacles; None: none.
            mpc: settings of the reactive MPC; None: RMPflow.
            others: positions of all joints of the robot, of which those outside of the group count
                [rad or m], shape (N,); None: home.

        Raises:
            InvalidDescription: the robot has no RMPflow settings.
        """
        if mpc is None:
            self.rmpflow = RmpflowPolicy(robot, joints=group, tool=tip)
        else:
            self.rmpflow = MpcPolicy(robot, joints=group, tool=tip, mpc=mpc)
        self._watched = None
        if others is not None:
            self._watched = others[robot.indices(self.rmpflow.watched_joints)]
        check_type(world, World, "world")
        self._world = world
        self._revision = -1

    def __repr__(self) -> str:
        return f"ReactivePolicy({self.rmpflow.tool} by {', '.join(self.joint_names)})"

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Controlled joints, in the order of ``q``."""
        return self.rmpflow.active_joints

    @property
    def status(self) -> PolicyStatus:
        """Distance to the target [m, rad], and whether the policy is stuck or stopping."""
        return self.rmpflow.status

    def step(
        self, q: ArrayLike, qd: ArrayLike, target: ArrayLike | None, dt: float = 0.01
    ) -> tuple[Array, Array]:
        """Compute the next joint reference.

        Uses the current obstacles of the world; their velocities are estimated from step to step.

        Args:
            q: measured positions [rad or m], shape (n,).
            qd: measured velocities [rad/s or m/s], shape (n,).
            target: pose of the tip in the robot's base frame, shape (4, 4); or its position alone
                [m], shape (3,); None: stop.
            dt: time step [s].

        Returns:
            Positions [rad or m] and velocities [rad/s or m/s] at the end of the step, (n,) each.

        Raises:
            InvalidCommand: wrong lengths, numbers that are not finite, or not a rigid pose; nothing
                changes.
            InvalidConfig: a time step that is not positive and finite.
        """
        self._set_target(target)
        if self._world is not None and self._world.revision != self._revision:
            scene = self._world.scene
            self.rmpflow.set_scene(scene)
            self._revision = scene.revision
        return self.rmpflow.compute_joint_targets(q, qd, self._watched, frame_duration=dt)

    def clearance(self) -> float:
        """Return the min distance between robot and obstacles [m]; infinite without obstacles."""
        return self.rmpflow.clearance()

    def reset(self) -> None:
        """Clear the target, the obstacles and the internal state."""
        self.rmpflow.reset()
        self._revision = -1

    def _set_target(self, target: ArrayLike | None) -> None:
        if target is None:
            self.rmpflow.stop()
            return
        shape = shape_of(target)
        if shape == (3,):
            self.rmpflow.set_end_effector_target(np.asarray(target, dtype=np.float64))
        elif shape == (4, 4):
            X = checked_pose(np.asarray(target, dtype=np.float64), "target")
            self.rmpflow.set_end_effector_target(X[:3, 3], to_quat_xyzw(X))
        else:
            raise InvalidCommand(
                "target must be a pose of shape (4, 4) or a position of shape (3,), got shape "
                f"{shape}.",
                field="target",
            )
