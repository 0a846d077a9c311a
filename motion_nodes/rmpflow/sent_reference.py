# SPDX-License-Identifier: Apache-2.0
"""The newest reference sent by a policy, and detection of other controllers."""

from __future__ import annotations

import numpy as np

from motion_nodes.rmpflow.follower_settings import RobotMotion
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.typing import Array

AT_REST = 2e-3
"""Max velocity of a joint at rest [rad/s or m/s]."""
_SAME = 0.01
"""Smaller changes of the reference at rest are not sent [rad or m]."""
_LET_GO = 0.3
"""Time after the last command at rest from which motion by another controller is accepted [s]."""
_ELSEWHERE, _MOVED = 0.02, 0.01
"""Distance [rad or m] and velocity [rad/s or m/s] above which such motion is detected."""


class SentReference:
    """The last sent reference, and the time since which it is at rest."""

    def __init__(self) -> None:
        self.positions: Array | None = None
        """Newest positions [rad or m], shape (n,); None before a motion begins."""
        self._quiet_since: float | None = None

    def clear(self) -> None:
        """Clear it: no motion is active."""
        self.positions = self._quiet_since = None

    def update(
        self, q: Array, qd: Array, now: float, *, resting: bool
    ) -> tuple[Array, Array] | None:
        """Return the reference to send, or None while it rests.

        Args:
            q: positions [rad or m], shape (n,).
            qd: velocities [rad/s or m/s], shape (n,).
            now: time [s].
            resting: whether the robot is at rest at its target, or stuck.
        """
        assert self.positions is not None
        if not resting:
            self.positions, self._quiet_since = q, None
            return q, qd
        if self._quiet_since is None or float(np.abs(q - self.positions).max()) > _SAME:
            self.positions, self._quiet_since = q, now
            return q, np.zeros(len(q))
        return None

    def is_superseded(self, robot: RobotMotion, now: float) -> bool:
        """Return whether another controller moves the robot, by joint positions [rad or m]."""
        q, qd, quiet = robot.reference_q, robot.reference_qd, self._quiet_since
        if self.positions is None or q is None or quiet is None or now - quiet <= _LET_GO:
            return False
        moves = qd is not None and float(np.abs(qd).max()) > _MOVED
        return moves or float(np.abs(q - self.positions).max()) > _ELSEWHERE


def stop_positions(policy: RmpflowPolicy, q: Array, dt: float, longest: float) -> Array:
    """Return the rest positions of an immediate stop.

    Args:
        policy: computes the stop, and is stopped afterwards.
        q: positions of the newest reference [rad or m], shape (n,).
        dt: steps of the computation [s].
        longest: max duration of the stop [s].

    Returns:
        Positions [rad or m], shape (n,).
    """
    own = policy.ignores_state_updates
    policy.stop()
    policy.set_ignore_state_updates(True)
    for _ in range(int(longest / dt)):
        q, qd = policy.compute_joint_targets(q, np.zeros(len(q)), frame_duration=dt)
        if float(np.abs(qd).max()) < AT_REST:
            break
    policy.set_ignore_state_updates(own)
    return q
