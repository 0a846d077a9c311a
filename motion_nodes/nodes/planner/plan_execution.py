# SPDX-License-Identifier: Apache-2.0
"""Carrying out trajectories through the joint controller: who may, from where, and how it ended.

Used by threads that may wait; stops may come from any thread, and reach the controller at once.
"""

from __future__ import annotations

import enum
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from moveit_msgs.msg import MoveItErrorCodes
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.errors import UnknownJoint
from motion_nodes.nodes.planner.planner_state import PlannerState
from motion_nodes.ros.clients.trajectory_client import SentTrajectory, TrajectoryClient
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.trajectory_messages import seconds

Codes = MoveItErrorCodes
Results = FollowJointTrajectory.Result

LOOK_PERIOD = 0.02
"""[s] How often a trajectory under way is looked at."""
REST_SPEED = 0.01
"""[rad/s or m/s] Joints slower than this stand still."""
REST_TIMEOUT = 3.0
"""[s] How long a robot that was stopped may take to stand still."""

CONTROLLER_CODES = {
    Results.SUCCESSFUL: Codes.SUCCESS,
    Results.INVALID_GOAL: Codes.CONTROL_FAILED,
    Results.INVALID_JOINTS: Codes.CONTROL_FAILED,
    Results.OLD_HEADER_TIMESTAMP: Codes.CONTROL_FAILED,
    Results.PATH_TOLERANCE_VIOLATED: Codes.CONTROL_FAILED,
    Results.GOAL_TOLERANCE_VIOLATED: Codes.CONTROL_FAILED,
}
"""MoveIt's code for each of the controller's."""


class Stop(enum.Enum):
    """Who ended a motion before its time."""

    CLIENT = "canceled by its client"
    EVENT = "stopped by trajectory_execution_event"
    NEWER = "another motion took its place"
    NODE = "the planner is being deactivated"
    SUITE = "the suite was stopped"


class ExecutedMotion:
    """What is done for one goal: planned, carried out, or both; may be stopped at any time."""

    def __init__(self, number: int, label: str, client: TrajectoryClient) -> None:
        self.number = number
        """Its place in the order of all motions."""
        self.label = label
        self.joints: frozenset[str] = frozenset()
        """Joints that it moves; empty where it only plans."""
        self.stopped: Stop | None = None
        self.why = ""
        """Words for who stopped it."""
        self.sent: list[SentTrajectory] = []
        """Its trajectories so far; the last is the one under way."""
        self._client = client
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def stop(self, who: Stop, words: str = "") -> None:
        """End it; only the first one counts."""
        with self._lock:
            if self.stopped is not None:
                return
            self.stopped, self.why = who, words or who.value
            sent = self.sent[-1] if self.sent else None
        self._wake.set()
        if sent is not None:
            self._client.cancel(sent)

    def begin(self, message: JointTrajectory) -> SentTrajectory:
        """Send a trajectory.

        Raises:
            RequestRejected: the motion was stopped meanwhile.
        """
        with self._lock:
            if self.stopped is not None:
                raise RequestRejected(Codes.PREEMPTED, self.why)
            self.sent.append(self._client.send(message))
            return self.sent[-1]

    def go_on(self) -> None:
        """Raise a RequestRejected where it was stopped."""
        if self.stopped is not None:
            raise RequestRejected(Codes.PREEMPTED, self.why)

    def pause(self, duration: float) -> None:
        """Wait [s]; a stop ends that with a RequestRejected."""
        self._wake.wait(duration)
        self.go_on()

    def executed(self) -> JointTrajectory:
        """Return what the controller measured while it followed the trajectories."""
        message = JointTrajectory()
        heard = [entry for sent in self.sent for entry in sent.heard]
        if not heard:
            return message
        message.joint_names = list(self.sent[0].joints)
        for when, positions in heard:
            point = JointTrajectoryPoint(positions=positions)
            fraction, whole = math.modf(max(0.0, when - heard[0][0]))
            point.time_from_start.sec = int(whole)
            point.time_from_start.nanosec = int(fraction * 1e9)
            message.points.append(point)
        return message


@dataclass(frozen=True)
class ExecutionResult:
    """How a trajectory ended."""

    code: int
    """One of MoveItErrorCodes."""
    text: str
    blocked: bool = False
    """Whether it was ended because something is in its way."""


