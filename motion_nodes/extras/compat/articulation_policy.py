# SPDX-License-Identifier: Apache-2.0
"""Mapping between a policy's joints and all joints of a robot.

Counterpart of Isaac Sim's ``ArticulationMotionPolicy`` and ``MotionPolicyController``; joints are
matched by name, so the robot may have more of them, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.scene.scene import Scene, WorldObject
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.typing import Array

__all__ = [
    "Articulation",
    "ArticulationMotionPolicy",
    "MotionPolicyController",
    "PolicyJointTargets",
]


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


class PolicyJointTargets(NamedTuple):
    """Targets of all joints of a robot, as accepted by ``JointCommand`` and ``JointState``."""

    names: tuple[str, ...]
    positions: Array
    """Positions [rad or m], shape (n,); NaN for joints that the policy does not control."""
    velocities: Array
    """Velocities [rad/s or m/s], shape (n,); NaN for joints that the policy does not control."""

    def padded_with_none(self) -> tuple[list[float | None], list[float | None]]:
        """Return positions [rad or m] and velocities [rad/s or m/s], with None instead of NaN."""
        return _with_none(self.positions), _with_none(self.velocities)


class Articulation(Protocol):
    """Interface of a controlled robot."""

    @property
    def joint_names(self) -> Sequence[str]:
        """All joints, in the order of the arrays."""

    def joint_positions(self) -> ArrayLike:
        """Return the measured positions [rad or m], shape (n,)."""

    def joint_velocities(self) -> ArrayLike:
        """Return the measured velocities [rad/s or m/s], shape (n,)."""

    def apply(self, targets: PolicyJointTargets) -> None:
        """Command the joints."""


class ArticulationMotionPolicy:
    """Runs a policy on a robot, which may have more joints in another order."""

    def __init__(
        self, robot: Articulation, policy: MotionPolicy, default_physics_dt: float = 1.0 / 60.0
    ) -> None:
        """Connect a policy to a robot.

        Args:
            robot: measured and commanded robot.
            policy: motion policy.
            default_physics_dt: default frame duration [s].

        Raises:
            UnknownJoint: the robot does not have an active or watched joint of the policy.
        """
        self.robot, self.policy = robot, policy
        self.default_physics_dt = default_physics_dt
        names = list(robot.joint_names)
        for name in (*policy.active_joints, *policy.watched_joints):
            if name not in names:
                raise UnknownJoint(name, names, "the robot of the policy")
        self._names = tuple(names)
        self._active = [names.index(name) for name in policy.active_joints]
        self._watched = [names.index(name) for name in policy.watched_joints]

    def joint_targets(self, dt: float | None = None) -> PolicyJointTargets:
        """Return the targets of all joints at the end of a frame.

        Args:
            dt: frame duration [s]; None: the default.

        Raises:
            InvalidCommand: the robot's state has the wrong length, or is not finite.
        """
        q, qd = self._read(self.robot.joint_positions()), self._read(self.robot.joint_velocities())
        duration = self.default_physics_dt if dt is None else dt
        state = (q[self._active], qd[self._active], q[self._watched], qd[self._watched])
        positions, velocities = self.policy.compute_joint_targets(*state, duration)
        return PolicyJointTargets(self._names, self._spread(positions), self._spread(velocities))

    def move(self, dt: float | None = None) -> PolicyJointTargets:
        """Command the joint targets at the end of a frame, and return them.

        Args:
            dt: frame duration [s]; None: the default.

        Raises:
            InvalidCommand: the robot's state has the wrong length, or is not finite.
        """
        targets = self.joint_targets(dt)
        self.robot.apply(targets)
        return targets

    def _read(self, values: ArrayLike) -> Array:
        numbers = np.array(values, np.float64)
        if numbers.shape != (len(self._names),):
            raise InvalidCommand(
                f"the robot's state has shape {numbers.shape}; it has {len(self._names)} joints.",
                field="the robot's state",
            )
        used = tuple(self._names[i] for i in (*self._active, *self._watched))
        finite_numbers(numbers[[*self._active, *self._watched]], used, "the robot's state")
        return numbers

    def _spread(self, values: Array) -> Array:
        full = np.full(len(self._names), np.nan)
        full[self._active] = values
        return full


class MotionPolicyController:
    """Moves a robot's tool to a pose and avoids obstacles, frame by frame."""

    def __init__(self, name: str, articulation_motion_policy: ArticulationMotionPolicy) -> None:
        self.name = name
        self.articulation_motion_policy = articulation_motion_policy
        self._world = World()

    @property
    def scene(self) -> Scene:
        """Obstacles in use."""
        return self._world.scene

    def forward(
        self,
        target_position: ArrayLike,
        target_orientation: ArrayLike | None = None,
        dt: float | None = None,
    ) -> PolicyJointTargets:
        """Return the next joint targets towards a pose.

        Args:
            target_position: target position of the tool in the world [m], shape (3,).
            target_orientation: target quat_xyzw in the world, shape (4,); None: unconstrained.
            dt: frame duration [s]; None: the default.

        Raises:
            InvalidCommand: target or state are not finite; nothing is commanded.
        """
        policy = self.articulation_motion_policy.policy
        policy.set_end_effector_target(target_position, target_orientation)
        return self.articulation_motion_policy.joint_targets(dt)

    def add_obstacle(self, item: WorldObject) -> None:
        """Add an obstacle; one of the same name is replaced.

        Raises:
            InvalidCommand: the object is not valid.
        """
        self._world.add(item)
        self._update()

    def move_obstacle(self, name: str, X_WO: Array) -> None:
        """Set the pose of an obstacle.

        Args:
            name: name of the obstacle.
            X_WO: pose in the world, shape (4, 4).

        Raises:
            InvalidCommand: unknown name, or invalid pose.
        """
        self._world.move({name: X_WO})
        self._update()

    def remove_obstacle(self, name: str) -> None:
        """Remove an obstacle.

        Raises:
            InvalidCommand: unknown name.
        """
        self._world.remove(name)
        self._update()

    def reset(self) -> None:
        """Clear obstacles, targets and state."""
        self._world = World()
        self.articulation_motion_policy.policy.reset()

    def _update(self) -> None:
        self.articulation_motion_policy.policy.set_scene(self._world.scene)


def _with_none(values: Array) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
