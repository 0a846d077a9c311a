# SPDX-License-Identifier: Apache-2.0
"""Motions of the Franka's arm in closed form, and as the trajectory messages that ask for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
States = tuple[Array, Array, Array]
"""Positions [rad], velocities [rad/s] and accelerations [rad/s^2], each of shape (m, 7)."""

ARM = tuple(f"panda_joint{i}" for i in range(1, 8))
HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
"""Home position of the arm [rad], as in the robot's description."""


def blend(s: Array) -> States:
    """Return the quintic from 0 to 1 that begins and ends at rest, and its two derivatives."""
    s = s.clip(0.0, 1.0)
    return (
        s**3 * (10.0 + s * (-15.0 + 6.0 * s)),
        30.0 * s**2 * (1.0 - s) ** 2,
        60.0 * s * (1.0 - s) * (1.0 - 2.0 * s),
    )


@dataclass(frozen=True)
class Sine:
    """Each joint its own sine around home, blended in from rest and out to rest."""

    duration: float
    """[s]"""
    ramp: float = 1.0
    """Time of blending in and of blending out [s]."""

    AMPLITUDE = (0.4, 0.3, 0.35, 0.35, 0.4, 0.4, 0.5)
    """[rad]"""
    FREQUENCY = (0.30, 0.35, 0.40, 0.45, 0.55, 0.60, 0.50)
    """[Hz]; with the amplitudes at most three quarters of the velocity limits."""

    def __call__(self, times: Array) -> States:
        """Return the states at some times from the start [s], shape (m,); at rest outside."""
        t = np.asarray(times, dtype=np.float64).clip(0.0, self.duration)[:, None]
        late = t > 0.5 * self.duration
        sign = np.where(late, -1.0, 1.0)
        e0, e1, e2 = blend(np.where(late, self.duration - t, t) / self.ramp)
        e1, e2 = sign * e1 / self.ramp, e2 / self.ramp**2
        w = 2.0 * math.pi * np.array(self.FREQUENCY)
        s0, s1, s2 = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
        A = np.array(self.AMPLITUDE)
        return (
            HOME + A * e0 * s0,
            A * (e1 * s0 + e0 * s1),
            A * (e2 * s0 + 2.0 * e1 * s1 + e0 * s2),
        )

    def points(self, rate: float = 100.0) -> tuple[Array, States]:
        """Return times and states of points at a rate [Hz], the end included."""
        times = np.linspace(0.0, self.duration, round(self.duration * rate) + 1)
        return times, self(times)


class Waypoints:
    """Quintics through waypoints, as a planner times them: it moves through, without a stop."""

    TIMES = np.array([0.0, 1.0, 2.0, 3.2, 4.0, 5.0])
    """[s]"""
    OFFSETS = np.array(
        [
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.35, 0.2, -0.2, 0.3, 0.25, -0.2, 0.4],
            [0.8, 0.45, -0.3, 0.7, 0.5, -0.5, 0.8],
            [0.3, 0.6, 0.2, 0.5, 0.1, 0.3, 0.3],
            [-0.1, 0.3, 0.3, 0.2, -0.2, 0.4, -0.1],
            [-0.3, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    """Positions from home [rad]."""

    def __init__(self) -> None:
        """Choose the velocities at the waypoints: mean of both slopes, zero where a joint turns."""
        self.duration = float(self.TIMES[-1])
        self._q = HOME + self.OFFSETS
        slopes = np.diff(self._q, axis=0) / np.diff(self.TIMES)[:, None]
        self._v = np.zeros_like(self._q)
        self._v[1:-1] = np.where(
            slopes[1:] * slopes[:-1] > 0.0, 0.5 * (slopes[1:] + slopes[:-1]), 0.0
        )
        self._pieces = [self._coefficients(i) for i in range(len(slopes))]

    def _coefficients(self, i: int) -> Array:
        """Solve for the quintic of one segment, highest power first, shape (6, 7)."""
        T = float(self.TIMES[i + 1] - self.TIMES[i])
        rows = [
            [t**5, t**4, t**3, t**2, t, 1.0] for t in (0.0, T)
        ] + [
            [5 * t**4, 4 * t**3, 3 * t**2, 2 * t, 1.0, 0.0] for t in (0.0, T)
        ] + [
            [20 * t**3, 12 * t**2, 6 * t, 2.0, 0.0, 0.0] for t in (0.0, T)
        ]  # fmt: skip
        ends = np.array([self._q[i], self._q[i + 1], self._v[i], self._v[i + 1],
                         np.zeros(7), np.zeros(7)])  # fmt: skip
        return np.linalg.solve(np.array(rows), ends)

    def __call__(self, times: Array) -> States:
        """Return the states at some times from the start [s], shape (m,); at rest outside."""
        t = np.asarray(times, dtype=np.float64).clip(0.0, self.duration)
        which = np.searchsorted(self.TIMES, t, side="right") - 1
        which = which.clip(0, len(self._pieces) - 1)
        result = tuple(np.empty((len(t), 7)) for _ in range(3))
        for i, coefficients in enumerate(self._pieces):
            here = which == i
            s = (t[here] - self.TIMES[i])[:, None]
            for order, values in enumerate(result):
                values[here] = _polynomial(coefficients, order, s)
        return result[0], result[1], result[2]

    def points(self) -> tuple[Array, States]:
        """Return times and states of the waypoints."""
        return self.TIMES, (self._q, self._v, np.zeros_like(self._q))


def _polynomial(coefficients: Array, order: int, s: Array) -> Array:
    """Return a derivative of polynomials, highest power first, shape (m, 7)."""
    values = np.zeros((len(s), coefficients.shape[1]))
    degree = len(coefficients) - 1
    for k, row in enumerate(coefficients[: degree + 1 - order]):
        values = values * s + math.perm(degree - k, order) * row
    return values


def trajectory_message(
    times: Sequence[float] | Array,
    positions: Array,
    velocities: Array | None = None,
    accelerations: Array | None = None,
    joints: Sequence[str] = ARM,
) -> Any:
    """Return a trajectory_msgs/JointTrajectory; the given channels decide its interpolation."""
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    message = JointTrajectory(joint_names=list(joints))
    for i, time in enumerate(times):
        point = JointTrajectoryPoint(positions=positions[i].tolist())
        if velocities is not None:
            point.velocities = velocities[i].tolist()
        if accelerations is not None:
            point.accelerations = accelerations[i].tolist()
        nanoseconds = round(float(time) * 1e9)
        point.time_from_start.sec, point.time_from_start.nanosec = divmod(
            nanoseconds, 1_000_000_000
        )
        message.points.append(point)
    return message


def move(position: Array, seconds: float) -> Any:
    """Return a trajectory from wherever the arm is to rest at a position [rad], quintic."""
    zeros = np.zeros((1, len(position)))
    return trajectory_message([seconds], position[None], zeros, zeros)
