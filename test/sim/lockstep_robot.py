# SPDX-License-Identifier: Apache-2.0
"""Simulated robots in lockstep with their controllers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.core.bases.base import BaseCommand, BodyAxisLimits
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.robot import Robot
from motion_nodes.extras.sim.backend import RobotBackend
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.ros.parameters import core_params
from motion_nodes.ros.wheeled import wheeled_base_params as nodes

NAME = "robot"
"""Name of the robot in its world."""


class LockstepRobot:
    """A simulated robot; joints are indices in the robot's order."""

    def __init__(self, robot: Robot, world: RobotBackend) -> None:
        self.robot, self.world = robot, world

    def state(self, joints: Sequence[int] | np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Return positions [rad or m] and velocities [rad/s or m/s] of joints, shape (n,) each."""
        state = self.world.state(NAME)
        return np.asarray(state.position)[joints], np.asarray(state.velocity)[joints]

    def command(self, positions: Mapping[int, float], velocities: Mapping[int, float]) -> None:
        """Set positions [rad or m] and velocities [rad/s or m/s] of drives, by joint."""
        targets = np.full((2, len(self.robot.joint_names)), np.nan)
        for row, values in zip(targets, (positions, velocities), strict=True):
            row[list(values)] = list(values.values())
        self.world.command(NAME, JointTargets(*targets))

    def step(self, seconds: float) -> None:
        """Advance the physics by a duration [s]."""
        self.world.step(round(seconds / self.world.time_step))


@dataclass(frozen=True, kw_only=True)
@core_params(BodyAxisLimits, "linear.y", unit=0)
class _Params(nodes.WheeledBaseParams):
    """Parameters of the node of any base."""


class WheeledRobot(LockstepRobot):
    """A wheeled base with its controller."""

    def __init__(
        self, robot: Robot, world: RobotBackend, config: BaseControllerConfig | None = None
    ) -> None:
        """``config``: None: that of its node, with the limits of its description."""
        super().__init__(robot, world)
        base, params = base_of(robot), _Params(robot=robot.name, **nodes.base_defaults(robot))
        self.controller = BaseController(base, config or nodes.core_config(params))
        self._wheels, self._steering = (
            [robot.joint_names.index(name) for name in names]
            for names in (base.wheel_names, base.steering_names)
        )

    def measure(self, dt: float) -> None:
        """Update the odometry after a period [s]."""
        self.controller.measure(self.state(self._wheels)[0], dt, self.state(self._steering)[0])

    @property
    def odometry(self) -> Pose2:
        """Pose by odometry."""
        found = self.controller.odometry
        return Pose2(found.x, found.y, found.yaw)

    @property
    def pose(self) -> Pose2:
        """True pose in the world."""
        X = self.world.base_pose(NAME)
        return Pose2(X[0, 3], X[1, 3], math.atan2(X[1, 0], X[0, 0]))

    def drive(self, dt: float) -> BaseCommand:
        """Send the command of the next period [s]; return it."""
        command = self.controller.step(self.world.time, dt)
        self.command(dict(zip(self._steering, command.steering, strict=False)),
                     dict(zip(self._wheels, command.wheels, strict=True)))  # fmt: skip
        return command
