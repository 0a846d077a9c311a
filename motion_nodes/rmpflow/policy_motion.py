# SPDX-License-Identifier: Apache-2.0
"""A motion of a policy: from the robot's reference to the references to send."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from motion_nodes.rmpflow.braking_guard import BrakingGuard
from motion_nodes.rmpflow.follower_settings import RobotMotion
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.sent_reference import SentReference
from motion_nodes.typing import Array

_LAG = 0.25
"""Max lag of measurements behind references [s]: of drives, and of late messages."""


class MotionStep(NamedTuple):
    """Result of a step."""

    q: Array
    """Positions of the active joints [rad or m], shape (n,)."""
    qd: Array
    """Their velocities [rad/s or m/s], shape (n,)."""
    period: float
    """Time since the last step that was computed [s]."""


class PolicyMotion:
    """Computes the references of one policy from the start to the end of a motion."""

    def __init__(self, policy: RmpflowPolicy) -> None:
        self._policy = policy
        self._sent = SentReference()
        self._guard = BrakingGuard(policy)
        self.prepare = self._guard.prepare
        """Loads the collision checks, in any thread; otherwise the first motion does."""
        self._pending = 0.0
        """Time that is not integrated yet [s]."""
        self._time = 0.0
        self._recent: deque[tuple[float, Array]] = deque()
        """Recent references, each with its time in the motion [s]."""

    @property
    def positions(self) -> Array | None:
        """Positions of the newest reference [rad or m], shape (n,); None before a motion begins."""
        return self._sent.positions

    @property
    def obstruction(self) -> str:
        """Why the robot brakes, as text; empty if it does not."""
        return "self-collision or obstacle ahead" if self._guard.braking else ""

    def end(self) -> None:
        """End the motion."""
        self._sent.clear()
        self._pending = 0.0

    def begin(self, robot: RobotMotion) -> Array:
        """Start at the robot's current reference, to avoid jumps, else at its measured state.

        Returns:
            The positions of the start [rad or m], shape (n,).
        """
        q, qd = robot.q, robot.qd
        if robot.reference_q is not None and robot.reference_qd is not None:
            q, qd = robot.reference_q, robot.reference_qd
        self._policy.set_internal_robot_joint_states(q, qd, robot.watched_q, robot.watched_qd)
        self._policy.forget_progress()
        self._guard.begin(q, qd)
        self._time, self._recent = 0.0, deque([(0.0, q)])
        self._sent.positions = q
        return q

    def step(
        self,
        robot: RobotMotion | None,
        dt: float,
        most_ahead: float,
        set_goal: Callable[[Array, float], None],
    ) -> MotionStep | None:
        """Advance the policy; None: it awaits the robot's next state.

        Args:
            robot: the newest state; None if none arrived since the last step.
            dt: time since the last step [s].
            most_ahead: max distance of a reference from the measured position [rad or m].
            set_goal: sets the policy's goal, given the positions of the active joints and the
                period of the step [s].
        """
        policy = self._policy
        self._pending += dt
        self._time += dt
        if robot is None and not policy.ignores_state_updates:
            return None
        own = policy.get_internal_robot_joint_states()
        assert own is not None
        state, period = own if robot is None else robot[:4], self._pending
        set_goal(own[0] if policy.ignores_state_updates else state[0], period)
        if policy.ignores_state_updates:
            q, qd = policy.compute_joint_targets(*state, frame_duration=period)
        else:
            q, qd = policy.compute_reference(*state, frame_duration=period, most_ahead=most_ahead)
        self._pending = 0.0
        step = MotionStep(*self._guard.admitted(q, qd, period), period)
        self._recent.append((self._time, step.q))
        while self._recent[0][0] < self._time - _LAG:
            self._recent.popleft()
        return step

    def to_send(self, step: MotionStep, now: float, *, resting: bool) -> tuple[Array, Array] | None:
        """Return the reference to send, or None while it rests at a target."""
        reference = self._sent.update(step.q, step.qd, now, resting=resting)
        if reference is None and not self._policy.ignores_state_updates:
            # References that are not sent must not accumulate to a jump.
            assert self._sent.positions is not None
            self._policy.hold_reference(self._sent.positions)
        return reference

    def is_superseded(self, robot: RobotMotion, now: float) -> bool:
        """Return whether another controller moves the robot, by joint positions [rad or m]."""
        return self._sent.is_superseded(robot, now)

    def tracking_fault(self, robot: RobotMotion, tolerance: float) -> str:
        """Return the joint beyond the tracking tolerance, as text; empty if none is.

        Args:
            robot: the measured state.
            tolerance: max distance [rad or m].
        """
        if not self._policy.ignores_state_updates or not self._recent:
            return ""
        if np.abs(robot.q - self._recent[-1][1]).max() <= tolerance:
            return ""
        recent = np.array([q for _, q in self._recent])
        away = np.maximum(recent.min(axis=0) - robot.q, robot.q - recent.max(axis=0))
        i = int(away.argmax())
        if away[i] <= tolerance:
            return ""
        name = self._policy.active_joints[i]
        return f"the robot does not follow: {name} is {away[i]:.3g} from its reference"
