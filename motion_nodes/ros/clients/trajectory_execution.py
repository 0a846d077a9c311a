# SPDX-License-Identifier: Apache-2.0
"""Execution of trajectories by the joint controller: preemption, start checks, monitoring, results.

Used by threads that may block. Any thread may stop a motion; the controller's goal is then canceled
at once. The client of the controller's FollowJointTrajectory action is thread-safe and does not
block; rclpy's action client is accessed in the executor only.

Parameters of nodes that serve requests and execute trajectories with the joint controller.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from moveit_msgs.msg import MoveItErrorCodes
from rcl_interfaces.srv import GetParameters
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.robot.limits import joint_indices
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory as CoreTrajectory
from motion_nodes.core.trajectory.trajectory_checks import START_TOO_FAR
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros import qos
from motion_nodes.ros.clients.client_node import action_client
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.current_state import CurrentStateMonitor
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.messages.trajectory_messages import (
    TrajectoryRules,
    fill_seconds,
    seconds,
    trajectory_from,
)
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.node import FramedParams, MotionNode
from motion_nodes.ros.parameters import param
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.ros.clients.controller_set import ControllerSet

Codes = MoveItErrorCodes
Results = FollowJointTrajectory.Result
MONITOR_PERIOD = 0.02
"""Period of execution monitoring [s]."""
START_SPEED = 0.01
"""Max joint speed at which planning for execution may start [rad/s or m/s]."""
SETTLE_TIMEOUT = 3.0
"""Max time until joints that are being stopped are at rest [s]."""
REST_TIME, DISTURBANCE = 0.2, 2.0
"""Time for which joints must be at rest after a trajectory that did not succeed, and time after its
end for which this applies [s]: controllers bring references back to where the joints stopped."""
CONTROLLER_CODES = {
    Results.SUCCESSFUL: Codes.SUCCESS,
    Results.INVALID_GOAL: Codes.CONTROL_FAILED,
    Results.INVALID_JOINTS: Codes.CONTROL_FAILED,
    Results.OLD_HEADER_TIMESTAMP: Codes.CONTROL_FAILED,
    Results.PATH_TOLERANCE_VIOLATED: Codes.CONTROL_FAILED,
    Results.GOAL_TOLERANCE_VIOLATED: Codes.CONTROL_FAILED,
}
"""MoveIt's error code for each error code of FollowJointTrajectory."""
DEFAULT_RULES = TrajectoryRules(end_velocity=False)
"""What a controller accepts unless its parameters say otherwise."""
RULE_PARAMETERS = (
    "allow_nonzero_velocity_at_trajectory_end", "command_interfaces", "command_interface",
)  # fmt: skip
ANSWER_TIMEOUT = 3.0
"""[s] Timeout of the controller's response and of its feedback, in wall time; feedback is not
expected while simulated time does not advance."""


class SentTrajectory:
    """A trajectory sent to a controller, and its status."""

    def __init__(self, message: JointTrajectory, client: TrajectoryClient) -> None:
        self.message = message
        self.client = client
        """Client that sent it."""
        self.parts: tuple[SentTrajectory, ...] = ()
        """Its parts, where several controllers have its joints; see :class:`.ControllerSet`."""
        self.joints = tuple(message.joint_names)
        last = message.points[-1].time_from_start if message.points else None
        self.duration = 0.0 if last is None else seconds(last)
        """Time from the start to the last point [s]."""
        self.ended = threading.Event()
        self.code = Results.SUCCESSFUL
        """Error code of the result; valid once ended."""
        self.status = GoalStatus.STATUS_UNKNOWN
        """Status of the goal; valid once ended."""
        self.text = ""
        """Error text of the result."""
        self.lost = ""
        """Why the connection to the controller is lost; empty if it is not."""
        self.measured: list[tuple[float, list[float]]] = []
        """Stamps [s] and measured joint positions [rad or m], from the controller's feedback."""
        self.delay = 0.0
        """Delay of its execution after its stamp, by the newest feedback [s]."""
        self.cancel_requested = False
        self.last_reply = time.monotonic()
        """Time of the last response or feedback on ``time.monotonic()`` [s]."""
        self.discovering = False
        """Whether it waits for the discovery of the action server."""
        self.accepted = False
        self.handle: Any = None
        """Of rclpy's client; None until the goal is accepted."""

    @property
    def succeeded(self) -> bool:
        """Whether the controller executed it to the end."""
        ok: bool = self.status == GoalStatus.STATUS_SUCCEEDED and self.code == Results.SUCCESSFUL
        return ok


