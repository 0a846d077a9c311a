# SPDX-License-Identifier: Apache-2.0
"""Carries out one motion after the other: poses in, twists within the limits out."""

from __future__ import annotations

import math
from enum import Enum

from motion_nodes.base_navigation.base_motion import BaseMotion, MotionOutcome
from motion_nodes.base_navigation.goal_check import ProgressCheck, StoppedCheck
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits, TwistRamp
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.bases.base import Twist2

REST_WITHIN = 3.0
"""[s] A base that still moves so long after it was told to stand is taken to be moved by others."""


MOST_RETURNS = 3
"""So often a base that rolled on beyond its goal is sent back."""


class MotionResult(Enum):
    """How a task ended, or that it has not."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    PREEMPTED = "preempted"
    STUCK = "stuck"
    FAILED = "failed"
    LOST = "lost"
    ABORTED = "aborted"


class NavigationTask:
    """One motion that was asked for, and what has become of it."""

    def __init__(self, motion: BaseMotion, label: str) -> None:
        """Take a motion; ``label`` says in messages whose it is."""
        self.motion = motion
        self.label = label
        self.ending = MotionResult.RUNNING
        self.text = ""
        self.time = 0.0
        """Since it began [s]."""
        self.returns = 0
        """How often the base had to come back, having rolled on beyond the goal."""

    @property
    def ended(self) -> bool:
        """True once it is over and the base stands, or another task has taken over."""
        return self.ending is not MotionResult.RUNNING


class Navigator:
    """Leads a base through tasks.

    A new task takes over from the one under way, without a stop between them. Whatever else ends a
    task, the base is first brought to rest within its limits, and only then is the task over.
    """

    def __init__(
        self,
        limits: MotionLimits,
        stopped: StoppedCheck | None = None,
        progress: ProgressCheck | None = None,
        kind: BaseKind = "differential",
    ) -> None:
        """Begin at rest, with nothing to do."""
        self.task: NavigationTask | None = None
        """The task under way."""
        self._ramp = TwistRamp(limits, kind)
        self._stopped = stopped or StoppedCheck()
        self._progress = progress or ProgressCheck()
        self._stopping: tuple[MotionResult, str] | None = None
        self._standing = 0.0

    @property
    def twist(self) -> Twist2:
        """What the base is told to drive."""
        return self._ramp.twist

    @property
    def stopping(self) -> bool:
        """True while the base is being brought to rest."""
        return self.task is not None and self._stopping is not None

    def reconfigure(
        self, limits: MotionLimits, stopped: StoppedCheck, progress: ProgressCheck
    ) -> None:
        """Take over new numbers; what is under way goes on."""
        self._ramp.limits, self._stopped, self._progress = limits, stopped, progress

    def start(self, motion: BaseMotion, label: str, twist: Twist2) -> NavigationTask:
        """Begin a motion; the task under way is preempted.

        Args:
            motion: what to do.
            label: whose motion it is, for messages.
            twist: measured velocity of the base, from which a base without a task is taken up.
        """
        if self.task is None:
            self._ramp.twist = twist
        else:
            self._end(MotionResult.PREEMPTED, f"preempted by {label}")
        self.task = NavigationTask(motion, label)
        self._stopping = None
        self._progress.reset()
        return self.task

    def stop(self, ending: MotionResult, text: str) -> None:
        """Bring the base to rest, and end the task in this way; the first reason counts."""
        if self.task is not None and self._stopping is None:
            self._stopping, self._standing = (ending, text), 0.0

    def rest_at_once(self) -> None:
        """End a stop that is under way: something else has brought the base to rest."""
        if self.stopping:
            self._ramp.twist = Twist2()
            assert self._stopping is not None
            self._end(*self._stopping)

    def abort(self, ending: MotionResult, text: str) -> None:
        """End the task at once and stand, without a ramp."""
        self._ramp.twist = Twist2()
        self._end(ending, text)

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2 | None:
        """Return the twist to drive now; None while there is no task.

        Args:
            pose: of the base in the frame of the task's goal.
            twist: measured velocity of the base in its own frame.
            dt: time since the last step [s].
        """
        task = self.task
        if task is None:
            return None
        task.time += dt
        wanted = Twist2()
        if self._stopping is None:
            wanted = task.motion.step(pose, twist, dt)
            self._look(task, pose, dt)
        driven = self._ramp.step(wanted if self._stopping is None else Twist2(), dt)
        if self._stopping is not None and self._rests(twist, dt):
            self._come_to_rest(task, pose, *self._stopping)
        return driven

    def time_remaining(self) -> float:
        """Return a guess of the time that the way left takes at the speed of now [s]."""
        if self.task is None or not math.isfinite(self.task.motion.remaining):
            return 0.0
        speed = math.hypot(self.twist.vx, self.twist.vy)
        usual = 0.5 * self._ramp.limits.max_velocity
        return self.task.motion.remaining / max(speed, usual)

    def _look(self, task: NavigationTask, pose: Pose2, dt: float) -> None:
        if task.motion.outcome is MotionOutcome.ARRIVED:
            self.stop(MotionResult.SUCCEEDED, "")
        elif task.motion.outcome is MotionOutcome.FAILED:
            self.stop(MotionResult.FAILED, task.motion.text)
        elif self._progress.stuck(pose, dt):
            self.stop(MotionResult.STUCK, str(self._progress))

    def _come_to_rest(
        self, task: NavigationTask, pose: Pose2, ending: MotionResult, text: str
    ) -> None:
        """End the task, unless the base rolled on beyond a goal that it had reached."""
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
        return self._stopped.stands(twist) or self._standing > REST_WITHIN

    def _end(self, ending: MotionResult, text: str) -> None:
        if self.task is not None:
            self.task.ending, self.task.text = ending, text
            self.task = None
        self._stopping = None
