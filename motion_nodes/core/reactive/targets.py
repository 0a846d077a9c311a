# SPDX-License-Identifier: Apache-2.0
"""Commands of a follower, and their conversion to policy goals.

Poses and velocities are in the policy's world frame, times [s] are those of one clock.

For velocity commands: the policy's RMPs attract to points. To move at a velocity, the target must
be so far ahead that attraction and damping of the RMP balance at that velocity. This lead also
compensates the lag behind a moving target, whose twist is estimated from its successive poses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from motion_nodes.core.reactive.numpy_policy import ANGLE_WEIGHT, Goal
from motion_nodes.core.reactive.singularity import TwistScale
from motion_nodes.core.robot.poses import rotation_vector, turned
from motion_nodes.core.robot.rmpflow_settings import (
    AxisTarget,
    CspaceTarget,
    RmpflowSettings,
    TargetSettings,
)
from motion_nodes.tolerances import ZERO_SPEED
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.core.reactive.policy import RmpflowPolicy

_MOST_PULL = 0.7  # fraction of an RMP's max attraction that may be used against its damping
_MOST_TURN = 0.5  # [rad] max lead
_LEASH = 0.02  # [m] max distance of the integrated position from the tool, along the twist
_TURN_LEASH = 0.1  # [rad]
_OFF_LINE = 0.02  # [m] distance from the line of a twist at which the target stands
_OFF_TURN = 0.1  # [rad]
_SAME_LINE = 0.7  # min cosine between twists of one line
_JOINT_LEASH = 0.2  # [rad or m]


def position_lead(velocity: Array, leaf: TargetSettings) -> Array:
    """Return the lead of the target for the tool to move along with a velocity.

    In kp d / (d + eps) = kd v, attraction and damping of the RMP, solve for d.

    Args:
        velocity: in any frame [m/s], shape (3,).
        leaf: parameters of ``target_rmp``.

    Returns:
        Offset [m], shape (3,), along the velocity. It is bounded: beyond the max attraction of the
        RMP the tool lags behind.
    """
    speed = float(np.linalg.norm(velocity))
    if speed < ZERO_SPEED or leaf.accel_p_gain <= 0.0:
        return np.zeros(3)
    share = min(leaf.accel_d_gain * speed / leaf.accel_p_gain, _MOST_PULL)
    return np.asarray(velocity * (leaf.accel_norm_eps * share / (1.0 - share) / speed))


def rotation_lead(angular_velocity: Array, leaf: AxisTarget) -> Array:
    """Return the same for a rotation: a rotation vector [rad], shape (3,)."""
    if leaf.accel_p_gain <= 0.0:
        return np.zeros(3)
    ahead = angular_velocity * (leaf.accel_d_gain / leaf.accel_p_gain)
    return _shortened(ahead, _MOST_TURN)


def joint_lead(velocity: Array, leaf: CspaceTarget) -> Array:
    """Return the same for joints [rad or m], shape (n,), within the linear range of the RMP."""
    if leaf.position_gain <= 0.0:
        return np.zeros(len(velocity))
    ahead = velocity * (leaf.damping_gain / leaf.position_gain)
    return _shortened(ahead, leaf.robust_position_term_thresh)


def tool_lead(twist: Array, settings: RmpflowSettings) -> Array:
    """Return the lead of position [m] and rotation [rad] for a tool with a twist, shape (6,)."""
    v, w = twist[:3], twist[3:]
    leads = (position_lead(v, settings.target_rmp), rotation_lead(w, settings.axis_target_rmp))
    return np.concatenate(leads)


class TwistServo:
    """Integrates a tool twist to a target pose.

    Along the command the target stays within a bounded distance of the tool; across it, it stays
    where it was. While the tool is off this line, as at the end of its reach, the target advances
    more slowly, so that the tool does not leave the line for the sake of the velocity. Another
    direction begins a line where the tool is: only moving back may bring it there.
    """

    def __init__(self, X_WT: Array) -> None:
        """Start at the current tool pose in the world, shape (4, 4)."""
        self._X, self._direction = X_WT.copy(), np.zeros(6)
        self.share = 1.0
        """Fraction of the twist that the target follows, 0 to 1."""

    def target(self, X_WT: Array, twist: Array, dt: float, lead: Callable[[Array], Array]) -> Array:
        """Return the target pose of the tool in the world, shape (4, 4).

        Args:
            X_WT: current pose of the tool in the world, shape (4, 4).
            twist: linear [m/s] and angular velocity [rad/s] of the tool, in the world's axes (6,).
            dt: time since the last call [s].
            lead: returns the lead of the target for a twist, as :func:`tool_lead`.
        """
        speed = _length(twist)
        if speed > ZERO_SPEED and float(self._direction @ twist) < _SAME_LINE * speed:
            self._X, self._direction, self.share = X_WT.copy(), twist / speed, 1.0
        followed = self.share * twist
        reached = self._X[:3, 3] + dt * followed[:3] - X_WT[:3, 3]
        turned_to = turned(self._X[:3, :3], dt * followed[3:])
        away = np.array(rotation_vector(turned_to @ X_WT[:3, :3].T))
        along, across = _split(reached, twist[:3], _LEASH)
        along_turn, across_turn = _split(away, twist[3:], _TURN_LEASH)
        off = max(_length(across) / _OFF_LINE, _length(across_turn) / _OFF_TURN)
        self.share = min(max(2.0 - 2.0 * off, 0.0), 1.0)
        self._X[:3, 3] = X_WT[:3, 3] + along + _shortened(across, 2.0 * _OFF_LINE)
        turn = along_turn + _shortened(across_turn, 2.0 * _OFF_TURN)
        self._X[:3, :3] = turned(X_WT[:3, :3], turn)
        ahead = lead(followed)
        X = np.eye(4)
        X[:3, 3] = self._X[:3, 3] + ahead[:3]
        X[:3, :3] = turned(self._X[:3, :3], ahead[3:])
        return X


class JogServo:
    """Integrates joint velocities to a target posture, with a bounded distance from the joints."""

    def __init__(self, q: Array, lower: Array, upper: Array) -> None:
        """Start at the current positions; stay within the joint limits, shape (n,) each."""
        self._q, self._lower, self._upper = q.copy(), lower, upper

    def target(self, q: Array, velocity: Array, dt: float, lead: Array) -> Array:
        """Return the target posture of the joints [rad or m], shape (n,).

        Args:
            q: current positions [rad or m], shape (n,).
            velocity: commanded velocities [rad/s or m/s], shape (n,).
            dt: time since the last call [s].
            lead: of the posture, as from :func:`joint_lead`, shape (n,).
        """
        self._q = np.clip(self._q + dt * velocity, q - _JOINT_LEASH, q + _JOINT_LEASH)
        return np.asarray(np.clip(self._q + lead, self._lower, self._upper))


def _split(vector: Array, direction: Array, most: float) -> tuple[Array, Array]:
    """Return the components of a vector along a direction, with a max length, and normal to it."""
    length = _length(direction)
    if length < ZERO_SPEED:
        return np.zeros(3), vector
    unit = direction / length
    along = float(unit @ vector)
    return min(max(along, -most), most) * unit, vector - along * unit


def _length(vector: Array) -> float:
    return float(np.linalg.norm(vector))


def _shortened(vector: Array, most: float) -> Array:
    length = _length(vector)
    return vector if length <= most else np.asarray(vector * (most / length))


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
        self.scale = TwistScale()
        """Of the twist, near a singularity."""
        self._servo: TwistServo | None = None

    def goal_at(self, policy: RmpflowPolicy, q: Array, dt: float, now: float) -> Goal:
        """Return a goal ahead of the tool; the posture follows the joints and has no effect."""
        X_WT = policy.tool_pose(q)
        if self._servo is None:
            self._servo = TwistServo(X_WT)
        # A twist of which nothing is left has no direction in which the target may be ahead.
        twist = self.scale.share * self.twist
        X = self._servo.target(X_WT, twist, dt, policy.tool_lead)
        return Goal(q.copy(), X[:3, 3], X[:3, :3])

    def place(self) -> Goal | None:
        """Return None: a velocity has no place."""
        return None


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

    def place(self) -> Goal | None:
        """Return None: a velocity has no place."""
        return None


FollowerCommand = PoseCommand | PostureCommand | TwistCommand | JogCommand
"""A command that defines the policy's goal: at each step by ``goal_at``, finally by ``place``.
A velocity (``servo``) must be renewed continuously; ``at`` is when it was, or was given [s]."""
