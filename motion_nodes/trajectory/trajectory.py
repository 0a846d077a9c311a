# SPDX-License-Identifier: Apache-2.0
"""Interface of joint trajectories: start, end, and states in between."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

MAX_SAMPLES = 1_000_000
"""Max number of samples of a trajectory; more would exhaust the memory."""


class Infeasible(InvalidCommand):
    """A well-formed request that cannot be satisfied within the limits."""


class TrajectorySample(NamedTuple):
    """Joint states of a trajectory at one time; arrays of shape (n,)."""

    position: Array
    """Positions [rad or m]."""
    velocity: Array
    """Velocities [rad/s or m/s]."""
    acceleration: Array
    """Accelerations [rad/s^2 or m/s^2]."""

    def at_rate(self, rate: float, slope: float = 0.0) -> TrajectorySample:
        """Return the sample of the trajectory played back at another rate.

        Args:
            rate: playback rate.
            slope: its derivative [1/s].
        """
        q, v, a = self
        return TrajectorySample(q, v * rate, a * rate**2 + v * slope)


def check_time_step(time_step: float) -> None:
    """Raise an error for a time step [s] that is not finite and positive.

    Raises:
        InvalidCommand: with its value.
    """
    if not (math.isfinite(time_step) and time_step > 0.0):
        raise InvalidCommand(f"time step is {time_step} s; it must be finite and above 0")


def check_samples(count: float, most: int, duration: float) -> None:
    """Raise an error for too many samples, before memory is allocated for them.

    Args:
        count: number of samples; NaN or infinite for an overflow.
        most: max number of samples.
        duration: of the motion [s], for the error.

    Raises:
        Infeasible: names the duration and the max.
    """
    if not count <= most:
        raise Infeasible(
            f"the motion takes {duration:.4g} s, which is more than {most} samples; increase "
            "scaling factors or speed limits, or the time step"
        )


class Trajectory(ABC):
    """Joint states as a function of time [s] since the start of the trajectory."""

    joint_names: tuple[str, ...]

    @property
    @abstractmethod
    def start_time(self) -> float:
        """Time at which it begins [s]."""

    @property
    @abstractmethod
    def end_time(self) -> float:
        """Time at which it ends [s]."""

    @abstractmethod
    def sample(self, time: float) -> TrajectorySample:
        """Return position, velocity and acceleration at a time [s].

        Before its begin and after its end the joints are at rest there.
        """

    @property
    def duration(self) -> float:
        """Duration [s]."""
        return self.end_time - self.start_time

    @property
    def active_joints(self) -> tuple[str, ...]:
        """Names of its joints, in the order of its samples."""
        return self.joint_names

    def get_active_joints(self) -> list[str]:
        """Return the names of its joints, in the order of its samples."""
        return list(self.joint_names)

    def joint_targets(self, time: float) -> tuple[Array, Array]:
        """Return positions and velocities at a time [s], each of shape (n,)."""
        sample = self.sample(time)
        return sample.position, sample.velocity

    def get_joint_targets(self, time: float) -> tuple[Array, Array]:
        """Return positions and velocities at a time [s], each of shape (n,)."""
        return self.joint_targets(time)

    def sample_times(self, time_step: float) -> Array:
        """Return times [s] every ``time_step`` from start to end, including the end.

        Raises:
            InvalidCommand: a step that is not finite and positive.
            Infeasible: more than :data:`MAX_SAMPLES` times.
        """
        check_time_step(time_step)
        check_samples(self.duration / time_step, MAX_SAMPLES, self.duration)
        count = int(self.duration / time_step + 1e-9) + 1
        times = self.start_time + time_step * np.arange(count)
        if times[-1] < self.end_time - 1e-9:
            times = np.append(times, self.end_time)
        return np.asarray(times, dtype=np.float64)

    def sequence(self, time_step: float) -> list[tuple[float, TrajectorySample]]:
        """Return samples every ``time_step`` [s] from start to end, including the end.

        Raises:
            InvalidCommand: a step that is not finite and positive.
        """
        return [(time, self.sample(time)) for time in self.sample_times(time_step).tolist()]
