# SPDX-License-Identifier: Apache-2.0
"""What a follower can be asked for, and where each wish leads a policy.

Poses and velocities are in the world of the policy, times [s] are those of one clock.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from motion_nodes.model.tree import Array
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.servo import (
    JogServo,
    TwistServo,
    lead_of_position,
    lead_of_rotation,
    turned,
)
from motion_nodes.rmpflow.target_motion import TargetMotion


class Wish(Protocol):
    """Something that leads a policy."""

    servo: bool
    """Whether it is a speed, which must be renewed all the time, and has no place."""
    at: float
    """When it was given or last renewed [s]."""

    def lead(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Return where the policy is to be led next, with the joints at ``q``."""

    def place(self) -> Goal | None:
        """Return where the robot shall be in the end; None for a speed."""


class PoseWish:
    """The tool at a pose, or at a position with any orientation."""

    servo = False

    def __init__(self, X_WT: Array, at: float, *, oriented: bool, posture: Array) -> None:
        self.posture = posture
        """What the pose leaves open tends to this posture, shape (n,)."""
        self._motion = TargetMotion()
        self.renew(X_WT, at, oriented=oriented)

    def renew(self, X_WT: Array, at: float, *, oriented: bool) -> None:
        """Take the target's pose at a later time."""
        self.X_WT, self.at, self.oriented = X_WT, at, oriented
        self._motion.see(X_WT, at)

    def lead(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Lead to where the target is by now, and ahead of it as far as it moves on."""
        twist, settings = self._motion.twist(now), policy.settings
        v, w, age = twist[:3], twist[3:], self._motion.age(now)
        position = self.X_WT[:3, 3] + age * v + lead_of_position(v, settings.target_rmp)
        rotation = None
        if self.oriented:
            ahead = age * w + lead_of_rotation(w, settings.axis_target_rmp)
            rotation = turned(self.X_WT[:3, :3], ahead)
        return Goal(self.posture, position, rotation)

    def place(self) -> Goal:
        """Return the target as it was last said to be."""
        return Goal(self.posture, self.X_WT[:3, 3], self.X_WT[:3, :3] if self.oriented else None)


class PostureWish:
    """The joints at a posture."""

    servo = False

    def __init__(self, posture: Array, at: float) -> None:
        self.posture, self.at = posture, at

    def lead(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Lead to the posture."""
        return self.place()

    def place(self) -> Goal:
        """Return the posture."""
        return Goal(self.posture)


class TwistWish:
    """The tool at a speed."""

    servo = True

    def __init__(self, twist: Array, at: float) -> None:
        self.twist, self.at = twist, at
        self._servo: TwistServo | None = None

    def lead(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Lead ahead of the tool; the posture goes along, so that it asks for nothing."""
        X_WT = policy.tool_pose(q)
        if self._servo is None:
            self._servo = TwistServo(X_WT)
        X = self._servo.target(X_WT, self.twist, dt, policy.settings)
        return Goal(q.copy(), X[:3, 3], X[:3, :3])

    def place(self) -> None:
        """Return None: a speed has no place."""


class JogWish:
    """Joints at speeds."""

    servo = True

    def __init__(self, velocity: Array, at: float) -> None:
        self.velocity, self.at = velocity, at
        self._servo: JogServo | None = None

    def lead(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Lead ahead of the joints."""
        if self._servo is None:
            limits = policy.robot.limits.select(policy.active_joints)
            self._servo = JogServo(q, limits.lower, limits.upper)
        return Goal(self._servo.target(q, self.velocity, dt, policy.settings))

    def place(self) -> None:
        """Return None: a speed has no place."""


def apart(X: Array, Y: Array) -> float:
    """Return the distance between two poses' origins [m]."""
    return float(np.linalg.norm(X[:3, 3] - Y[:3, 3]))
