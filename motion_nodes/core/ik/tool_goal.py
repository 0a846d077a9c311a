# SPDX-License-Identifier: Apache-2.0
"""Conversion of tool poses to joint commands, starting at the current joint positions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    IkTolerance,
    as_configurations,
    target_in_base,
)
from motion_nodes.core.ik.solvers import DEFAULT, make_solver
from motion_nodes.core.robot.poses import multiply
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array


class ToolGoalResult(NamedTuple):
    """Joint targets of a group, as accepted by ``JointCommand`` and ``JointState``."""

    names: tuple[str, ...]
    """Joints, from base to tip."""
    positions: Array
    """Target positions [rad or m], shape (n,); without a solution the current ones: no motion."""
    success: bool
    """Whether the positions move the tool to the pose."""
    result: IkResult
    """Result of the solver, with the reason of a failure."""


class ArticulationIk:
    """Inverse kinematics of a controlled robot.

    Each search starts at the current joint positions, so the joints move no more than necessary.
    Counterpart of Isaac Sim's ``ArticulationKinematicsSolver``, but with error reasons; an
    unreachable target causes no motion.
    """

    def __init__(
        self, robot: Robot, group: str, *, solver: str = DEFAULT, settings: IkSettings | None = None
    ) -> None:
        """Create the solver of a group.

        Args:
            robot: the robot.
            group: name or alias of a group with a base and a tip.
            solver: by name.
            settings: of the solver; default tolerance: 1e-6 m and rad.

        Raises:
            UnknownGroup: lists the groups.
            InvalidConfig: the group is not a chain, or the solver does not support it.
        """
        self.chain = IkChain.of_group(robot, group)
        self._settings = settings or IkSettings(tolerance=IkTolerance(1e-6, 1e-6))
        self._solver = make_solver(self.chain, solver, self._settings)
        self._X_WB = np.eye(4)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The commanded joints."""
        return self.chain.joint_names

    def set_base_pose(self, X_WB: ArrayLike) -> None:
        """Set the pose of the chain's base frame in the world, ``X_WB``, shape (4, 4).

        Raises:
            InvalidCommand: invalid pose.
        """
        target_in_base(np.eye(4), X_WB)  # raises an error for an invalid pose
        self._X_WB = np.array(X_WB, dtype=np.float64)

    def tool_pose(self, present: Mapping[str, float] | ArrayLike) -> Array:
        """Return the pose of the tool in the world, ``X_WT``, shape (4, 4).

        Args:
            present: joint positions, as for :meth:`goal_for`.

        Raises:
            InvalidCommand: joints are missing or not finite.
        """
        X_BT = self.chain.kinematics.pose(self._values(present), self.chain.tip)
        return multiply(self._X_WB, X_BT)

    def goal_for(
        self,
        target: ArrayLike,
        present: Mapping[str, float] | ArrayLike,
        *,
        tolerance: IkTolerance | None = None,
    ) -> ToolGoalResult:
        """Return joint targets that move the tool to a pose.

        Args:
            target: pose of the tool in the world, ``X_WT``, shape (4, 4).
            present: current joint positions [rad or m]: by name, where further joints are ignored,
                or those of the group only, shape (n,).
            tolerance: tolerance of a solution; default: that of the settings.

        Raises:
            InvalidCommand: the target is not a valid pose, or joints are missing or not finite.
        """
        q = self._values(present)
        settings = self._settings
        if tolerance is not None:
            settings = dataclasses.replace(settings, tolerance=tolerance)
        request = IkRequest(target, seed=q, base_pose=self._X_WB, settings=settings)
        result = self._solver.solve(request)
        return ToolGoalResult(
            self.joint_names, result.q if result.success else q, result.success, result
        )

    def _values(self, present: Mapping[str, float] | ArrayLike) -> Array:
        if isinstance(present, Mapping):
            missing = [name for name in self.joint_names if name not in present]
            if missing:
                raise InvalidCommand(
                    f"the current position of {', '.join(missing)} is unknown; "
                    f"'{self.chain.tip}' is moved by {', '.join(self.joint_names)}."
                )
            present = [present[name] for name in self.joint_names]
        q: Array = as_configurations(present, self.joint_names, "present")[0]
        return q
