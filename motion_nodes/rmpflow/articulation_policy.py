# SPDX-License-Identifier: Apache-2.0
"""A policy's few joints in a robot's many: what to read for it, and where its targets go.

As Isaac Sim's ``ArticulationMotionPolicy`` and ``MotionPolicyController``; joints are found by
name, so the robot may have more of them, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.motion_policy import MotionPolicy
from motion_nodes.rmpflow.validation import joint_numbers
from motion_nodes.scene.scene import Scene, WorldObject
from motion_nodes.scene.world import World


class PolicyJointTargets(NamedTuple):
    """Targets of all joints of a robot, as ``JointCommand`` and ``JointState`` take them."""

    names: tuple[str, ...]
    positions: Array
    """[rad or m], shape (n,); NaN for joints that the policy does not lead."""
    velocities: Array
    """[rad/s or m/s], shape (n,); NaN for joints that the policy does not lead."""

    def padded_with_none(self) -> tuple[list[float | None], list[float | None]]:
        """Return positions and velocities with None where nothing is said."""
        return _with_none(self.positions), _with_none(self.velocities)


class Articulation(Protocol):
    """A robot under command."""

    @property
    def joint_names(self) -> Sequence[str]:
        """All its joints, in its own order."""

    def joint_positions(self) -> ArrayLike:
        """Return where they are [rad or m], shape (n,)."""

    def joint_velocities(self) -> ArrayLike:
        """Return how fast they are [rad/s or m/s], shape (n,)."""

    def apply(self, targets: PolicyJointTargets) -> None:
        """Command them."""


class ArticulationMotionPolicy:
    """Runs a policy on a robot whose joints are more, and in another order."""

    def __init__(
        self,
        robot: Articulation,
        policy: MotionPolicy,
        default_physics_dt: float = 1.0 / 60.0,
    ) -> None:
        """Prepare.

        Args:
            robot: whose joints are read and commanded.
            policy: what leads them.
            default_physics_dt: length of a frame where none is given [s].

        Raises:
            UnknownJoint: the robot lacks a joint that the policy leads or watches.
        """
        self.robot, self.policy = robot, policy
        self.default_physics_dt = default_physics_dt
        names = list(robot.joint_names)
        for name in (*policy.active_joints, *policy.watched_joints):
            if name not in names:
                raise UnknownJoint(name, names, "the robot that the policy shall lead")
        self._names = tuple(names)
        self._active = [names.index(name) for name in policy.active_joints]
        self._watched = [names.index(name) for name in policy.watched_joints]

    def joint_targets(self, dt: float | None = None) -> PolicyJointTargets:
        """Return where all joints shall be after a frame.

        Args:
            dt: length of the frame [s]; None: the default.

        Raises:
            InvalidCommand: the robot's state has another length, or is not finite.
        """
        q, qd = self._read(self.robot.joint_positions()), self._read(self.robot.joint_velocities())
        duration = self.default_physics_dt if dt is None else dt
        state = (q[self._active], qd[self._active], q[self._watched], qd[self._watched])
        positions, velocities = self.policy.compute_joint_targets(*state, duration)
        return PolicyJointTargets(self._names, self._spread(positions), self._spread(velocities))

    def move(self, dt: float | None = None) -> PolicyJointTargets:
        """Command the robot for a frame, and return what it was told."""
        targets = self.joint_targets(dt)
        self.robot.apply(targets)
        return targets

    def _read(self, values: ArrayLike) -> Array:
        numbers = np.array(values, np.float64)
        if numbers.shape != (len(self._names),):
            raise InvalidCommand(
                f"the robot's state has shape {numbers.shape}; it has {len(self._names)} joints."
            )
        used = tuple(self._names[i] for i in (*self._active, *self._watched))
        joint_numbers(numbers[[*self._active, *self._watched]], used, "the robot's state")
        return numbers

    def _spread(self, values: Array) -> Array:
        full = np.full(len(self._names), np.nan)
        full[self._active] = values
        return full


class MotionPolicyController:
    """Leads a robot's tool to a pose, a frame at a time, around obstacles."""

    def __init__(self, name: str, articulation_motion_policy: ArticulationMotionPolicy) -> None:
        self.name = name
        self.articulation_motion_policy = articulation_motion_policy
        self._world = World()

    @property
    def scene(self) -> Scene:
        """Obstacles that are minded."""
        return self._world.scene

    def forward(
        self,
        target_position: ArrayLike,
        target_orientation: ArrayLike | None = None,
        dt: float | None = None,
    ) -> PolicyJointTargets:
        """Return the next targets on the way to a pose.

        Args:
            target_position: of the tool in the world [m], shape (3,).
            target_orientation: quat_xyzw, shape (4,); None: any.
            dt: length of the frame [s]; None: the default.

        Raises:
            InvalidCommand: target or state are no finite numbers; nothing is told.
        """
        policy = self.articulation_motion_policy.policy
        policy.set_end_effector_target(target_position, target_orientation)
        return self.articulation_motion_policy.joint_targets(dt)

    def add_obstacle(self, item: WorldObject) -> None:
        """Mind an obstacle from now on; one of the same name is replaced.

        Raises:
            InvalidCommand: it is none.
        """
        self._world.add(item)
        self._update()

    def move_obstacle(self, name: str, X_WO: Array) -> None:
        """Say where an obstacle is now, shape (4, 4).

        Raises:
            InvalidCommand: there is none of that name, or the pose is none.
        """
        self._world.move({name: X_WO})
        self._update()

    def remove_obstacle(self, name: str) -> None:
        """Mind an obstacle no longer.

        Raises:
            InvalidCommand: there is none of that name.
        """
        self._world.remove(name)
        self._update()

    def reset(self) -> None:
        """Forget obstacles, targets and state."""
        self._world = World()
        self.articulation_motion_policy.policy.reset()

    def _update(self) -> None:
        self.articulation_motion_policy.policy.set_scene(self._world.scene)


def _with_none(values: Array) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


__all__ = [
    "Articulation",
    "ArticulationMotionPolicy",
    "PolicyJointTargets",
    "MotionPolicyController",
]
