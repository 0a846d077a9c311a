# SPDX-License-Identifier: Apache-2.0
"""Target poses that move: filtered within limits, or along a trajectory.

Filter of a target pose with velocity and acceleration limits; a trajectory of poses: linear
interpolation, rotations about one axis, at constant speed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from motion_nodes.core.control.impedance_settings import ImpedanceSettings
from motion_nodes.core.robot.poses import rotation_vector, turned
from motion_nodes.errors import InvalidCommand
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array


class PoseFilter:
    """Moves a pose towards a goal within limits of velocity and acceleration, on a straight line.

    A moving goal is followed without lag while its acceleration is within the limits. Position and
    orientation move independently, the orientation about one axis.
    """

    def __init__(self, X: Array) -> None:
        """Start at rest at a pose, shape (4, 4)."""
        self.goal = X
        """Goal pose, shape (4, 4)."""
        self.goal_twist = np.zeros(6)
        """Velocity of the goal in the base's axes [m/s, rad/s], shape (6,)."""
        self.pose = X.copy()
        """Current pose, shape (4, 4)."""
        self.twist = np.zeros(6)
        """Its velocity in the base's axes [m/s, rad/s], shape (6,)."""

    def step(self, dt: float, settings: ImpedanceSettings) -> None:
        """Advance by a time [s]."""
        s, X, goal = settings, self.pose, self.goal
        away = goal[:3, 3] - X[:3, 3]
        turn = np.array(rotation_vector(goal[:3, :3] @ X[:3, :3].T))
        v, w = (
            _limited(along + _next_velocity(to, twist - along, max_v, max_a, dt), max_v)
            for to, twist, along, max_v, max_a in (
                (away, self.twist[:3], self.goal_twist[:3], s.max_velocity, s.max_acceleration),
                (turn, self.twist[3:], self.goal_twist[3:], s.max_angular_velocity,
                 s.max_angular_acceleration),
            )
        )  # fmt: skip
        pose = np.eye(4)
        pose[:3, 3] = X[:3, 3] + dt * v
        pose[:3, :3] = turned(X[:3, :3], dt * w)
        self.pose, self.twist = pose, np.concatenate((v, w))


def _limited(v: Array, max_v: float) -> Array:
    size = math.sqrt(v @ v)
    return v if size <= max_v else v * (max_v / size)


def _next_velocity(away: Array, v: Array, max_v: float, max_a: float, dt: float) -> Array:
    """Return the velocity of the next step, relative to the goal.

    Args:
        away: vector from the current value to the goal, shape (3,).
        v: current velocity relative to the goal, shape (3,).
        max_v: max velocity.
        max_a: max acceleration.
        dt: duration of a step [s].

    The speed is that from which braking in steps of ``dt`` ends at the goal: with ``v = k a dt``
    the distance is ``a dt^2 k (k + 1) / 2``.
    """
    distance = math.sqrt(away @ away)
    if distance < EQUAL_POSITIONS and math.sqrt(v @ v) <= max_a * dt:
        return away / dt
    half = 0.5 * max_a * dt
    speed = min(max_v, math.sqrt(half * half + 2.0 * max_a * distance) - half, distance / dt)
    desired = away * (speed / distance) if distance > 0.0 else np.zeros(3)
    change = desired - v
    size = math.sqrt(change @ change)
    if size > max_a * dt:
        change *= max_a * dt / size
    return np.asarray(v + change)


class PoseTrajectory:
    """Poses at times, with velocities between them."""

    def __init__(self, times: Sequence[float], poses: Sequence[Array]) -> None:
        """Create.

        Args:
            times: from the start [s], increasing, the first one 0 or later.
            poses: poses at these times, shape (4, 4) each.

        Raises:
            InvalidCommand: no point, different numbers of times and poses, or times that are not
                finite or do not increase.
        """
        if not poses or len(times) != len(poses):
            raise InvalidCommand(
                f"a trajectory needs a time for each pose: got {len(times)} times and {len(poses)} "
                "poses"
            )
        self._times = np.array(times, np.float64)
        if not (np.isfinite(self._times).all() and self._times[0] >= 0.0):
            raise InvalidCommand("times of a trajectory must be finite, from 0")
        gaps = np.diff(self._times)
        if not (gaps > 0.0).all():
            k = int(np.argmin(gaps > 0.0))
            raise InvalidCommand(
                f"times of a trajectory must increase: point {k + 1} is at {times[k + 1]:g} s, "
                f"after {times[k]:g} s"
            )
        self._poses = list(poses)
        changes = [
            (*(b[:3, 3] - a[:3, 3]), *rotation_vector(b[:3, :3] @ a[:3, :3].T))
            for a, b in itertools.pairwise(poses)
        ]
        self._twists = np.array(changes).reshape(-1, 6) / gaps[:, None]

    @property
    def end(self) -> float:
        """Time of the last pose [s]."""
        return float(self._times[-1])

    def from_pose(self, X: Array) -> PoseTrajectory:
        """Return the trajectory with an added pose at time 0, if it starts later."""
        if self._times[0] == 0.0:
            return self
        return PoseTrajectory([0.0, *self._times.tolist()], [X, *self._poses])

    def check(self, max_velocity: float, max_angular_velocity: float) -> None:
        """Raise InvalidCommand if it exceeds velocity limits [m/s], [rad/s]."""
        for what, part, unit, limit in (
            ("velocity", slice(0, 3), "m/s", max_velocity),
            ("angular velocity", slice(3, 6), "rad/s", max_angular_velocity),
        ):
            speeds = np.linalg.norm(self._twists[:, part], axis=1)
            if (speeds > limit * 1.001).any():
                k = int(np.argmax(speeds))
                raise InvalidCommand(
                    f"the trajectory needs a {what} of {speeds[k]:.3g} {unit} before "
                    f"{self._times[k + 1]:g} s; at most {limit:g} {unit}"
                )

    def at(self, time: float) -> tuple[Array, Array]:
        """Return pose, shape (4, 4), and twist [m/s, rad/s], shape (6,), at a time [s].

        At rest before the first pose and from the last pose on.
        """
        k = int(np.searchsorted(self._times, time, side="right")) - 1
        if k < 0 or k >= len(self._twists):
            return self._poses[max(k, 0)], np.zeros(6)
        since, twist, X = time - self._times[k], self._twists[k], np.eye(4)
        X[:3, 3] = self._poses[k][:3, 3] + since * twist[:3]
        X[:3, :3] = turned(self._poses[k][:3, :3], since * twist[3:])
        return X, twist
