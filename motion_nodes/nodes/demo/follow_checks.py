# SPDX-License-Identifier: Apache-2.0
"""Checks of a tracking arm: tracking error, and distances from the obstacle and between links.

Measured states are compared with target and obstacle at their stamps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Sphere
from motion_nodes.nodes.demo.client import DemoFindings
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object
from motion_nodes.typing import Array

BALL, RADIUS = "ball", 0.06
"""Name and radius [m] of the obstacle."""
LAG = 0.01
"""Max tracking error without late loops, 95th percentile [m]."""
LATE_PERIOD = 0.015
"""Period of joint states above which loops were late [s]; it is about 8 ms otherwise."""
LOOPS = 3
"""Number of loops in series: policy, controller and simulation."""
SETTLING_TIME = 2.5
"""Time without checks after the start, and after the obstacle was near the target [s]."""
NEAR = 0.3
"""Distance between target and obstacle below which the obstacle blocks the target [m]."""
_CHECK_PERIOD = 0.05
"""Period of distance checks in simulated time [s]."""


class Seen(NamedTuple):
    """A measured state of the arm."""

    at: float
    """Stamp [s]."""
    q: Array
    """Joint positions [rad], shape (n,)."""


class FollowingArm(Protocol):
    """A tracking arm and its measured states."""

    who: str
    """Follower of the target."""
    robot: Robot
    joints: tuple[str, ...]
    kinematics: Kinematics
    tool: str
    seen: list[Seen]
    """Measured states."""
    guests: set[str]
    """Robots and objects that other clients command."""


class Round(NamedTuple):
    """One round of the target, in simulated time."""

    begin: float
    end: float
    target: Callable[[float], Array]
    """Position at a time [s]: [m], shape (3,)."""
    ball: Callable[[float], Array] | None
    """Centre of the obstacle at a time [s]: [m], shape (3,); None without an obstacle."""
    last: bool = True
    """False for a round that was repeated because loops were late."""


class Lag(NamedTuple):
    """Tracking error of the tool in a round."""

    median: float
    """Median [m]; NaN if there was no time to check."""
    most: float
    """95th percentile [m]."""
    period: float
    """95th percentile of the period of joint states [s]."""
    away: float
    """Max while the obstacle was near [m]."""

    def allowed(self, speed: float) -> float:
        """Return the allowed error for a target's speed [m/s]: [m]."""
        return LAG + LOOPS * self.period * speed

    def small(self, speed: float) -> bool:
        """Return whether the error is allowed for a target's speed [m/s]."""
        return self.most < self.allowed(speed)


def came_late(arm: FollowingArm, part: Round, speed: float) -> str:
    """Return evidence of late loops in a round, as text; empty for none."""
    lag = lag_of(arm, part)
    if not lag.small(speed):
        return "the arm was late"
    if part.ball is None or BALL in arm.guests or lag.period < LATE_PERIOD:
        return ""
    collided = least_distances(arm, part, _seen_in(arm, part))[0] <= 0.0
    return "the arm avoided the obstacle late" if collided else ""


def lag_of(arm: FollowingArm, part: Round) -> Lag:
    """Return the tracking error of a round."""
    seen = _seen_in(arm, part)
    poses = arm.kinematics.pose_batch(np.array([state.q for state in seen]), arm.tool)
    targets = np.array([part.target(state.at) for state in seen])
    errors = np.linalg.norm(poses[:, :3, 3] - targets, axis=1)
    free = free_to_follow(part, np.array([state.at for state in seen]), targets)
    if not free.any():
        return Lag(np.nan, np.nan, np.nan, float(errors.max()))
    median, most = (float(np.percentile(errors[free], share)) for share in (50, 95))
    period = float(np.percentile(np.diff([state.at for state in seen]), 95))
    return Lag(median, most, period, float(errors[~free].max(initial=0.0)))


def _seen_in(arm: FollowingArm, part: Round) -> list[Seen]:
    return [state for state in arm.seen if part.begin <= state.at <= part.end]


def check_round(arm: FollowingArm, part: Round, findings: DemoFindings, speed: float) -> None:
    """Check tracking error, and distances from the obstacle and between links."""
    lag = lag_of(arm, part)
    if part.last:
        findings.check(
            lag.small(speed),
            f"Franka tracked a target at up to {speed:.2f} m/s by {arm.who}: error "
            f"{1e3 * lag.median:.1f} mm (median), {1e3 * lag.most:.1f} mm (95 %), "
            f"{1e3 * lag.allowed(speed):.0f} mm allowed with states every "
            f"{1e3 * lag.period:.0f} ms",
        )
    world, own = least_distances(arm, part, _seen_in(arm, part))
    if part.ball is None or (not part.last and lag.period >= LATE_PERIOD):
        findings.check(own > 0.0, f"min distance between links {100 * own:.1f} cm")
        return
    findings.check(
        world > 0.0 and own > 0.0,
        f"a ball crossed the path: the arm deviated by {100 * lag.away:.0f} cm, min distance "
        f"{100 * world:.1f} cm, between links {100 * own:.1f} cm",
    )


def free_to_follow(part: Round, times: Array, targets: Array) -> NDArray[np.bool_]:
    """Return at which times the tool can track the target, shape (m,).

    Args:
        part: the round.
        times: [s], shape (m,).
        targets: positions of the target [m], shape (m, 3).
    """
    since = part.begin
    free = []
    for t, target in zip(times, targets, strict=True):
        if part.ball is not None and np.linalg.norm(part.ball(t) - target) < NEAR:
            since = t
        free.append(t - since >= SETTLING_TIME)
    return np.array(free, np.bool_)


def least_distances(arm: FollowingArm, part: Round, seen: list[Seen]) -> tuple[float, float]:
    """Return the min distances from the obstacle and between links [m]."""
    checker = CollisionChecker(arm.robot, arm.joints)
    item = world_object(BALL, Sphere(RADIUS))
    world, own, checked = np.inf, np.inf, -np.inf
    for state in seen:
        if state.at - checked < _CHECK_PERIOD:
            continue
        checked = state.at
        if part.ball is not None:
            ball = replace(item, X_WO=from_xyz_rpy(part.ball(state.at)))
            checker.set_scene(Scene(objects={BALL: ball}))
            world = min(world, float(checker.sphere_distances(state.q).distance.min()))
            checker.set_scene(Scene())
        own = min(own, checker.distance(state.q).value)
    return world, own
