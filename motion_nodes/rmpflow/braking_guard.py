# SPDX-License-Identifier: Apache-2.0
"""Stops a policy before a self-collision, or a collision with an obstacle at rest.

RMPs weigh collision avoidance against the target, which may dominate. A reference is sent only if
the robot can stop from it without a collision of its exact geometry; otherwise it brakes along the
stopping path of the previous reference, which is proven collision-free.

Source: D. Fox, W. Burgard, S. Thrun, The dynamic window approach to collision avoidance, IEEE
Robotics & Automation Magazine 4(1), 1997, for admissible velocities: those that can be stopped.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.standing_obstacles import ENDS, StandingObstacles
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.scene.exact_checks import ExactChecks

_HOLD = 0.2
"""Time at rest after which the policy may move again [s]."""
_FINEST = 1.0 / 64.0
"""Shorter parts of a stopping path are collision-free if their midpoints are."""


class _Proof(NamedTuple):
    """Proven properties of a stopping path."""

    links: bool
    """No self-collisions."""
    obstacles: bool
    """No collisions with obstacles."""

    def covers(self, other: _Proof) -> bool:
        """Return whether it includes all properties of another one."""
        return self.links >= other.links and self.obstacles >= other.obstacles


_NOTHING = _Proof(links=False, obstacles=False)


class BrakingGuard:
    """Replaces references from which the robot could not stop; not thread-safe."""

    def __init__(self, policy: RmpflowPolicy) -> None:
        self._policy = policy
        joints = policy.active_joints
        self._checked = (*joints, *policy.watched_joints)
        self._obstacles = StandingObstacles(policy, self._checked)
        limits = policy.robot.limits.select(joints)
        self._lower, self._upper = limits.lower, limits.upper
        self._last: tuple[Array, Array] | None = None
        self._proven, self._braking = _NOTHING, False
        self._rested = 0.0

    def prepare(self) -> None:
        """Load the exact checks, or compile them; otherwise the first motion does."""
        robot = self._policy.robot
        self._exact.is_free(robot.home[robot.indices(self._checked)])

    @functools.cached_property
    def _exact(self) -> ExactChecks:
        return CollisionChecker(self._policy.robot, self._checked).exact

    @property
    def braking(self) -> bool:
        """Whether references are replaced."""
        return self._braking

    def begin(self, q: Array, qd: Array) -> None:
        """Start at a reference, shape (n,) each [rad or m; rad/s or m/s]."""
        self._last = (q, qd)
        self._obstacles.update()
        self._proven, self._braking, self._rested = self._stops(q, qd), False, 0.0

    def admitted(self, q: Array, qd: Array, dt: float) -> tuple[Array, Array]:
        """Return a reference, or the next one of a braking motion.

        If the robot is in collision, or could not stop when the motion began or obstacles changed,
        references pass unchanged: braking would keep it there.

        Args:
            q: positions [rad or m], shape (n,).
            qd: velocities [rad/s or m/s], shape (n,).
            dt: time since the previous reference [s].
        """
        if self._obstacles.update() and self._last is not None:
            self._proven = self._stops(*self._last)
        if not self._braking or self._rested >= _HOLD:
            stops = self._stops(q, qd)
            if stops.covers(self._proven):
                self._last, self._proven, self._braking, self._rested = (q, qd), stops, False, 0.0
                return q, qd
            self._braking, self._rested = True, 0.0
        assert self._last is not None
        self._last = self._braked(*self._last, dt)
        if not self._last[1].any():
            self._rested += dt
        self._policy.hold_reference(*self._last)
        return self._last

    def _braked(self, q: Array, qd: Array, dt: float) -> tuple[Array, Array]:
        """Return the state after one period of straight-line braking, within limits."""
        duration = self._time_to_rest(qd)
        passed = min(dt, duration)
        slower = qd * (1.0 - passed / duration) if duration > 0.0 else np.zeros(len(qd))
        ahead = q + 0.5 * (qd + slower) * passed
        # Synchronized with the slowest joint, a joint close to its limit could exceed it.
        within = np.clip(ahead, np.minimum(self._lower, q), np.maximum(self._upper, q))
        return within, np.where(within == ahead, slower, 0.0)

    def _time_to_rest(self, qd: Array) -> float:
        return float((np.abs(qd) / self._policy.max_acceleration).max(initial=0.0))

    def _stops(self, q: Array, qd: Array) -> _Proof:
        """Return the proven properties of the stopping path from a state."""
        state = self._policy.get_internal_robot_joint_states()
        watched = np.zeros(0) if state is None else state[2]
        ends = np.array([q, q + 0.5 * self._time_to_rest(qd) * qd])
        path = np.column_stack((ends, np.tile(watched, (2, 1))))
        alone = self._exact.sweep(path, ENDS, 1, _FINEST).free
        return _Proof(alone, alone and self._obstacles.free(path, _FINEST))
