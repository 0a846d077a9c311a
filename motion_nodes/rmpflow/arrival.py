# SPDX-License-Identifier: Apache-2.0
"""Arrival check of a policy: at its target, or stuck short of it."""

from __future__ import annotations

from motion_nodes.rmpflow.follower_settings import FollowerSettings, is_near
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.progress import Standstill
from motion_nodes.rmpflow.status import Errors, error_of, errors_of

_SLOW = 0.05
"""Max joint velocity at arrival [rad/s or m/s]."""
_BEHIND = 0.005
"""Max lag of the controller at arrival [rad or m]."""
_PERIOD = 0.003
"""Period of the checks in faster loops [s]."""
_UNKNOWN = Errors(float("nan"), float("nan"), float("nan"))


class ArrivalCheck:
    """Compares the last state of a policy with a target."""

    def __init__(self, policy: RmpflowPolicy, settings: FollowerSettings) -> None:
        self._policy, self._settings = policy, settings
        self._standstill = Standstill()
        self._passed = 0.0
        self.forget()

    def forget(self) -> None:
        """Reset the errors, as without a target."""
        self.errors = _UNKNOWN
        """Distance of the robot from its target."""
        self.behind = 0.0
        """Max lag of a joint controller behind the policy [rad or m]."""

    def due(self, dt: float) -> float:
        """Return the time since the last check if one is due after a step [s], else 0."""
        self._passed += dt
        passed = self._passed if self._passed > _PERIOD else 0.0
        if passed:
            self._passed = 0.0
        return passed

    def measure(self, target: Goal) -> None:
        """Update the errors."""
        seen = self._policy.seen_positions
        self.errors = errors_of(target, self._policy.tool_pose(seen), seen, self._policy.turns)

    def arrived(self, speed: float, *, before: bool) -> bool:
        """Return whether the robot is at the target, with its controller.

        Args:
            speed: of the fastest joint [rad/s or m/s].
            before: whether it had arrived, for hysteresis: small disturbances restart no motion.
        """
        slow = speed < _SLOW and self.behind < _BEHIND
        found = slow and is_near(self.errors, self._settings, 2.0 if before else 1.0)
        if found:
            self._standstill.reset()
        return found

    def stuck(self, target: Goal, speed: float, dt: float) -> bool:
        """Return whether the robot makes no progress, or rests short of the target.

        Args:
            target: the target.
            speed: of the fastest joint [rad/s or m/s].
            dt: time since the last check [s].
        """
        stood = self._standstill.update(speed, error_of(target, self.errors), dt)
        return self._policy.stuck or stood > self._policy.stuck_settings.patience
