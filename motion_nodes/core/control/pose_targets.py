# SPDX-License-Identifier: Apache-2.0
"""Settings and target poses of Cartesian impedance control.

A target moves filtered, within limits of velocity and acceleration, or along a trajectory of poses:
linear interpolation, rotations about one axis, at constant speed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.poses import rotation_vector, turned
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array

AXES = ("x", "y", "z", "rx", "ry", "rz")
"""Names of the axes of stiffness, damping and wrenches."""
FRAMES = ("tool", "base")
_SIX = "x, y, z, rx, ry, rz, or one value each for all translations and rotations"


@dataclass(frozen=True, kw_only=True)
class ImpedanceSettings:
    """Stiffness, damping and limits; lists are in the order of :data:`AXES`."""

    stiffness: tuple[float, ...] = setting(
        (600.0, 40.0),
        doc=f"Stiffness of the tool: {_SIX}. 0: free.",
        unit="N/m and N m/rad",
        ge=0.0,
        le=1e5,
    )
    damping_ratio: tuple[float, ...] = setting(
        (1.0, 1.0),
        doc=f"Damping ratio with the inertia of the arm at the tool: {_SIX}.",
        ge=0.0,
        le=10.0,
    )
    damping: tuple[float, ...] = setting(
        (math.nan, math.nan),
        doc=f"Damping of the tool: {_SIX}. Not set (NaN): by damping_ratio.",
        unit="N s/m and N m s/rad",
        ge=0.0,
        le=1e4,
        nan=True,
    )
    frame: str = setting(
        "tool", doc="Frame of the axes of stiffness, damping and force_axes.", one_of=FRAMES
    )
    force_axes: tuple[str, ...] = setting(
        (),
        doc="Axes along which a force is controlled: the target wrench is the wrench exerted on "
        "the environment; stiffness sets only the damping there.",
    )
    force_gain: float = setting(
        5.0, doc="Integral gain of force control; 0: open loop.", unit="1/s", ge=0.0, le=100.0
    )
    nullspace_stiffness: float = setting(
        20.0, doc="Stiffness of the posture in the nullspace.", unit="N m/rad", ge=0.0, le=1e4
    )
    nullspace_damping_ratio: float = setting(
        1.0, doc="Damping ratio of the posture in the nullspace.", ge=0.0, le=10.0
    )
    max_force: float = setting(
        120.0, doc="Max force of springs and force control.", unit="N", gt=0.0, le=1e4
    )
    max_torque: float = setting(
        40.0, doc="Max torque of springs and force control.", unit="N m", gt=0.0, le=1e4
    )
    max_effort_rate: float = setting(
        1000.0, doc="Max rate of change of joint efforts.", unit="N m/s or N/s", gt=0.0, le=1e6
    )
    max_velocity: float = setting(
        0.5, doc="Max linear velocity of the target.", unit="m/s", gt=0.0, le=10.0
    )
    max_angular_velocity: float = setting(
        1.5, doc="Max angular velocity of the target.", unit="rad/s", gt=0.0, le=30.0
    )
    max_acceleration: float = setting(
        2.0, doc="Max linear acceleration of the target.", unit="m/s^2", gt=0.0, le=100.0
    )
    max_angular_acceleration: float = setting(
        6.0, doc="Max angular acceleration of the target.", unit="rad/s^2", gt=0.0, le=300.0
    )
    gravity_compensation: bool = setting(
        True, doc="Compensate gravity; off for robots that do so themselves."
    )
    payload_mass: float = setting(
        0.0,
        doc="Payload mass at the tool, included in the robot's model in all control modes.",
        unit="kg",
        ge=0.0,
        le=1e3,
    )
    payload_center: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0), doc="Center of mass of the payload in the tool frame.", unit="m",
        ge=-10.0, le=10.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidConfig: a value out of range, or a list of wrong length.
        """
        check_settings(self)
        for name in ("stiffness", "damping_ratio", "damping"):
            count = len(getattr(self, name))
            if count not in (2, 6):
                raise InvalidConfig(
                    f"{name} has {count} values; it must have 6 or 2: {_SIX}", field=name
                )
        for axis in self.force_axes:
            if axis not in (*AXES, ""):  # ROS has no empty lists of strings
                raise InvalidConfig(f"force_axes names '{axis}'; allowed: {', '.join(AXES)}")
        if len(self.payload_center) != 3:
            raise InvalidConfig(
                f"payload_center has {len(self.payload_center)} values; it must have 3: x, y, z",
                field="payload_center",
            )

    def six(self, name: str) -> Array:
        """Return stiffness, damping_ratio or damping over the six axes, shape (6,)."""
        values = np.array(getattr(self, name), dtype=np.float64)
        return values if len(values) == 6 else np.repeat(values, 3)

    @property
    def forced(self) -> NDArray[np.bool_]:
        """Mask of the axes under force control, shape (6,)."""
        return np.array([axis in self.force_axes for axis in AXES])


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
