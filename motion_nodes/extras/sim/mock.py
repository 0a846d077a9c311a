# SPDX-License-Identifier: Apache-2.0
"""A kinematic cell without physics, for tests and dry runs.

Joints move to position targets at their velocity limit, or at the commanded velocity; velocity
targets apply immediately, and joints stop at their position limits. Efforts are reported back but
move nothing. Wheeled bases roll without slip.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motion_nodes.core.bases.from_robot import base_of, root_height
from motion_nodes.core.bases.odometry import Odometry
from motion_nodes.core.robot.mimic_joints import Followers
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.backend import (
    MeasuredJoints,
    RobotBackend,
    RobotPlacement,
    root_to_base,
)
from motion_nodes.extras.sim.drive_targets import DriveMode, DriveTargets
from motion_nodes.typing import Array


class MockWorld(RobotBackend):
    """Massless robots that follow their targets exactly."""

    def __init__(self, placements: Sequence[RobotPlacement], time_step: float = 0.002) -> None:
        """Create the cell with all robots in their home states.

        Args:
            placements: robots with their names and poses.
            time_step: length of a step [s], above 0.

        Raises:
            InvalidConfig: no robot, two robots with the same name, or an invalid time step.
        """
        if not (np.isfinite(time_step) and time_step > 0.0):
            raise InvalidConfig(
                f"time_step is {time_step} s; it must be finite and above 0.", field="time_step"
            )
        super().__init__(placements)
        self._time_step = float(time_step)
        self._steps = 0
        self._robots = {
            p.name: _MockRobot(p, targets)
            for p, targets in zip(self.placements, self._targets.values(), strict=True)
        }

    @property
    def time(self) -> float:
        """Simulated time since the last reset [s]."""
        return self._steps * self._time_step

    @property
    def time_step(self) -> float:
        """Length of one step [s]."""
        return self._time_step

    def step(self, count: int = 1) -> None:
        """Advance by ``count`` steps, at the cost of one."""
        if count < 1:
            return
        for robot in self._robots.values():
            robot.advance(count, self._time_step)
        self._steps += count

    def state(self, name: str) -> MeasuredJoints:
        """Return positions, velocities and efforts of all joints of a robot."""
        robot = self._robot(name)
        channels = (robot.q, robot.v, robot.effort, robot.followers())
        return MeasuredJoints(*map(frozen, channels))

    def base_pose(self, name: str) -> Array:
        """Return the ground-truth ``X_WB`` of a robot's base frame, shape (4, 4), read-only."""
        return self._robot(name).pose()

    def base_twist(self, name: str) -> Array:
        """Return the ground-truth twist of the base frame in itself, shape (6,), read-only."""
        twist = self._robot(name).odometry.twist
        return frozen((twist.vx, twist.vy, 0.0, 0.0, 0.0, twist.wz))

    def _robot(self, name: str) -> _MockRobot:
        """Return the state of a robot; raises UnknownRobot."""
        self.targets(name)
        return self._robots[name]

    def _reset_state(self) -> None:
        """Reset joints to home, bases to their placements, and the time to zero."""
        self._steps = 0
        for robot in self._robots.values():
            robot.reset()

    def _targets_changed(self, name: str) -> None:
        """Do nothing: targets are read at each step."""


class _MockRobot:
    """Joint state and base pose of one robot."""

    def __init__(self, placement: RobotPlacement, targets: DriveTargets) -> None:
        """Start in the home state."""
        self._targets = targets
        self._table = targets.table
        self._followers = Followers(placement.robot.tree)
        spec = placement.robot.base
        self._base = base_of(placement.robot) if spec is not None else None
        self._wheels = [
            self._table.joint_names.index(wheel)
            for wheel in (self._base.wheel_names if self._base is not None else ())
        ]
        self._steering = [
            self._table.joint_names.index(joint)
            for joint in (self._base.steering_names if self._base is not None else ())
        ]
        X_WR = np.array(placement.X_WR)
        if self._base is not None:
            X_WR[:3, 3] += X_WR[:3, 2] * root_height(placement.robot)
        self._X_WB0 = X_WR @ root_to_base(placement.robot)
        self.reset()

    def reset(self) -> None:
        """Return to the home state."""
        self.q: Array = np.array(self._table.home)
        self.v: Array = np.zeros_like(self.q)
        self.effort: Array = np.zeros_like(self.q)
        self.odometry = Odometry()

    def followers(self) -> tuple[Array, Array]:
        """Return positions and velocities of the mimic joints."""
        return self._followers.positions(self.q), self._followers.rates(self.v)

    def pose(self) -> Array:
        """Return ``X_WB`` of the base frame."""
        X_B0B = np.eye(4)
        c, s = np.cos(self.odometry.yaw), np.sin(self.odometry.yaw)
        X_B0B[:2, :2] = ((c, -s), (s, c))
        X_B0B[:2, 3] = (self.odometry.x, self.odometry.y)
        return frozen(self._X_WB0 @ X_B0B)

    def advance(self, count: int, time_step: float) -> None:
        """Advance all joints by ``count`` steps at once, then the base by its wheel motion."""
        table, mode = self._table, self._targets.mode
        before, duration = self.q, count * time_step
        stride = table.velocity_limit * time_step
        error = self._targets.position - before
        # The reported velocity is that of the last step.
        ahead = np.clip(error, -stride * (count - 1), stride * (count - 1)) if count > 1 else 0.0
        last = np.clip(error - ahead, -stride, stride)
        tracking = before + ahead + last
        speed = np.clip(self._targets.velocity, -table.velocity_limit, table.velocity_limit)
        rolling = before + speed * duration
        positioned, driven = mode == DriveMode.POSITION, mode == DriveMode.VELOCITY
        q = np.where(positioned, tracking, np.where(driven, rolling, before))
        # A joint at a moving target has the target's velocity.
        along = (np.abs(error) <= stride * count) & (np.nan_to_num(speed) != 0.0)
        arriving = np.where(along, speed, last / time_step)
        v = np.where(positioned, arriving, np.where(driven, speed, 0.0))
        self.q = np.clip(q, table.lower, table.upper)
        self.v = np.where(self.q == q, v, 0.0)
        self.effort = np.clip(self._targets.effort, -table.effort_limit, table.effort_limit)
        if self._base is not None:
            steering = 0.5 * (self.q + before)[self._steering]
            path = self._base.twist_from_wheels((self.q - before)[self._wheels], steering)
            self.odometry.advance(path, duration)
            self.odometry.twist = self._base.twist_from_wheels(
                self.v[self._wheels], self.q[self._steering]
            )