class TrajectoryClient:
    """Client of one controller."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorQueue, controller: str) -> None:
        """Create the client.

        Args:
            node: the node.
            jobs: queue of the node's executor.
            controller: node name of the controller.
        """
        self._node = node
        self._jobs = jobs
        self.action = f"{controller}/follow_joint_trajectory"
        self._client = action_client(node, FollowJointTrajectory, self.action)
        self._parameters = node.create_client(
            GetParameters, f"{controller}/get_parameters", qos_profile=qos.SERVICES
        )

    def rules(self) -> TrajectoryRules:
        """Return what the controller accepts in trajectories; blocks, not for the executor.

        Without a response: what it accepts by default.
        """
        answered, values = threading.Event(), []

        def ask() -> None:
            if not self._parameters.service_is_ready():
                answered.set()
                return
            request = GetParameters.Request(names=RULE_PARAMETERS)
            self._parameters.call_async(request).add_done_callback(note)

        def note(done: Any) -> None:
            values.extend(done.result().values)
            answered.set()

        self._jobs.submit(ask)
        answered.wait(ANSWER_TIMEOUT)
        if len(values) != len(RULE_PARAMETERS):
            return DEFAULT_RULES
        moving, several, single = values
        interfaces = list(several.string_array_value) or [single.string_value]
        return TrajectoryRules(end_velocity=moving.bool_value, efforts="effort" in interfaces)

    @property
    def ready(self) -> bool:
        """Whether the action server is available."""
        return bool(self._client.server_is_ready())

    def send(self, message: JointTrajectory) -> SentTrajectory:
        """Send a trajectory, without waiting for its acceptance."""
        sent = SentTrajectory(message, self)
        self._jobs.submit(lambda: self._send(sent))
        return sent

    def cancel(self, sent: SentTrajectory) -> None:
        """Cancel a trajectory, even before it is accepted."""
        sent.cancel_requested = True
        self._jobs.submit(lambda: self._cancel(sent))

    def poll(self, sent: SentTrajectory) -> bool:
        """Check timeouts, and return whether a trajectory has ended or timed out."""
        if sent.discovering:
            self._discover(sent)
        elif not sent.ended.is_set():
            if sent.accepted and self._node.time_stands and self.ready:
                # No feedback is expected while simulated time does not advance.
                sent.last_reply = time.monotonic()
            elif time.monotonic() - sent.last_reply > ANSWER_TIMEOUT:
                what = "feedback" if sent.accepted else "response"
                sent.lost = f"no {what} of controller {self.action} for {ANSWER_TIMEOUT:g} s"
                self.cancel(sent)
                sent.ended.set()
        return sent.ended.is_set()

    def _discover(self, sent: SentTrajectory) -> None:
        if sent.cancel_requested:
            sent.ended.set()
        elif self.ready:
            sent.discovering = False
            self._jobs.submit(lambda: self._send(sent))
        elif time.monotonic() - sent.last_reply > ANSWER_TIMEOUT:
            sent.lost = f"action {self.action} is not available; is the controller active?"
            sent.ended.set()

    def record(self, sent: SentTrajectory, positions: list[float]) -> None:
        """Record measured joint positions of now, in addition to the controller's feedback.

        Args:
            sent: the trajectory.
            positions: of its joints [rad or m].
        """
        now = self._node.now_ns() * 1e-9
        if not sent.measured or now > sent.measured[-1][0]:
            sent.measured.append((now, positions))

    def destroy(self) -> None:
        """Destroy the clients."""
        self._client.destroy()
        self._node.destroy_client(self._parameters)

    # ---- in the executor

    def _send(self, sent: SentTrajectory) -> None:
        if sent.cancel_requested:
            sent.ended.set()
            return
        if not self._client.server_is_ready():
            sent.discovering = True
            return
        goal = FollowJointTrajectory.Goal(trajectory=sent.message)
        future = self._client.send_goal_async(
            goal, lambda message: _on_feedback(sent, message.feedback)
        )
        future.add_done_callback(lambda done: self._on_response(sent, done.result()))

    def _on_response(self, sent: SentTrajectory, handle: Any) -> None:
        sent.last_reply = time.monotonic()
        if not handle.accepted:
            sent.lost = f"controller {self.action} rejected the trajectory; is it active?"
            sent.ended.set()
            return
        sent.accepted, sent.handle = True, handle
        handle.get_result_async().add_done_callback(lambda done: _on_result(sent, done.result()))
        if sent.cancel_requested:
            self._cancel(sent)

    def _cancel(self, sent: SentTrajectory) -> None:
        # Also of a trajectory that counts as lost: the controller may still execute it.
        if sent.handle is not None and sent.status == GoalStatus.STATUS_UNKNOWN:
            sent.handle.cancel_goal_async()


def _on_feedback(sent: SentTrajectory, feedback: Any) -> None:
    sent.last_reply = time.monotonic()
    begin = seconds(sent.message.header.stamp)
    if begin > 0.0:
        done = seconds(feedback.desired.time_from_start)
        sent.delay = stamp_ns(feedback) * 1e-9 - begin - done
    if list(feedback.joint_names) == list(sent.joints):
        sent.measured.append((stamp_ns(feedback) * 1e-9, list(feedback.actual.positions)))


def _on_result(sent: SentTrajectory, wrapped: Any) -> None:
    if wrapped is not None:
        sent.status = wrapped.status
        sent.code = wrapped.result.error_code
        sent.text = wrapped.result.error_string
    sent.ended.set()


Change = Callable[[SentTrajectory, str], JointTrajectory | None]
"""Called with the active trajectory and the obstacle on its remaining path; returns a trajectory
that continues it and is monitored from then on, or None: the motion stops."""


class StopCause(enum.Enum):
    """Cause of a stop, with its description."""

    CLIENT = "canceled by its client"
    EVENT = "stopped by trajectory_execution_event"
    NEWER = "preempted by a newer motion"
    NODE = "the node is being deactivated"
    SUITE = "the suite was stopped"


class ExecutedMotion:
    """Planning and execution for one goal; may be stopped by any thread."""

    def __init__(self, number: int, label: str, client: TrajectoryClient | ControllerSet) -> None:
        self.number = number
        """Sequence number; a newer motion has a larger one."""
        self.label = label
        """Name in messages to others."""
        self.joints: frozenset[str] = frozenset()
        """Joints that it moves; empty while it only plans."""
        self.stopped: StopCause | None = None
        """Cause of its stop; None if it was not stopped."""
        self.reason = ""
        """Description of that cause."""
        self.sent: list[SentTrajectory] = []
        """Trajectories sent so far; the last one is active."""
        self.preempted: list[SentTrajectory] = []
        """Trajectories of motions that this one preempted."""
        self._client = client
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def stop(self, cause: StopCause, reason: str = "") -> None:
        """Stop the motion; later stops have no effect.

        Args:
            cause: of the stop.
            reason: its description; empty for that of the cause.
        """
        with self._lock:
            if self.stopped is not None:
                return
            self.stopped, self.reason = cause, reason or cause.value
            sent = self.sent[-1] if self.sent else None
        self._wake.set()
        if sent is not None:
            self._client.cancel(sent)

    def send(self, message: JointTrajectory) -> SentTrajectory:
        """Send a trajectory to the controller.

        Raises:
            RequestRejected: the motion was stopped.
        """
        with self._lock:
            self.raise_if_stopped()
            self.sent.append(self._client.send(message))
            return self.sent[-1]

    def raise_if_stopped(self) -> None:
        """Raise if the motion was stopped.

        Raises:
            RequestRejected: it was stopped.
        """
        if self.stopped is not None:
            raise RequestRejected(Codes.PREEMPTED, self.reason)

    def pause(self, duration: float) -> None:
        """Wait.

        Args:
            duration: [s].

        Raises:
            RequestRejected: the motion was stopped before or during the wait.
        """
        self._wake.wait(duration)
        self.raise_if_stopped()

    def executed(self) -> JointTrajectory:
        """Return the measured trajectory, from the controller's feedback."""
        message = JointTrajectory()
        measured = [entry for sent in self.sent for entry in sent.measured]
        if not measured:
            return message
        message.joint_names = list(self.sent[0].joints)
        for time_now, positions in measured:
            point = JointTrajectoryPoint(positions=positions)
            fill_seconds(point.time_from_start, time_now - measured[0][0])
            message.points.append(point)
        return message


