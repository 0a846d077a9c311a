# SPDX-License-Identifier: Apache-2.0
"""Runs a learned policy in a simulated world, in one process and without ROS."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.extras.policies.observations import PolicyInputs
from motion_nodes.extras.policies.policy_sequence import PolicyMode, PolicySequence
from motion_nodes.extras.policies.runner import CommandShaper, PolicyRunner
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.typing import Array

SMOOTHING = 0.5
"""Averaging time of velocities of a policy without a gait period [s]."""


class WalkResult(NamedTuple):
    """Tracking of one command."""

    command: Array
    """vx, vy [m/s] and wz [rad/s]."""
    velocity: Array
    """Mean of the measured vx, vy, wz in the base frame without its tilt, shape (3,)."""
    error: Array
    """RMS tracking error of velocities averaged over :data:`SMOOTHING` or the gait period, shape
    (3,)."""
    fell: bool


class PolicyTrial:
    """One robot of a world, controlled by a policy with given commands."""

    def __init__(
        self,
        world: MujocoWorld,
        name: str,
        runner: PolicyRunner,
        *,
        max_rate: Sequence[float] = (2.5, 2.0, 5.0),
    ) -> None:
        """Create the trial; the robot stands up, which takes some simulated seconds.

        Args:
            world: the world.
            name: name of the robot in the world.
            runner: its policy, with a twist as command and a command range in its description.
            max_rate: max rates of change of the command [m/s^2, m/s^2, rad/s^2].
        """
        robot = next(p.robot for p in world.placements if p.name == name)
        limit = runner.spec.command_limit
        self._world, self._name, self._runner = world, name, runner
        self._dt = runner.spec.physics_dt
        self._shaper = CommandShaper(np.ones(3) if limit is None else limit, max_rate)
        self._table = world.targets(name).table
        self._trained = runner.gains()
        self._shares = (0.0, 0.0)
        self._begin, self._steps = world.time, 0
        self.sequence = PolicySequence(runner, self._dt, (robot.limits.lower, robot.limits.upper))
        self.sequence.stand_up(self._inputs())
        while self.sequence.mode is PolicyMode.STANDING_UP:
            self.step()

    @property
    def fell(self) -> bool:
        """Whether the robot fell, or another fault damped its motors."""
        return self.sequence.mode is PolicyMode.DAMPED

    def walk(self, command: ArrayLike, seconds: float) -> WalkResult:
        """Track a command for a time; errors of the first second are ignored.

        Args:
            command: vx, vy [m/s] and wz [rad/s].
            seconds: simulated time [s].
        """
        desired = np.asarray(command, dtype=np.float64)
        self._shaper.set_target(desired)
        seen = []
        for _ in range(round(seconds / self._dt)):
            self.step()
            seen.append(self._velocity())
            if self.fell:
                break
        judged = np.array(seen[round(1.0 / self._dt) :] or seen[-1:])
        window = np.ones(round((self._runner.spec.gait_period or SMOOTHING) / self._dt))
        window = window[: len(judged)] / min(len(window), len(judged))
        smooth = np.array([np.convolve(column, window, "valid") for column in judged.T])
        error = np.sqrt(((smooth - desired[:, None]) ** 2).mean(axis=1))
        return WalkResult(desired, judged.mean(axis=0), error, self.fell)

    def step(self) -> None:
        """Advance by one physics step of the training environment."""
        command = self._shaper.step(self._dt)
        inputs = self._inputs()
        inputs.command = command
        output = self.sequence.step(inputs, moving=self._shaper.moving)
        shares = (output.trained_stiffness, output.trained_damping)
        if shares != self._shares:
            self._shares = shares
            own = (self._table.stiffness, self._table.damping)
            self._world.set_gains(
                self._name,
                *(
                    a + share * (np.where(np.isnan(b), a, b) - a)
                    for a, b, share in zip(own, self._trained, shares, strict=True)
                ),
            )
        self._world.command(self._name, JointTargets(*output.targets))
        self._steps += 1
        end = self._begin + self._steps * self._dt
        self._world.step(max(round((end - self._world.time) / self._world.time_step), 0))

    def _inputs(self) -> PolicyInputs:
        state, X_WB = self._world.state(self._name), self._world.base_pose(self._name)
        twist = self._world.base_twist(self._name)
        return PolicyInputs(
            state.position,
            state.velocity,
            np.zeros(self._runner.spec.command_width),
            X_WB[:3, :3],
            twist[3:],
            twist[:3],
            float(X_WB[2, 3]),
        )

    def _velocity(self) -> Array:
        """Return vx, vy, wz of the base about the vertical, shape (3,)."""
        R = self._world.base_pose(self._name)[:3, :3]
        twist = self._world.base_twist(self._name)
        v, w = R @ twist[:3], R @ twist[3:]
        c, s = R[0, 0], R[1, 0]
        n = np.hypot(c, s)
        return np.array([(c * v[0] + s * v[1]) / n, (c * v[1] - s * v[0]) / n, w[2]])
