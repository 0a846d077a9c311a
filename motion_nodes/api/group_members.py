# SPDX-License-Identifier: Apache-2.0
"""Joints, limits, frames and named states of a joint group."""

from __future__ import annotations

import numpy as np

from motion_nodes.api.group_inputs import GroupInputs
from motion_nodes.errors import InvalidCommand
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array


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
