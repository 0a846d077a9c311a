# SPDX-License-Identifier: Apache-2.0
"""Joints, limits, frames, named states and forward kinematics of a joint group."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.api.group_inputs import GroupInputs, RobotState
from motion_nodes.errors import InvalidCommand
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.solver import LeastSquaresIk
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, frozen
from motion_nodes.scene.configurations import checked_state

_STATES = 16
"""Number of states whose prepared groups are kept."""


class GroupMembers:
    """Members of a planning group; base class of ``JointGroup``."""

    def __init__(self, robot: Robot, name: str) -> None:
        """Select a group; usually by ``robot[name]``.

        Args:
            robot: description of the robot.
            name: name or alias of the group, or of several with ``+`` between them.

        Raises:
            UnknownGroup: lists names and aliases.
        """
        self._robot, self._group = robot, robot.group(name)
        self._inputs = GroupInputs(robot, self._group.name)
        self._elsewhere: dict[bytes, Self] = {}

    def at(self, state: RobotState | None) -> Self:
        """Return the same group with the joints outside of it at other positions.

        Args:
            state: positions by joint, joints that are not named are at home; or of all joints of
                the robot, shape (N,), such as a measured state; or a named state [rad or m]. Those
                of the group's own joints are not used. None: this group.

        Raises:
            UnknownJoint, UnknownState: unknown name.
            InvalidCommand: a value that is not finite or outside of its limits, the wrong number of
                values, or a mimic joint elsewhere than its joint says.
        """
        if state is None:
            return self
        positions = frozen(checked_state(self._robot, state))
        outside = np.ones(len(positions), np.bool_)
        outside[self._group.indices] = False
        key = positions[outside].tobytes()
        if key == self._inputs.positions[outside].tobytes():
            return self
        known = self._elsewhere.get(key)
        if known is None:
            known = copy.copy(self)
            for name in ("_kinematics", "_solver"):
                known.__dict__.pop(name, None)
            known._inputs = self._inputs.at(positions)
            known._elsewhere = {}
            while len(self._elsewhere) >= _STATES:
                self._elsewhere.pop(next(iter(self._elsewhere), b""), None)
            self._elsewhere[key] = known
        return known

    def __repr__(self) -> str:
        """Return name, joints, base and tip."""
        tips = " and ".join(self.tips)
        ends = f": {self._group.base or self._robot.base_frame} to {tips}" if tips else ""
        return f"JointGroup({self.name}, {len(self.joint_names)} joints{ends})"

    @property
    def name(self) -> str:
        """Name of the group."""
        return self._group.name

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints from base to tip, in the order of ``q``."""
        return self._group.joints

    @property
    def limits(self) -> JointLimits:
        """Limits of position, velocity, acceleration, jerk and effort, shape (n,) each."""
        return self._group.limits

    @property
    def base(self) -> str | None:
        """Reference frame of poses; None for a group that is not a chain."""
        return self._group.base

    @property
    def tip(self) -> str | None:
        """Frame that poses refer to; None for a group that is not a chain."""
        return self._group.tip

    @property
    def tips(self) -> tuple[str, ...]:
        """Tips of all chains: one for an arm, two for a group of both arms."""
        return self._group.tips

    @property
    def state_names(self) -> tuple[str, ...]:
        """Named states that contain joints of this group."""
        names, states = set(self.joint_names), self._robot.states
        return tuple(n for n, state in states.items() if n == "home" or set(state) & names)

    def state(self, name: str) -> Array:
        """Return a named state [rad or m], shape (n,), read-only.

        Args:
            name: one of ``state_names``.

        Raises:
            UnknownState: lists the states of this group.
        """
        return self._robot.named_state(name, self.name)

    def random(self, count: int | None = None, *, seed: int | None = None) -> Array:
        """Return uniformly distributed random configurations within the position limits.

        Joints without limits are sampled in [-pi, pi].

        Args:
            count: number of configurations; None: one, without the first dimension.
            seed: random seed; None: not reproducible.

        Returns:
            Configurations [rad or m], shape (n,) or (count, n).

        Raises:
            InvalidCommand: a negative number or seed.
        """
        if (count or 0) < 0 or (seed or 0) < 0:
            raise InvalidCommand(f"count is {count} and seed {seed}; both must be 0 or above.")
        low = np.nan_to_num(self.limits.lower, neginf=-np.pi)
        high = np.nan_to_num(self.limits.upper, posinf=np.pi)
        size = low.shape if count is None else (count, len(low))
        return np.random.default_rng(seed).uniform(low, high, size)

    # ---- forward kinematics

    def fk(
        self, q: ArrayLike, frame: str | None = None, *, state: RobotState | None = None
    ) -> Array:
        """Compute forward kinematics: the pose of the tip in the group's base.

        Args:
            q: configuration [rad or m], shape (n,).
            frame: frame instead of the tip.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``X_BT``, shape (4, 4).

        Raises:
            InvalidCommand: not n finite numbers.
            UnknownFrame: lists the frames.
            InvalidConfig: the group has no tip and ``frame`` is not given.
        """
        return self.at(state)._kinematics.pose(q, self._inputs.frame(frame))

    def fk_batch(
        self, Q: ArrayLike, frame: str | None = None, *, state: RobotState | None = None
    ) -> Array:
        """Compute forward kinematics of m configurations; see :meth:`fk`.

        Args:
            Q: configurations [rad or m], shape (m, n).
            frame: frame instead of the tip.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``X_BT`` of each configuration, shape (m, 4, 4).

        Raises:
            InvalidCommand: wrong shape, or numbers that are not finite.
            UnknownFrame: lists the frames.
            InvalidConfig: the group has no tip and ``frame`` is not given.
        """
        return self.at(state)._kinematics.pose_batch(Q, self._inputs.frame(frame))

    def jacobian(
        self, q: ArrayLike, frame: str | None = None, *, state: RobotState | None = None
    ) -> Array:
        """Compute the geometric Jacobian of the tip, expressed in the group's base.

        Args:
            q: configuration [rad or m], shape (n,).
            frame: frame instead of the tip.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``J_BT``, shape (6, n): rows of the linear velocity [m/rad or 1], then of the angular
            velocity [1 or rad/m].

        Raises:
            InvalidCommand: not n finite numbers.
            UnknownFrame: lists the frames.
            InvalidConfig: the group has no tip and ``frame`` is not given.
        """
        return self.at(state)._kinematics.jacobian(q, self._inputs.frame(frame))

    @cached_property
    def _kinematics(self) -> Kinematics:
        whole = zip(self._robot.joint_names, self._inputs.positions.tolist(), strict=True)
        fixed = {name: value for name, value in whole if name not in self.joint_names}
        base = self._group.base or self._robot.base_frame
        return Kinematics(self._robot.tree, self.joint_names, fixed=fixed, base=base)

    @cached_property
    def _solver(self) -> LeastSquaresIk:
        return LeastSquaresIk(IkChain.of_group(self._robot, self.name, self._inputs.positions))
