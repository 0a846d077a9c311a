# SPDX-License-Identifier: Apache-2.0
"""A time-parameterized joint path: distance along the path as a function of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.bounds import POINTS
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_path import JointPath
from motion_nodes.core.trajectory.joint_trajectory import (
    JointTrajectory,
    Trajectory,
    TrajectorySample,
    check_samples,
    check_time_step,
)
from motion_nodes.kernels.timing.path_pieces import TimedPieces, limit_use, path_states, spanned
from motion_nodes.typing import Array, IndexArray

MIN_SPACING = 1e-4
"""Min time between two points of a motion [s]."""
_ON_LINES = 10.0
"""Factor of the time between points on lines."""
_JERK_CHANGE = 0.02
"""Change of the jerk, relative to its max, that one polynomial may bridge."""
_POSITION_ERROR = 3e-7
"""The same change times the cubed duration of the polynomial [s^3], to which its error of the
positions is proportional."""
_JUMP = 0.01
"""Change of the acceleration between two instants that is a jump, relative to the max."""


class LimitUse(NamedTuple):
    """Max utilization of the limits by a motion; 1 is the limit."""

    velocity: float
    acceleration: float
    jerk: float

    @property
    def stretch(self) -> float:
        """Factor of the duration to be within the limits; below 1: shorter."""
        return float(max(self.velocity, np.sqrt(self.acceleration), np.cbrt(self.jerk)))


@dataclass(frozen=True, eq=False, repr=False)
class TimedPath(Trajectory):
    """A time-parameterized path, from :mod:`motion_nodes.core.trajectory.time_parameterization`.

    Positions, velocities, accelerations and jerks are evaluated, not interpolated.
    """

    path: JointPath
    """Geometry of the motion: positions over the distance along it."""
    times: Array
    """Bounds of the clock's intervals, increasing [s], shape (N + 1,)."""
    clock: Array
    """Distance along the path as a polynomial in the time into an interval, lowest power first,
    shape (N, 6)."""
    piece: IndexArray
    """Piece of the path that contains each interval, shape (N,)."""

    @property
    def joint_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the joints, in the order of the samples."""
        return self.path.joint_names

    @property
    def start_time(self) -> float:
        """Time at which it begins [s]."""
        return float(self.times[0])

    @property
    def end_time(self) -> float:
        """Time at which it ends [s]."""
        return float(self.times[-1])

    def _sample(self, time: float) -> TrajectorySample:
        """Return position, velocity and acceleration at a time [s], shape (n,) each."""
        q, v, a, _ = self.states([time])
        return TrajectorySample(q[0], v[0], a[0])

    def states(self, times: ArrayLike) -> tuple[Array, Array, Array, Array]:
        """Evaluate the motion at several times.

        Args:
            times: from the start [s], shape (k,).

        Returns:
            Positions [rad or m], velocities, accelerations and jerks (per s, s^2 and s^3), shape
            (k, n) each.
        """
        desired = np.ascontiguousarray(times, dtype=np.float64)
        out = np.empty((4, len(desired), self.path.coefficients.shape[2]))
        path_states(self._pieces, desired, out)
        return out[0], out[1], out[2], out[3]

    def points(self, time_step: float) -> JointTrajectory:
        """Return the motion as points in time, the last one at its end, at rest.

        Points are at changes of the jerk, because polynomials across them would exceed the limits,
        and within longer intervals. On lines, which interpolation does not leave, the spacing may
        be ten times as large. At a jump of the acceleration, a further point has the previous
        acceleration.

        Args:
            time_step: max time between two points on curves [s].

        Raises:
            InvalidCommand: a step that is not finite and positive.
            Infeasible: more than 100 000 points.
        """
        times = spaced(self._divided(time_step))
        before, after = self.states(times - MIN_SPACING), self.states(times)
        jumps = self._jumps(times, before, after[2])
        if len(jumps):
            times = np.union1d(times, jumps - MIN_SPACING)
            q, v, a, _ = self.states(times)
        else:
            kept = self._needed(times, before[3], after[3], time_step)
            times, (q, v, a) = times[kept], (values[kept] for values in after[:3])
        v[0] = v[-1] = a[-1] = 0.0
        return JointTrajectory(self.joint_names, times, q, v, a)

    def _divided(self, time_step: float) -> Array:
        """Return the bounds of the clock's intervals, divided into equal parts where longer."""
        check_time_step(time_step)
        spans = self.times[1:] - self.times[:-1]
        longest = time_step * np.where(self.path.bent[self.piece], 1.0, _ON_LINES)
        counts = np.maximum(np.ceil(spans / longest - 1e-9), 1.0)
        check_samples(counts.sum(), POINTS, self.duration)
        parts = counts.astype(np.intp)
        among = np.repeat(np.arange(len(parts)), parts)
        step = np.arange(len(among)) - (parts.cumsum() - parts)[among]
        inside = self.times[among] + step * (spans / parts)[among]
        return np.append(inside, self.times[-1])

    def _jumps(
        self, times: Array, before: tuple[Array, Array, Array, Array], after: Array
    ) -> Array:
        """Return which of the times have a jump of the acceleration before them.

        Args:
            times: increasing [s], shape (k,).
            before: states just before them.
            after: accelerations at them, shape (k, n).
        """
        alone = times > self.start_time
        alone[1:] &= times[1:] - times[:-1] > 2.0 * MIN_SPACING
        expected = before[2] + before[3] * MIN_SPACING
        apart = np.abs(after - expected)
        over = times >= self.end_time
        apart[over] = np.abs(expected[over])  # at rest
        most = np.abs(before[2][alone]).max(initial=0.0)
        return np.asarray(times[alone & (apart > _JUMP * most).any(axis=1)])

    def _needed(
        self, times: Array, before: Array, after: Array, time_step: float
    ) -> NDArray[np.bool_]:
        """Return which points a jerk-limited motion needs, shape (k,).

        Args:
            times: of all points [s], shape (k,).
            before: jerks just before them, shape (k, n).
            after: jerks at them, shape (k, n).
            time_step: max time between two points on curves [s].
        """
        middles = np.searchsorted(self.times, 0.5 * (times[:-1] + times[1:]), "right") - 1
        factors = np.where(self.path.bent[self.piece[middles]], 1.0, _ON_LINES)
        longest = (1.0 + 1e-9) * time_step * factors
        kept = np.empty(len(times), np.bool_)
        spanned(times, before, after, longest, (_JERK_CHANGE, _POSITION_ERROR), kept)
        return kept

    def limit_use(self, limits: JointLimits) -> LimitUse:
        """Return upper bounds of the limit utilization.

        Args:
            limits: of its joints.
        """
        return LimitUse(*self.interval_use(limits).max(axis=0).tolist())

    def interval_use(self, limits: JointLimits) -> Array:
        """Return the utilization of velocity, acceleration and jerk limits per interval, (N, 3).

        Args:
            limits: of its joints.
        """
        use = np.empty((len(self.piece), 3))
        bounds = np.array([limits.velocity, limits.acceleration, limits.jerk])
        limit_use(self._pieces, bounds, use)
        return use

    @property
    def _pieces(self) -> TimedPieces:
        path = self.path
        return TimedPieces(path.breaks, path.coefficients, self.piece, self.times, self.clock)

    def stretched(self, factor: float) -> TimedPath:
        """Return the same motion with another duration.

        Args:
            factor: of its duration.
        """
        powers = factor ** -np.arange(self.clock.shape[1])
        return TimedPath(self.path, self.times * factor, self.clock * powers, self.piece)


def spaced(times: Array) -> Array:
    """Return times [s] without those closer than :data:`MIN_SPACING` to another, shape (k,).

    Of a group of close times the last one is kept, and the first one if it is far enough from that:
    the acceleration may change between them.
    """
    if not (times[1:] - times[:-1] < MIN_SPACING).any():
        return times
    following = np.append(times[1:], np.inf)
    kept = [float(times[0])]
    for time, after in zip(times[1:].tolist(), following[1:].tolist(), strict=True):
        if time - kept[-1] < MIN_SPACING:
            if after - time < MIN_SPACING:
                continue
            if len(kept) > 1:
                kept.pop()
        kept.append(time)
    return np.array(kept)
