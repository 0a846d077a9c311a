# SPDX-License-Identifier: Apache-2.0
"""Commands of a follower, and their conversion to policy goals.

Poses and velocities are in the policy's world frame, times [s] are those of one clock.

Estimates the twist of a target from its successive poses. A policy that is only attracted to the
current pose lags behind a moving target by centimetres.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from motion_nodes.core.reactive.numpy_policy import ANGLE_WEIGHT, Goal
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.servo import JogServo, TwistServo
from motion_nodes.core.robot.poses import rotation_vector, turned
from motion_nodes.typing import Array

_SETTLING = 0.12  # [s] time constant of the estimate
# [m/s, rad/s] faster changes are teleports, not motion
_FASTEST = np.array([1.0, 1.0, 1.0, 4.0, 4.0, 4.0])
_LEAST_HOLD = 0.15  # [s] min time (or two intervals) that the estimate is held without new poses
_LONGEST = 0.5  # [s] max interval between two poses of one motion
_STILL = np.zeros(6)


class TargetMotion:
    """Filtered twist of a target."""

    def __init__(self) -> None:
        self._X: Array | None = None
        self._at = 0.0
        self._interval = 0.0
        self._twist = _STILL

    def see(self, X: Array, at: float) -> None:
        """Update with the pose of the target at a time.

        Args:
            X: its pose in the world, shape (4, 4).
            at: time [s]; one that is not after the last does not change the estimate.
        """
        known, interval = self._X, at - self._at
        if known is not None and 0.0 < interval <= _LONGEST:
            turn = np.array(rotation_vector(X[:3, :3] @ known[:3, :3].T))
            twist = np.concatenate((X[:3, 3] - known[:3, 3], turn)) / interval
            if (np.abs(twist) > _FASTEST).any():
                self._twist = _STILL
            else:
                new = 1.0 - math.exp(-interval / _SETTLING)
                self._twist = self._twist + new * (twist - self._twist)
            self._interval = interval
        elif known is not None and interval > _LONGEST:
            self._twist = _STILL
        if known is None or interval > 0.0:
            self._at = at
        self._X = X

    def twist(self, now: float) -> Array:
        """Return linear [m/s] and angular velocity [rad/s], shape (6,); 0 after the hold time."""
        held = max(2.0 * self._interval, _LEAST_HOLD)
        return self._twist if now - self._at <= held else _STILL

    def age(self, now: float) -> float:
        """Return the bounded age of the last pose [s]."""
        return min(max(now - self._at, 0.0), _LEAST_HOLD)


class FollowerCommand(Protocol):
    """A command that defines the policy's goal."""

    servo: bool
    """Whether it is a velocity command, which must be renewed continuously and has no goal."""
    at: float
    """Time when it was given or last renewed [s]."""

    def goal_at(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Return the policy's next goal, with the joints at ``q`` [rad or m], shape (n,)."""

    def place(self) -> Goal | None:
        """Return the final goal of the robot; None for a velocity."""


class PoseCommand:
    """A target pose of the tool, or a position with unconstrained orientation."""

    servo = False

    def __init__(self, X_WT: Array, at: float, *, oriented: bool, posture: Array) -> None:
        self.posture = posture
        """Posture that resolves the redundancy of the pose [rad or m], shape (n,)."""
        self._motion = TargetMotion()
        self.renew(X_WT, at, oriented=oriented)

    def renew(self, X_WT: Array, at: float, *, oriented: bool) -> None:
        """Update the target's pose at a later time."""
        self.X_WT, self.at, self.oriented = X_WT, at, oriented
        self._motion.see(X_WT, at)

    def distance(self, X_WT: Array, *, oriented: bool, tried: Array | None) -> float:
        """Return how far a target is from the last one, or from a tried one [m].

        Args:
            X_WT: pose of the target, shape (4, 4).
            oriented: whether its orientation is constrained; then 1 rad counts as 0.1 m.
            tried: pose of the tried target, shape (4, 4); None: the last one.
        """
        if oriented != self.oriented:
            return math.inf
        X = self.X_WT if tried is None else tried
        turn = rotation_vector(X_WT[:3, :3] @ X[:3, :3].T) if oriented else ()
        return math.dist(X_WT[:3, 3], X[:3, 3]) + ANGLE_WEIGHT * math.hypot(*turn)

    def goal_at(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Return the current estimate of the target, with a lead that compensates its motion."""
        twist = self._motion.twist(now)
        ahead = self._motion.age(now) * twist + policy.tool_lead(twist)
        rotation = turned(self.X_WT[:3, :3], ahead[3:]) if self.oriented else None
        return Goal(self.posture, self.X_WT[:3, 3] + ahead[:3], rotation)

    def place(self) -> Goal:
        """Return the last commanded target."""
        return Goal(self.posture, self.X_WT[:3, 3], self.X_WT[:3, :3] if self.oriented else None)


class PostureCommand:
    """A target posture of the joints."""

    servo = False

    def __init__(self, posture: Array, at: float) -> None:
        self.posture, self.at = posture, at

    def goal_at(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Return the posture."""
        return self.place()

    def place(self) -> Goal:
        """Return the posture."""
        return Goal(self.posture)


class TwistCommand:
    """A velocity command of the tool."""

    servo = True

    def __init__(self, twist: Array, at: float) -> None:
        self.twist, self.at = twist, at
        self._servo: TwistServo | None = None

    def goal_at(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Return a goal ahead of the tool; the posture follows the joints and has no effect."""
        X_WT = policy.tool_pose(q)
        if self._servo is None:
            self._servo = TwistServo(X_WT)
        X = self._servo.target(X_WT, self.twist, dt, policy.tool_lead(self.twist))
        return Goal(q.copy(), X[:3, 3], X[:3, :3])

    def place(self) -> None:
        """Return None: a velocity has no place."""


class JogCommand:
    """A velocity command of the joints."""

    servo = True

    def __init__(self, velocity: Array, at: float) -> None:
        self.velocity, self.at = velocity, at
        self._servo: JogServo | None = None

    def goal_at(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Return a posture ahead of the joints."""
        if self._servo is None:
            limits = policy.robot.limits.select(policy.active_joints)
            self._servo = JogServo(q, limits.lower, limits.upper)
        lead = policy.joint_lead(self.velocity)
        return Goal(self._servo.target(q, self.velocity, dt, lead))

    def place(self) -> None:
        """Return None: a velocity has no place."""
