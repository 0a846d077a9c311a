# SPDX-License-Identifier: Apache-2.0
"""Joint trajectories through points in time, interpolated as in ros2_controllers.

Between two points with velocities and accelerations the interpolation is quintic, with velocities
only cubic, else linear. Source: ros2_controllers, joint_trajectory_controller, "Trajectory
Representation".
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.tree import frozen
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

__all__ = ["JointTrajectory", "TrajectorySample", "rest_to_rest_duration"]
MAX_SAMPLES = 1_000_000
"""Max number of samples of a trajectory; more would exhaust the memory."""
_Knot = tuple[Array, Array | None, Array | None]
"""Position, velocity and acceleration, None if not given."""


class Infeasible(InvalidCommand):
    """A well-formed request that cannot be satisfied within the limits."""


class TrajectorySample(NamedTuple):
    """Joint states of a trajectory at one time, shape (n,), or at k times, shape (k, n)."""

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
    def _sample(self, time: float) -> TrajectorySample:
        """Return position, velocity and acceleration at a time [s]; see :meth:`sample`."""

    def sample(self, time: ArrayLike) -> TrajectorySample:
        """Return position, velocity and acceleration at a time, or at k times.

        Args:
            time: from the start [s], a number or shape (k,). Before the begin and after the end the
                joints are at rest there.

        Returns:
            Shapes (n,), or (k, n).

        Raises:
            InvalidCommand: neither a number nor a row of numbers, or NaN.
        """
        if isinstance(time, float) and time == time:
            return self._sample(time)
        try:
            times = np.asarray(time, np.float64)
        except (TypeError, ValueError):
            times = np.array(np.nan)
        if times.ndim > 1 or np.isnan(times).any():
            raise InvalidCommand(
                f"time must be a number or a row of numbers [s], got {time!r:.60}.", field="time"
            )
        if times.ndim == 0:
            return self._sample(float(times))
        states = np.array([self._sample(each) for each in times.tolist()])
        return TrajectorySample(*np.moveaxis(states.reshape(-1, 3, len(self.joint_names)), 1, 0))

    @property
    def duration(self) -> float:
        """Duration [s]."""
        return self.end_time - self.start_time

    def __repr__(self) -> str:
        """Return joints, duration and number of points."""
        points = len(self) if isinstance(self, JointTrajectory) else 0
        count = f", {points} point{'s' * (points != 1)}" if points else ""
        joints = f"{len(self.joint_names)} joints"
        return f"{type(self).__name__}({joints}, {self.duration:.4g} s{count})"

    def plot(self, *, svg: bool | None = None) -> Any:
        """Plot positions, velocities and accelerations over time.

        Args:
            svg: whether to draw SVG; None: only where Matplotlib is missing.

        Returns:
            A ``matplotlib.figure.Figure``, or an SVG picture with the same ``savefig(path)``;
            notebooks display both.
        """
        from motion_nodes.core.trajectory.figures import trajectory_figure

        return trajectory_figure(self, repr(self), svg)

    def save(self, path: str | Path, *, step: float = 0.01) -> None:
        """Write the points to a file, which ``motion_nodes.load`` reads.

        Args:
            path: ``.csv``, ``.json`` (fields of a JointTrajectory message), ``.npz`` (NumPy) or
                ``.mcap`` (one message per point, for Foxglove).
            step: time between two points of a trajectory without points [s].

        Raises:
            InvalidConfig: another suffix, or the file cannot be written.
            InvalidCommand: a step that is not finite and positive.
        """
        from motion_nodes.core.trajectory.trajectory_files import write_trajectory

        write_trajectory(self.as_points(step), path)

    def as_points(self, step: float = 0.01) -> JointTrajectory:
        """Return the trajectory as points, one every ``step`` [s]; points are returned as they are.

        Args:
            step: time between two points [s].

        Raises:
            InvalidCommand: a step that is not finite and positive.
        """
        times = self.sample_times(step)
        q, v, a = (np.array(x) for x in zip(*map(self.sample, times.tolist()), strict=True))
        return JointTrajectory(self.joint_names, times - self.start_time, q, v, a)

    def show(self, robot: Any) -> Any:
        """Show the motion in the browser.

        Args:
            robot: a :class:`.RobotModel` or :class:`.JointGroup`.

        Returns:
            The page; see ``RobotModel.show``.
        """
        return robot.show(self)

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


@dataclass(frozen=True, eq=False, repr=False)
class JointTrajectory(Trajectory):
    """Points in time for some joints, validated and immutable.

    Raises:
        InvalidCommand: empty, inconsistent lengths, values that are not finite, times that do not
            increase, or accelerations without velocities.
    """

    joint_names: tuple[str, ...]
    """Names of the joints, in the order of the columns."""
    times: Array
    """Time of each point from the start [s], shape (m,), increasing."""
    positions: Array
    """Positions [rad or m], shape (m, n)."""
    velocities: Array | None = None
    """Velocities [rad/s or m/s], shape (m, n), or None."""
    accelerations: Array | None = None
    """Accelerations [rad/s^2 or m/s^2], shape (m, n), or None."""
    efforts: Array | None = None
    """Feed-forward efforts [N m or N], shape (m, n), or None."""
    stepped: bool = False
    """Whether each point is the target from the time of the point before it, at rest, without
    interpolation."""
    begin: TrajectorySample | None = field(default=None, init=False)
    """State at time 0, see :meth:`starting_from`; None: at the first point."""

    def __post_init__(self) -> None:
        """Validate and freeze the arrays."""
        m, n = len(np.atleast_1d(self.times)), len(self.joint_names)
        if m == 0 or n == 0:
            raise InvalidCommand(
                "a trajectory needs at least one joint and one point", field="points"
            )
        object.__setattr__(self, "times", frozen(self.times, (m,)))
        for name in ("positions", "velocities", "accelerations", "efforts"):
            values = getattr(self, name)
            if values is None:
                continue
            array = frozen(values)
            if array.shape != (m, n):
                raise InvalidCommand(
                    f"{name} have shape {array.shape}; {m} points of {n} joints", field=name
                )
            if not np.isfinite(array).all():
                point, joint = np.argwhere(~np.isfinite(array))[0]
                raise InvalidCommand(
                    f"{name} of joint {self.joint_names[joint]} at point {point} are "
                    f"{array[point, joint]}",
                    field=self.joint_names[joint],
                )
            object.__setattr__(self, name, array)
        if not np.isfinite(self.times).all() or self.times[0] < 0.0:
            raise InvalidCommand(
                "times of a trajectory must be finite and not negative", field="times"
            )
        falls = np.flatnonzero(np.diff(self.times) <= 0.0)
        if len(falls):
            i = int(falls[0])
            raise InvalidCommand(
                f"time of point {i + 1} ({self.times[i + 1]:g} s) is not after that of point {i} "
                f"({self.times[i]:g} s)",
                field="times",
            )
        if self.accelerations is not None and self.velocities is None:
            raise InvalidCommand(
                "a trajectory with accelerations needs velocities too", field="velocities"
            )

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.times)

    def as_points(self, step: float = 0.01) -> JointTrajectory:
        """Return the trajectory itself; ``step`` is not used.

        Args:
            step: of trajectories without points [s].
        """
        return self

    @property
    def start_time(self) -> float:
        """Time at which it begins [s]: that of the first point, or 0."""
        return 0.0 if self.begin is not None else float(self.times[0])

    @property
    def end_time(self) -> float:
        """Time of the last point [s]."""
        return float(self.times[-1])

    def shifted(self, offset: Array) -> JointTrajectory:
        """Return the trajectory with offsets of its positions.

        Args:
            offset: of each joint [rad or m], shape (n,), or of each point, shape (m, n); the
                trajectory itself is returned if all are 0.
        """
        if not np.count_nonzero(offset):
            return self
        moved = copy.copy(self)
        object.__setattr__(moved, "positions", frozen(self.positions + offset))
        return moved

    def settled(self, limits: JointLimits) -> JointTrajectory:
        """Return the trajectory; positions outside a limit by rounding are at the limit.

        Args:
            limits: of its joints, in its order.
        """
        return self.shifted(limits.settled(self.positions) - self.positions)

    def starting_from(self, start: TrajectorySample) -> JointTrajectory:
        """Return the trajectory connected to the current state at time 0.

        A trajectory whose first point is at time 0 is unchanged.

        Args:
            start: current reference of the trajectory's joints, in its order.
        """
        if self.times[0] <= 0.0:
            return self
        # Points are shared, not copied: this runs in a control loop.
        joined = copy.copy(self)
        object.__setattr__(joined, "begin", start)
        return joined

    def of_joints(self, columns: NDArray[np.intp]) -> JointTrajectory:
        """Return the trajectory of some joints.

        Args:
            columns: indices of the joints, shape (k,).
        """
        part = copy.copy(self)
        object.__setattr__(part, "joint_names", tuple(self.joint_names[i] for i in columns))
        for name in ("positions", "velocities", "accelerations", "efforts"):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(part, name, values[:, columns])
        if self.begin is not None:
            start = TrajectorySample(*(values[columns] for values in self.begin))
            object.__setattr__(part, "begin", start)
        return part

    def effort(self, time: float) -> Array | None:
        """Return the feed-forward efforts at a time [N m or N], shape (n,); None without any.

        They are interpolated linearly, from 0 at the start, as in ros2_controllers.
        """
        if self.efforts is None:
            return None
        times, efforts = self.times, self.efforts
        i = int(np.searchsorted(times, time, side="right"))
        if i == len(times):
            return np.asarray(efforts[-1])
        before, at = (efforts[i - 1], times[i - 1]) if i else (np.zeros_like(efforts[0]), 0.0)
        share = 0.0 if times[i] <= at else min(max((time - at) / (times[i] - at), 0.0), 1.0)
        return np.asarray(before + share * (efforts[i] - before))

    def _sample(self, time: float) -> TrajectorySample:
        """Return position, velocity and acceleration at a time [s], shape (n,) each."""
        if self.stepped:
            return self._target(time)
        if self.begin is not None and time < self.times[0]:
            return self._lead_in(self.begin, time)
        if time <= self.times[0] or len(self.times) == 1:
            return self._at(0, moving=time == self.times[0])
        if time >= self.times[-1]:
            return self._at(len(self.times) - 1, moving=False)
        i = int(np.searchsorted(self.times, time, side="right")) - 1
        span = float(self.times[i + 1] - self.times[i])
        piece = polynomial_between(self._knot(i), self._knot(i + 1), span)
        return evaluate(piece, time - float(self.times[i]))

    def _target(self, time: float) -> TrajectorySample:
        """Return the target at a time, without interpolation."""
        if self.begin is not None and time < self.times[0]:
            still = np.zeros_like(self.begin.position)
            return TrajectorySample(self.begin.position, still, still)
        i = int(np.searchsorted(self.times, time, side="right"))
        return self._at(min(i, len(self.times) - 1), moving=False)

    def _at(self, i: int, *, moving: bool) -> TrajectorySample:
        zeros = np.zeros(len(self.joint_names))
        if not moving:
            return TrajectorySample(self.positions[i], zeros, zeros)
        velocity = zeros if self.velocities is None else self.velocities[i]
        acceleration = zeros if self.accelerations is None else self.accelerations[i]
        return TrajectorySample(self.positions[i], velocity, acceleration)

    def _knot(self, i: int) -> _Knot:
        velocity = None if self.velocities is None else self.velocities[i]
        acceleration = None if self.accelerations is None else self.accelerations[i]
        return self.positions[i], velocity, acceleration

    def _lead_in(self, begin: TrajectorySample, time: float) -> TrajectorySample:
        """Return the sample between the state at time 0 and the first point."""
        if time < 0.0:
            still = np.zeros_like(begin.position)
            return TrajectorySample(begin.position, still, still)
        return evaluate(polynomial_between(begin, self._knot(0), float(self.times[0])), time)


def integrated(
    times: Array, start: TrajectorySample, velocities: Array | None, accelerations: Array | None
) -> tuple[Array, Array]:
    """Return positions and velocities of points that have only their derivatives.

    Args:
        times: of the points [s], shape (m,), increasing.
        start: state at time 0, shape (n,) each.
        velocities: [rad/s or m/s], shape (m, n); None: integrated from the accelerations.
        accelerations: [rad/s^2 or m/s^2], shape (m, n); None with velocities.

    Returns:
        Positions [rad or m] and velocities [rad/s or m/s], shape (m, n) each, by the trapezoidal
        rule (ros2_controllers, joint_trajectory_controller, "Trajectory Representation").
    """
    spans = np.diff(times, prepend=0.0)[:, None]

    def integral(rates: Array, first: Array, value: Array) -> Array:
        before = np.vstack([first, rates[:-1]])
        return np.asarray(value + np.cumsum(0.5 * (before + rates) * spans, axis=0))

    if velocities is None:
        assert accelerations is not None
        velocities = integral(accelerations, start.acceleration, start.velocity)
    return integral(velocities, start.velocity, start.position), velocities


def spline_velocities(times: Array, positions: Array) -> Array:
    """Return the velocities of the cubic spline through points, at rest at both ends.

    Args:
        times: of the points [s], shape (m,), increasing.
        positions: [rad or m], shape (m, n).

    Returns:
        Velocities [rad/s or m/s], shape (m, n), with which the acceleration is continuous: the
        tridiagonal system of a clamped cubic spline (de Boor, "A Practical Guide to Splines",
        chapter IV), solved by elimination.
    """
    m = len(times)
    v = np.zeros_like(positions)
    if m < 3:
        return v
    h = np.diff(times)
    slopes = np.diff(positions, axis=0) / h[:, None]
    right = 3.0 * (slopes[1:] / h[1:, None] + slopes[:-1] / h[:-1, None])
    diagonal = 2.0 * (1.0 / h[1:] + 1.0 / h[:-1])
    for i in range(1, m - 2):
        share = 1.0 / (h[i] * diagonal[i - 1])
        diagonal[i] -= share / h[i]
        right[i] -= share * right[i - 1]
    for i in range(m - 3, -1, -1):
        v[i + 1] = (right[i] - v[i + 2] / h[i + 1]) / diagonal[i]
    return v


def polynomial_between(start: _Knot, end: _Knot, T: float | Array) -> Sequence[Array]:
    """Return the interpolation between two points, or between k pairs of points.

    Args:
        start: position, velocity and acceleration, None if not given, shape (n,) or (k, n) each.
        end: the same at the second point.
        T: time between the points [s], a scalar or of shape (k, 1).

    Returns:
        Coefficients in the time since the first point, lowest power first, shaped as the positions.
    """
    (q0, v0, a0), (q1, v1, a1) = start, end
    if v0 is None or v1 is None:
        return q0, (q1 - q0) / T
    if a0 is None or a1 is None:
        return _cubic(q0, v0, q1, v1, T)
    d = q1 - q0
    return (
        q0,
        v0,
        0.5 * a0,
        (20.0 * d - (8.0 * v1 + 12.0 * v0) * T - (3.0 * a0 - a1) * T**2) / (2.0 * T**3),
        (-30.0 * d + (14.0 * v1 + 16.0 * v0) * T + (3.0 * a0 - 2.0 * a1) * T**2) / (2.0 * T**4),
        (12.0 * d - 6.0 * (v1 + v0) * T + (a1 - a0) * T**2) / (2.0 * T**5),
    )


def _cubic(q0: Array, v0: Array, q1: Array, v1: Array, T: float | Array) -> Sequence[Array]:
    """Return coefficients, lowest first, of the cubic with these end positions and velocities."""
    d = q1 - q0
    return q0, v0, (3.0 * d - (2.0 * v0 + v1) * T) / T**2, (-2.0 * d + (v0 + v1) * T) / T**3


def rest_to_rest_duration(
    distance: Array, velocity: Array, acceleration: Array, jerk: Array | float = np.inf
) -> float:
    """Return the shortest duration of a quintic from rest to rest within limits [s].

    Its max velocity is 15/8 d/T, its max acceleration 10/sqrt(3) d/T^2, its max jerk 60 d/T^3.

    Args:
        distance: of each joint, 0 or above [rad or m], shape (n,).
        velocity: limits [rad/s or m/s], shape (n,).
        acceleration: limits [rad/s^2 or m/s^2], shape (n,).
        jerk: limits [rad/s^3 or m/s^3], shape (n,).
    """
    times = (
        1.875 * distance / velocity,
        np.sqrt(10.0 / np.sqrt(3.0) * distance / acceleration),
        np.cbrt(60.0 * distance / jerk),
    )
    return max(float(t.max(initial=0.0)) for t in times)


def evaluate(coefficients: Sequence[Array], t: float | Array) -> TrajectorySample:
    """Return value [rad or m] and two derivatives of a polynomial, lowest coefficient first."""
    q = np.zeros_like(coefficients[0])
    v, a = q.copy(), q.copy()
    for c in reversed(coefficients):
        a = a * t + 2.0 * v
        v = v * t + q
        q = q * t + c
    return TrajectorySample(q, v, a)