class PlanExecution:
    """All motions of a planner node."""

    def __init__(
        self,
        client: TrajectoryClient,
        state: PlannerState,
        start_tolerance: Callable[[], float],
        refusal: Callable[[], str] = str,
    ) -> None:
        """Carry out trajectories through ``client``.

        Args:
            client: of the joint controller.
            state: the robot as it is measured.
            start_tolerance: how far a joint may be from a trajectory's first point [rad or m].
            refusal: why nothing may be carried out now, or nothing.
        """
        self._refusal = refusal
        self._client = client
        self._state = state
        self._start_tolerance = start_tolerance
        self._motions: list[ExecutedMotion] = []
        self._count = 0
        self._lock = threading.Lock()

    @property
    def labels(self) -> list[str]:
        """What is under way."""
        with self._lock:
            return [motion.label for motion in self._motions]

    def enter(self, label: str) -> ExecutedMotion:
        """Begin a motion that moves nothing yet."""
        with self._lock:
            self._count += 1
            motion = ExecutedMotion(self._count, label, self._client)
            self._motions.append(motion)
        return motion

    def claim(self, motion: ExecutedMotion, joints: Sequence[str]) -> None:
        """Let a motion move joints; of those that move the same ones the newest goes on.

        Raises:
            RequestRejected: that is another one, or nothing may be carried out now.
        """
        if refusal := self._refusal():
            raise RequestRejected(Codes.CONTROL_FAILED, refusal)
        with self._lock:
            motion.joints = frozenset(joints)
            others = [m for m in self._motions if m is not motion and m.joints & motion.joints]
        for other in others:
            older, newer = sorted((motion, other), key=lambda m: m.number)
            older.stop(Stop.NEWER, f"{Stop.NEWER.value}: {newer.label}")
        motion.go_on()

    def leave(self, motion: ExecutedMotion) -> None:
        """A motion has its result."""
        with self._lock:
            self._motions.remove(motion)

    def stop_all(self, who: Stop, words: str = "") -> int:
        """Stop everything that is under way; return how many motions that was."""
        with self._lock:
            motions = [motion for motion in self._motions if motion.stopped is None]
        for motion in motions:
            motion.stop(who, words)
        return len(motions)

    def settle(self, motion: ExecutedMotion) -> None:
        """Wait until the joints of a motion stand still, so that it can be planned from there.

        Raises:
            RequestRejected: they go on moving, or nothing is known of them.
        """
        self._state.wait()
        end = time.monotonic() + REST_TIMEOUT
        while True:
            speed, joint = self._state.speed(motion.joints)
            if speed < REST_SPEED:
                return
            if time.monotonic() > end:
                raise RequestRejected(
                    Codes.START_STATE_INVALID,
                    f"{joint} still moves at {speed:.3f} after {REST_TIMEOUT:g} s; plans with "
                    "execution begin at rest",
                )
            motion.pause(LOOK_PERIOD)

    def check(self, message: JointTrajectory) -> None:
        """Refuse a trajectory that cannot be carried out from where the robot is.

        Raises:
            RequestRejected: for no joints or points, unknown joints, a robot that is not heard of,
                or one that stands elsewhere than the trajectory begins.
        """
        names = self._state.joint_names
        if not message.joint_names or not message.points:
            raise RequestRejected(
                Codes.INVALID_MOTION_PLAN,
                f"the trajectory has {len(message.joint_names)} joints and "
                f"{len(message.points)} points; it needs one of each at least",
            )
        for name in message.joint_names:
            if name not in names:
                raise RequestRejected(Codes.INVALID_MOTION_PLAN, str(UnknownJoint(name, names)))
        present = self._state.fresh()
        first = message.points[0]
        if len(first.positions) != len(message.joint_names):
            raise RequestRejected(
                Codes.INVALID_MOTION_PLAN,
                f"point 0 has {len(first.positions)} positions for {len(message.joint_names)} "
                "joints",
            )
        if seconds(first.time_from_start) > 0.0:
            # It does not say where it begins: the controller goes there from where it is.
            return
        tolerance = self._start_tolerance()
        for name, position in zip(message.joint_names, first.positions, strict=True):
            away = abs(present[names.index(name)] - position)
            if not away <= tolerance:
                raise RequestRejected(
                    Codes.CONTROL_FAILED,
                    f"the trajectory begins with {name} at {position:.4f}, but it is at "
                    f"{present[names.index(name)]:.4f}: {away:.4f} away, allowed is "
                    f"{tolerance:g} (start_tolerance); plan from where the robot is",
                )

    def follow(
        self,
        motion: ExecutedMotion,
        message: JointTrajectory,
        blocked: Callable[[SentTrajectory], str] = lambda _: "",
    ) -> ExecutionResult:
        """Carry out a trajectory and return how it ended.

        Args:
            motion: that it belongs to.
            message: the trajectory.
            blocked: asked again and again; says what is in the way, or nothing.
        """
        try:
            self.check(message)
            sent = motion.begin(message)
        except RequestRejected as refusal:
            return ExecutionResult(refusal.code, str(refusal))
        obstacle = ""
        while not self._client.look(sent):
            sent.ended.wait(LOOK_PERIOD)
            if motion.stopped is Stop.NODE:
                # The executor that would hear of the end is waiting for us.
                break
            if not obstacle and motion.stopped is None and not sent.ended.is_set():
                obstacle = blocked(sent)
                if obstacle:
                    self._client.cancel(sent)
        q, trouble = self._state.newest()
        if not trouble:
            places = dict(zip(self._state.joint_names, q.tolist(), strict=True))
            self._client.heard(sent, [places[name] for name in sent.joints])
        return _ending(motion, sent, obstacle)


def _ending(motion: ExecutedMotion, sent: SentTrajectory, obstacle: str) -> ExecutionResult:
    if sent.lost:
        return ExecutionResult(Codes.CONTROL_FAILED, sent.lost)
    if sent.succeeded:
        return ExecutionResult(Codes.SUCCESS, "")
    if motion.stopped is not None:
        return ExecutionResult(Codes.PREEMPTED, motion.why)
    if obstacle:
        return ExecutionResult(
            Codes.MOTION_PLAN_INVALIDATED_BY_ENVIRONMENT_CHANGE, obstacle, blocked=True
        )
    if sent.status == GoalStatus.STATUS_CANCELED:
        words = sent.text or "another client of the controller ended it"
        return ExecutionResult(Codes.PREEMPTED, words)
    code = CONTROLLER_CODES.get(sent.code, Codes.CONTROL_FAILED)
    code = Codes.CONTROL_FAILED if code == Codes.SUCCESS else code
    return ExecutionResult(
        code, f"the controller gave up: {sent.text or f'error code {sent.code}'}"
    )