@dataclass(frozen=True)
class ExecutionResult:
    """Result of the execution of a trajectory."""

    code: int
    """MoveItErrorCodes value."""
    text: str
    """Reason of a failure; empty on success."""
    blocked: bool = False
    """Whether it was canceled because its remaining path is blocked."""
    displaced: bool = False
    """Whether it was refused because the robot is not at its start."""


class StartRefused(RequestRejected):
    """The robot is not at the start of a trajectory."""


class TrajectoryExecution:
    """Motions of one node; at most one of them moves a joint at a time."""

    def __init__(
        self,
        node: MotionNode[Any],
        client: TrajectoryClient | ControllerSet,
        state: CurrentStateMonitor,
    ) -> None:
        """Create an execution without motions.

        Args:
            node: its parameter ``start_tolerance`` is the max distance of a joint from a
                trajectory's first point [rad or m]; nothing is executed while it is stopped.
            client: of the joint controller, or of several ones.
            state: of the robot.
        """
        self._node, self._client, self._state = node, client, state
        self._motions: list[ExecutedMotion] = []
        self._count = 0
        self._disturbed_at = -DISTURBANCE
        """Time at which the last trajectory that did not succeed ended [s]."""
        self._lock = threading.Lock()

    @property
    def labels(self) -> list[str]:
        """Labels of the active motions."""
        with self._lock:
            return [motion.label for motion in self._motions]

    def add(self, label: str) -> ExecutedMotion:
        """Add a motion, which has no joints yet."""
        with self._lock:
            self._count += 1
            motion = ExecutedMotion(self._count, label, self._client)
            self._motions.append(motion)
        return motion

    def checked(self, message: JointTrajectory, joint_names: Sequence[str]) -> CoreTrajectory:
        """Return a trajectory that the controller's rules allow; in a thread that may block.

        Args:
            message: the trajectory.
            joint_names: joints of the robot.

        Raises:
            InvalidCommand: an invalid trajectory, or one that the controller would refuse.
            UnknownJoint: a joint that the robot does not have.
        """
        try:
            return trajectory_from(message, joint_names, DEFAULT_RULES)
        except InvalidCommand:
            # Its parameters may allow it.
            return trajectory_from(message, joint_names, self._client.rules())

    def claim(self, motion: ExecutedMotion, joints: Sequence[str]) -> None:
        """Assign joints to a motion; of motions with common joints only the newest continues.

        Raises:
            RequestRejected: a newer motion has one of the joints, or execution is disabled.
        """
        if reason := self._node.stop_reason:
            raise RequestRejected(Codes.CONTROL_FAILED, reason)
        with self._lock:
            motion.joints = frozenset(joints)
            others = [m for m in self._motions if m is not motion and m.joints & motion.joints]
        for other in others:
            older, newer = sorted((motion, other), key=lambda m: m.number)
            older.stop(StopCause.NEWER, f"{StopCause.NEWER.value}: {newer.label}")
            if older is other:
                motion.preempted += other.sent[-1:]
        motion.raise_if_stopped()

    def remove(self, motion: ExecutedMotion) -> None:
        """Remove a motion that has its result; a trajectory that has not ended is canceled."""
        with self._lock:
            self._motions.remove(motion)
        for sent in motion.sent:
            if not sent.ended.is_set():
                # Its monitor failed.
                self._client.cancel(sent)

    def stop_all(self, cause: StopCause, reason: str = "") -> int:
        """Stop all active motions, see :meth:`ExecutedMotion.stop`; return their number."""
        with self._lock:
            motions = [motion for motion in self._motions if motion.stopped is None]
        for motion in motions:
            motion.stop(cause, reason)
        return len(motions)

    def stop_older(self, motion: ExecutedMotion) -> None:
        """Stop all motions that are older than a motion."""
        with self._lock:
            older = [each for each in self._motions if each.number < motion.number]
        for each in older:
            each.stop(StopCause.NEWER, f"{StopCause.NEWER.value}: {motion.label}")

    def settle(self, motion: ExecutedMotion) -> None:
        """Wait until preempted trajectories have ended and the joints of a motion are at rest.

        Raises:
            RequestRejected: the joints keep moving, or their state is unknown.
        """
        self._state.wait()
        # A cancelled trajectory may only start to move after its cancellation was requested.
        while not all([self._client.poll(sent) for sent in motion.preempted]):
            motion.pause(MONITOR_PERIOD)
        begin = still_since = time.monotonic()
        needed = REST_TIME if begin - self._disturbed_at < DISTURBANCE else 0.0
        while True:
            speed, joint = self._state.speed(motion.joints)
            now = time.monotonic()
            if speed >= START_SPEED:
                still_since = now
            elif now - still_since >= needed:
                return
            if now - begin > SETTLE_TIMEOUT:
                raise RequestRejected(
                    Codes.START_STATE_INVALID,
                    f"{joint} still moves at {speed:.3f} rad/s or m/s after {SETTLE_TIMEOUT:g} s; "
                    "plans for execution start at rest",
                )
            motion.pause(MONITOR_PERIOD)

    def validate(self, message: JointTrajectory, braking: Array | None = None) -> None:
        """Validate the start of a trajectory against the current state.

        Args:
            message: the trajectory; those of clients are checked by :func:`.trajectory_from`.
            braking: deceleration with which joints that still move stop before it begins
                [rad/s^2 or m/s^2], shape (n,); None: they stand.

        Raises:
            RequestRejected: an unknown or old state, or a first point farther from the current
                state than the start tolerance.
        """
        names, current, first = self._state.joint_names, self._state.fresh(), message.points[0]
        if seconds(first.time_from_start) > 0.0:
            # Without a start position, the controller moves to this point from the current state.
            return
        tolerance, turns = self._node.params.start_tolerance, self._state.turns
        chosen, ways = joint_indices(message.joint_names, names), np.zeros(len(names))
        if braking is not None:
            ways = self._state.ways_to_rest(braking)
        distances = turns.select(chosen).distance(current[chosen], first.positions).tolist()
        for name, position, distance, way in zip(
            message.joint_names, first.positions, distances, ways[chosen].tolist(), strict=True
        ):
            if not distance <= tolerance + way:
                raise StartRefused(
                    Codes.CONTROL_FAILED,
                    f"the trajectory starts with {name} at {position:.4f}, but it is at "
                    f"{current[names.index(name)]:.4f}: {distance:.4f} away, allowed is "
                    f"{tolerance:g} (start_tolerance); plan from the current state",
                )

    def execute(
        self,
        motion: ExecutedMotion,
        message: JointTrajectory,
        blocked: Callable[[], str] = str,
        change: Change = lambda _sent, _obstacle: None,
    ) -> ExecutionResult:
        """Execute a trajectory and wait for its result.

        Args:
            motion: that the trajectory belongs to.
            message: the trajectory.
            blocked: called every :data:`MONITOR_PERIOD`; returns the obstacle on the remaining
                path, empty if there is none.
            change: see :data:`Change`.

        Returns:
            The result; rejections are results, too.
        """
        try:
            self.validate(message)
            sent = motion.send(message)
        except RequestRejected as refusal:
            displaced = isinstance(refusal, StartRefused)
            if displaced:
                self._disturbed_at = time.monotonic()
            return ExecutionResult(refusal.code, str(refusal), displaced=displaced)
        obstacle = ""
        while not self._client.poll(sent):
            sent.ended.wait(MONITOR_PERIOD)
            if motion.stopped is StopCause.NODE:
                # The executor, which would receive the result, is waiting for this thread.
                break
            if not obstacle and motion.stopped is None and not sent.ended.is_set():
                obstacle = blocked()
                if obstacle and (changed := change(sent, obstacle)) is not None:
                    with contextlib.suppress(RequestRejected):  # it was stopped meanwhile
                        sent, obstacle = motion.send(changed), ""
                elif obstacle:
                    self._client.cancel(sent)
        if len(motion.sent) > 1 and not sent.succeeded:
            obstacle = self._end_previous(motion, sent) or obstacle
        q, fault = self._state.newest()
        if not fault:
            positions = dict(zip(self._state.joint_names, q.tolist(), strict=True))
            self._client.record(sent, [positions[name] for name in sent.joints])
        result = _result(motion, sent, obstacle)
        if result.code != Codes.SUCCESS:
            self._disturbed_at = time.monotonic()
        return result

    def _end_previous(self, motion: ExecutedMotion, sent: SentTrajectory) -> str:
        """Stop the trajectory that a refused one did not replace; return the reason."""
        previous = motion.sent[motion.sent.index(sent) - 1]
        if previous.ended.is_set():
            return ""
        self._client.cancel(previous)
        while motion.stopped is not StopCause.NODE and not self._client.poll(previous):
            previous.ended.wait(MONITOR_PERIOD)
        return f"the changed motion was refused: {sent.text or sent.lost}"


