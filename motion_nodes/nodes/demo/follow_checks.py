# SPDX-License-Identifier: Apache-2.0
"""What is judged of an arm that followed: how far behind it was, and how near to the obstacle.

Measured states against where target and obstacle were at their stamps.
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
from motion_nodes.model.tree import Array, Sphere
from motion_nodes.nodes.demo.client import DemoFindings
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene, world_object

BALL, RADIUS = "ball", 0.06  # [m]
LAG = 0.01
"""[m] What the tool may be behind its target, in 95 of 100 states, where no loop is late."""
STATES_LATE = 0.015
"""[s] Joint states come every 8 ms or so where nothing else wants the processors."""
LOOPS = 3
"""Policy, controller and simulation work one after the other; each may be late."""
SETTLING = 2.5
"""[s] After the target begins to move, or the obstacle was in the way."""
APART = 0.3
"""[m] From here on the obstacle's centre is in nobody's way."""
_LOOK = 0.05  # [s] of simulated time between two looks at distances


class Seen(NamedTuple):
    """A measured state of the arm."""

    at: float
    """Its stamp [s]."""
    q: Array


class FollowingArm(Protocol):
    """An arm that follows, and what was seen of it."""

    who: str
    """What leads it."""
    robot: Robot
    joints: tuple[str, ...]
    kinematics: Kinematics
    tool: str
    seen: list[Seen]
    guests: set[str]
    """What others have taken over."""


class Round(NamedTuple):
    """One round of the target, in simulated time."""

    begin: float
    end: float
    target: Callable[[float], Array]
    """Position at a time [s]."""
    ball: Callable[[float], Array] | None
    """The obstacle's centre at a time [s]; None without one."""
    last: bool = True
    """False for a round that was done once more, because the arm came late."""


class Lag(NamedTuple):
    """How far the tool was behind its target in a round, and why."""

    median: float
    """[m]; NaN where there was nothing to judge."""
    most: float
    """95 of 100 states were nearer [m]."""
    period: float
    """95 of 100 states came sooner after the one before [s]."""
    away: float
    """The most while the obstacle was near [m]."""

    def allowed(self, speed: float) -> float:
        """Return what is allowed behind a target of a speed [m]."""
        return LAG + LOOPS * self.period * speed

    def small(self, speed: float) -> bool:
        """Return whether the tool followed."""
        return self.most < self.allowed(speed)


def came_late(arm: FollowingArm, part: Round, speed: float) -> str:
    """Return what shows that loops came late in a round, for people; empty where nothing does."""
    lag = lag_of(arm, part)
    if not lag.small(speed):
        return "the arm came late"
    if part.ball is None or BALL in arm.guests or lag.period < STATES_LATE:
        return ""
    touched = least_distances(arm, part, _seen_in(arm, part))[0] <= 0.0
    return "the arm gave way late" if touched else ""


def lag_of(arm: FollowingArm, part: Round) -> Lag:
    """Return how far the tool was behind in a round."""
    seen = _seen_in(arm, part)
    poses = arm.kinematics.pose_batch(np.array([state.q for state in seen]), arm.tool)
    targets = np.array([part.target(state.at) for state in seen])
    behind = np.linalg.norm(poses[:, :3, 3] - targets, axis=1)
    free = free_to_follow(part, np.array([state.at for state in seen]), targets)
    if not free.any():
        return Lag(np.nan, np.nan, np.nan, float(behind.max()))
    median, most = (float(np.percentile(behind[free], share)) for share in (50, 95))
    period = float(np.percentile(np.diff([state.at for state in seen]), 95))
    return Lag(median, most, period, float(behind[~free].max(initial=0.0)))


def _seen_in(arm: FollowingArm, part: Round) -> list[Seen]:
    return [state for state in arm.seen if part.begin <= state.at <= part.end]


def check_round(arm: FollowingArm, part: Round, findings: DemoFindings, speed: float) -> None:
    """Check how far the tool was behind, and how near the arm came to the obstacle and itself."""
    lag = lag_of(arm, part)
    if part.last:
        findings.check(
            lag.small(speed),
            f"Franka followed a target at up to {speed:.2f} m/s by {arm.who}: "
            f"{1e3 * lag.median:.1f} mm behind (median), {1e3 * lag.most:.1f} mm (95 %), "
            f"{1e3 * lag.allowed(speed):.0f} mm allowed with states every "
            f"{1e3 * lag.period:.0f} ms",
        )
    world, own = least_distances(arm, part, _seen_in(arm, part))
    if part.ball is None or (not part.last and lag.period >= STATES_LATE):
        findings.check(own > 0.0, f"its links stayed {100 * own:.1f} cm apart or more")
        return
    findings.check(
        world > 0.0 and own > 0.0,
        f"a ball came through: the arm gave way by {100 * lag.away:.0f} cm and stayed "
        f"{100 * world:.1f} cm off it, its links {100 * own:.1f} cm apart",
    )


def free_to_follow(part: Round, times: Array, targets: Array) -> NDArray[np.bool_]:
    """Return when the tool had nothing to wait for: shape (m,), bool.

    Args:
        part: the round.
        times: shape (m,) [s].
        targets: where the target was, shape (m, 3).
    """
    since = part.begin
    free = []
    for t, target in zip(times, targets, strict=True):
        if part.ball is not None and np.linalg.norm(part.ball(t) - target) < APART:
            since = t
        free.append(t - since >= SETTLING)
    return np.array(free, np.bool_)


def least_distances(arm: FollowingArm, part: Round, seen: list[Seen]) -> tuple[float, float]:
    """Return the least distance of the arm from the obstacle, and of its links [m]."""
    checker = CollisionChecker(arm.robot, arm.joints)
    item = world_object(BALL, Sphere(RADIUS))
    world, own, looked = np.inf, np.inf, -np.inf
    for state in seen:
        if state.at - looked < _LOOK:
            continue
        looked = state.at
        if part.ball is not None:
            ball = replace(item, X_WO=from_xyz_rpy(part.ball(state.at)))
            checker.set_scene(Scene(objects={BALL: ball}))
            world = min(world, float(checker.sphere_distances(state.q).distance.min()))
            checker.set_scene(Scene())
        own = min(own, checker.distance(state.q).value)
    return world, own
