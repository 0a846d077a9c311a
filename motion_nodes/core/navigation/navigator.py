# SPDX-License-Identifier: Apache-2.0
"""Executor of base motions: poses in, twists within the limits out."""

from __future__ import annotations

import math
from enum import Enum
from typing import Literal

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import (
    BaseKind,
    BaseMotion,
    MotionLimits,
    MotionOutcome,
    ProgressCheck,
    StoppedCheck,
    TwistRamp,
)
from motion_nodes.core.navigation.obstacle_avoidance import (
    MOST_DETOURS,
    ObstacleAvoidance,
    SeenObstacles,
)
from motion_nodes.core.navigation.planar_geometry import Pose2

REST_WITHIN = 3.0
"""Timeout of a stop [s]; a base that still moves then is controlled by another client."""

MOST_RETURNS = 3
"""Max number of returns after overshooting the goal."""
Blocked = Literal["detour", "end", "stand"]
"""What a task does at obstacles: waits and drives around them, ends there, or stands there, and
anywhere else, for as long as it lasts."""


class MotionResult(Enum):
    """Result of a task, or active."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    PREEMPTED = "preempted"
    STUCK = "stuck"
    FAILED = "failed"
    LOST = "lost"
    BLOCKED = "blocked"
    TIMEOUT = "timeout"
    ABORTED = "aborted"


class NavigationTask:
    """A requested motion and its state."""

    def __init__(
        self,
        motion: BaseMotion,
        label: str,
        *,
        allowance: float = math.inf,
        blocked: Blocked = "detour",
    ) -> None:
        """Create a task.

        Args:
            motion: the motion.
            label: name of its client, for messages.
            allowance: max duration [s].
            blocked: what it does at obstacles.
        """
        self.motion = motion
        self.label = label
        self.allowance = allowance
        self.blocked = blocked
        self.ending = MotionResult.RUNNING
        self.text = ""
        self.time = 0.0
        """Time since its start [s]."""
        self.returns = 0
        """Number of returns after overshooting the goal."""
        self.detours = 0
        """Number of detours around obstacles."""

    @property
    def ended(self) -> bool:
        """Whether it is finished and the base is at rest, or another task is active."""
        return self.ending is not MotionResult.RUNNING


class Navigator:
    """Executes the tasks of a base.

    A new task preempts the active one, without a stop between them. In all other cases a task ends
    after the base has stopped within its limits.
    """

    def __init__(
        self,
        limits: MotionLimits,
        stopped: StoppedCheck | None = None,
        progress: ProgressCheck | None = None,
        kind: BaseKind = "differential",
        avoidance: ObstacleAvoidance | None = None,
    ) -> None:
        """Start at rest, without a task.

        Args:
            limits: limits of all motions.
            stopped: check of standstill.
            progress: check of progress.
            kind: kind of the base.
            avoidance: obstacle avoidance; None: disabled.
        """
        self.task: NavigationTask | None = None
        """The active task."""
        self.avoidance = avoidance
        """Reaction to obstacles."""
        self.speed_share = 1.0
        """Share of the max velocities that motions may use, above 0 to 1."""
        self._ramp = TwistRamp(limits, kind)
        self._stopped = stopped or StoppedCheck()
        self._progress = progress or ProgressCheck()
        self._stopping: tuple[MotionResult, str] | None = None
        self._standing = 0.0

    @property
    def twist(self) -> Twist2:
        """Commanded twist of the base."""
        return self._ramp.twist

    @property
    def stopping(self) -> bool:
        """True while the base is being stopped."""
        return self.task is not None and self._stopping is not None

    def reconfigure(
        self, limits: MotionLimits, stopped: StoppedCheck, progress: ProgressCheck
    ) -> None:
        """Replace the settings; the active task continues."""
        self._ramp.limits, self._stopped, self._progress = limits, stopped, progress

    def start(
        self,
        motion: BaseMotion,
        label: str,
        twist: Twist2,
        *,
        allowance: float = math.inf,
        blocked: Blocked = "detour",
    ) -> NavigationTask:
        """Start a motion; the active task is preempted.

        Args:
            motion: the motion.
            label: name of its client, for messages.
            twist: measured velocity of the base, the start of the ramps without an active task.
            allowance: see NavigationTask.
            blocked: see NavigationTask.
        """
        if self.task is None:
            self._ramp.twist = twist
        else:
            self._end(MotionResult.PREEMPTED, f"preempted by {label}")
        self.task = NavigationTask(motion, label, allowance=allowance, blocked=blocked)
        self._stopping = None
        self._progress.reset()
        if self.avoidance is not None:
            self.avoidance.reset()
        return self.task

    def stop(self, ending: MotionResult, text: str) -> None:
        """Stop the base, and end the task with this result; the first reason is kept."""
        if self.task is not None and self._stopping is None:
            self._stopping, self._standing = (ending, text), 0.0

    def rest_at_once(self) -> None:
        """Finish an active stop: the base is already at rest."""
        if self.stopping:
            self._ramp.twist = Twist2()
            assert self._stopping is not None
            self._end(*self._stopping)

    def abort(self, ending: MotionResult, text: str) -> None:
        """End the task immediately with zero velocity, without a ramp."""
        self._ramp.twist = Twist2()
        self._end(ending, text)

    def step(
        self, pose: Pose2, twist: Twist2, dt: float, seen: SeenObstacles | None = None
    ) -> Twist2 | None:
        """Return the commanded twist; None without a task.

        Args:
            pose: pose of the base in the frame of the task's goal.
            twist: measured velocity of the base in its own frame.
            dt: time since the last step [s].
            seen: obstacles; None: unknown.
        """
        task = self.task
        if task is None:
            return None
        task.time += dt
        desired = Twist2()
        if self._stopping is None:
            desired = task.motion.step(pose, twist, dt)
            if self.speed_share < 1.0:
                desired = self._ramp.limits.slowed(desired, self.speed_share)
            self._look(task, pose, dt)
        before = self._ramp.twist
        waits = self._stopping is not None
        if self.avoidance is not None and seen is not None:
            self.avoidance.look_ahead(task.motion, pose, seen, dt)
            waits |= self.avoidance.outdated
        driven = self._ramp.step(Twist2() if waits else desired, dt)
        if self.avoidance is not None and seen is not None:
            driven = self._ramp.twist = self.avoidance.limit(driven, before, twist, seen, dt)
            if self._stopping is None:
                self.avoidance.update(desired, driven, pose, seen, dt)
                self._get_around(task, pose, twist, desired, seen)
        if self._stopping is not None and self._rests(twist, dt):
            self._come_to_rest(task, pose, *self._stopping)
        return driven

    def time_remaining(self) -> float:
        """Return an estimate of the remaining time at the current velocity [s]."""
        # Asked by other threads: the task may end between two lines.
        task = self.task
        remaining = task.motion.remaining if task is not None else 0.0
        speed = math.hypot(self.twist.vx, self.twist.vy)
        usual = 0.5 * self.speed_share * self._ramp.limits.max_velocity
        return remaining / max(speed, usual) if math.isfinite(remaining) else 0.0

    def _get_around(
        self, task: NavigationTask, pose: Pose2, twist: Twist2, desired: Twist2, seen: SeenObstacles
    ) -> None:
        """Start a detour around obstacles, or abort the task."""
        avoidance = self.avoidance
        assert avoidance is not None
        if task.blocked == "stand" or (avoidance.waited == 0.0 and not avoidance.outdated):
            return
        if task.blocked == "end" and (seen.hold or avoidance.blockage is not None):
            self.stop(MotionResult.BLOCKED, avoidance.reason)
            return
        # Waiting does not count as a lack of progress.
        self._progress.reset()
        motion = None
        if self._stopped.at_rest(twist) and task.detours < MOST_DETOURS:
            motion = avoidance.detour(task.motion, pose, desired, seen)
        if motion is not None:
            task.motion, task.detours = motion, task.detours + 1
            avoidance.reset()
        elif avoidance.out_of_patience:
            self.stop(
                MotionResult.BLOCKED, f"blocked for {avoidance.waited:.1f} s: {avoidance.reason}"
            )

    def _look(self, task: NavigationTask, pose: Pose2, dt: float) -> None:
        if task.motion.outcome is MotionOutcome.ARRIVED:
            self.stop(MotionResult.SUCCEEDED, "")
        elif task.motion.outcome is MotionOutcome.FAILED:
            self.stop(MotionResult.FAILED, task.motion.text)
        elif task.time > task.allowance:
            self.stop(
                MotionResult.TIMEOUT,
                f"not completed within the time allowance of {task.allowance:g} s",
            )
        elif task.blocked != "stand" and self._progress.stuck(pose, dt):
            self.stop(MotionResult.STUCK, str(self._progress))

    def _come_to_rest(
        self, task: NavigationTask, pose: Pose2, ending: MotionResult, text: str
    ) -> None:
        """End the task, unless the base overshot a goal that it had reached."""
        if ending is MotionResult.SUCCEEDED and not task.motion.still_there(pose):
            task.returns += 1
            if task.motion.outcome is MotionOutcome.FAILED:
                ending, text = MotionResult.FAILED, task.motion.text
            elif task.returns > MOST_RETURNS:
                ending = MotionResult.FAILED
                text = (
                    f"the base rolled on beyond its goal {task.returns} times; it brakes too late"
                )
            else:
                self._stopping = None
                return
        self._end(ending, text)

    def _rests(self, twist: Twist2, dt: float) -> bool:
        if not self._ramp.resting:
            return False
        self._standing += dt
        return self._stopped.at_rest(twist) or self._standing > REST_WITHIN

    def _end(self, ending: MotionResult, text: str) -> None:
        if self.task is not None:
            self.task.ending, self.task.text = ending, text
            self.task = None
        self._stopping = None