def _result(motion: ExecutedMotion, sent: SentTrajectory, obstacle: str) -> ExecutionResult:
    if sent.lost:
        return ExecutionResult(Codes.CONTROL_FAILED, sent.lost)
    if sent.succeeded:
        return ExecutionResult(Codes.SUCCESS, "")
    if motion.stopped is not None:
        return ExecutionResult(Codes.PREEMPTED, motion.reason)
    if obstacle:
        return ExecutionResult(
            Codes.MOTION_PLAN_INVALIDATED_BY_ENVIRONMENT_CHANGE, obstacle, blocked=True
        )
    if sent.status == GoalStatus.STATUS_CANCELED:
        text = sent.text or "canceled by another client of the controller"
        return ExecutionResult(Codes.PREEMPTED, text)
    code = CONTROLLER_CODES.get(sent.code, Codes.CONTROL_FAILED)
    code = Codes.CONTROL_FAILED if code == Codes.SUCCESS else code
    displaced = sent.code == Results.INVALID_GOAL and sent.text.startswith(START_TOO_FAR)
    text = f"the controller aborted: {sent.text or f'error code {sent.code}'}"
    return ExecutionResult(code, text, displaced=displaced)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutionParams(FramedParams):
    """Controller, conditions of an execution, and concurrency of requests."""

    controller: str = param(
        JOINT_CONTROLLER,
        doc="Name of the controller node whose ~/follow_joint_trajectory action executes "
        "trajectories.",
        read_only=True,
    )
    other_controllers: tuple[str, ...] = param(
        (),
        doc="Further controllers that execute their joints of a trajectory, each as "
        "NAME=JOINT,JOINT; the bring-up adds the hand's controller of a controllers.yaml.",
        read_only=True,
    )
    start_tolerance: float = param(
        0.01,
        doc="Max difference between the current joint positions and the first point of a "
        "trajectory; beyond it execution is rejected.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
    )
    state_timeout: float = param(
        1.0,
        doc="Max age of joint_states for execution; with older ones execution is rejected.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    request_threads: int = param(
        2, doc="Number of requests processed concurrently.", ge=1, le=16, read_only=True
    )
