# SPDX-License-Identifier: Apache-2.0
"""Trajectories as joint commands of a robot: single actions or sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.limits import joint_indices
from motion_nodes.trajectory.trajectory import Infeasible, Trajectory
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class ArticulationAction:
    """Joint command."""

    joint_positions: Array
    """Positions [rad or m], shape (n,)."""
    joint_velocities: Array
    """Velocities [rad/s or m/s], shape (n,)."""
    joint_names: tuple[str, ...]
    joint_indices: NDArray[np.intp]
    """Indices of the joints in the robot's order, shape (n,)."""


class ArticulationTrajectory:
    """A trajectory for some joints of a robot.

    Raises:
        UnknownJoint: the trajectory moves a joint that the robot does not have.
        InvalidConfig: a time step that is not finite and positive.
    """

    def __init__(
        self, robot_joints: Sequence[str], trajectory: Trajectory, physics_dt: float = 1.0 / 60.0
    ) -> None:
        """Map the trajectory's joints to the robot's.

        Args:
            robot_joints: names of the robot's joints, in its order.
            trajectory: the trajectory, with its joints in any order.
            physics_dt: default time step of sequences [s].

        Raises:
            UnknownJoint, InvalidConfig: see the class.
        """
        if not (math.isfinite(physics_dt) and physics_dt > 0.0):
            raise InvalidConfig(
                f"physics_dt is {physics_dt} s; it must be finite and above 0", field="physics_dt"
            )
        self.robot_joints = tuple(robot_joints)
        self.trajectory = trajectory
        self._step = physics_dt
        self._indices = joint_indices(trajectory.joint_names, self.robot_joints, "the robot")

    def get_trajectory_duration(self) -> float:
        """Return the duration [s]."""
        return self.trajectory.duration

    def get_active_joints_subset(self) -> tuple[str, ...]:
        """Return the joints of the trajectory, in the order of the actions."""
        return self.trajectory.joint_names

    def get_robot_articulation(self) -> tuple[str, ...]:
        """Return the joints of the robot, in its order."""
        return self.robot_joints

    def get_initial_action(self) -> ArticulationAction:
        """Return the required initial joint state."""
        return self.get_action_at_time(self.trajectory.start_time)

    def get_action_at_time(self, time: float) -> ArticulationAction:
        """Return the joint command at a time [s].

        Raises:
            Infeasible: a time outside the trajectory; a ValueError.
        """
        start, end = self.trajectory.start_time, self.trajectory.end_time
        if not start <= time <= end:
            raise Infeasible(
                f"time is {time} s; the trajectory lasts from {start:g} to {end:g} s", field="time"
            )
        position, velocity = self.trajectory.joint_targets(time)
        return ArticulationAction(position, velocity, self.trajectory.joint_names, self._indices)

    def get_action_sequence(self, timestep: float | None = None) -> list[ArticulationAction]:
        """Return actions from start to end, both included; the last step may be shorter.

        Args:
            timestep: time step [s]; None: the default.

        Raises:
            InvalidCommand: a step that is not finite and positive.
        """
        times = self.trajectory.sample_times(self._step if timestep is None else timestep)
        return [self.get_action_at_time(time) for time in times.tolist()]
