# SPDX-License-Identifier: Apache-2.0
"""Requested trajectories: action, topic, and the services that ask for them or discard them.

Trajectories are converted to goals of the core, which the loop executes. Long messages are
converted and validated in the executor; the loop only starts them, and validates again if limits
have changed since.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from control_msgs.action import FollowJointTrajectory
from control_msgs.srv import QueryTrajectoryState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.core.control.active_trajectories import (
    NO_TOLERANCE,
    FollowGoal,
    FollowStatus,
    ToleranceRequest,
    TrajectoryFollower,
)
from motion_nodes.core.robot.bounds import DURATION
from motion_nodes.core.robot.limits import joint_indices
from motion_nodes.core.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.core.trajectory.trajectory_checks import playback_rate, validate
from motion_nodes.errors import InvalidCommand, MotionError, UnknownJoint
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.nodes.articulation.stream_inputs import ACTIVATE
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.servers import (
    ActionGoal,
    ActionOutcome,
    LoopActionServer,
    respond_from_loop,
)
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.trajectory_messages import (
    TrajectoryRules,
    drop_points,
    fill_seconds,
    leader_tolerances,
    leader_trajectory,
    seconds,
    size_fault,
    tolerance_requests,
    trajectory_from,
)
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

Result = FollowJointTrajectory.Result
INACTIVE = "the controller is not active"
CODES = {
    FollowStatus.SUCCEEDED: Result.SUCCESSFUL,
    FollowStatus.PATH_TOLERANCE_VIOLATED: Result.PATH_TOLERANCE_VIOLATED,
    FollowStatus.GOAL_TOLERANCE_VIOLATED: Result.GOAL_TOLERANCE_VIOLATED,
    FollowStatus.PREEMPTED: Result.INVALID_GOAL,
    FollowStatus.CANCELED: Result.SUCCESSFUL,
    FollowStatus.ABORTED: Result.INVALID_GOAL,
}
"""Error code of the action by final status."""
OUTCOMES = {
    FollowStatus.SUCCEEDED: ActionOutcome.SUCCEEDED,
    FollowStatus.CANCELED: ActionOutcome.CANCELED,
}
"""Outcome of the action by final status; others are aborted."""


class OldTrajectory(MotionError):
    """A trajectory that ended in the past, by its stamp."""


def goal_of(
    host: ArticulationControllerNode, trajectory: Any, request: Any | None = None
) -> FollowGoal:
    """Convert and validate a trajectory.

    Args:
        host: the controller.
        trajectory: trajectory_msgs/JointTrajectory, whose points are removed to free memory.
        request: goal of the action with its tolerances; None for a topic.

    Raises:
        InvalidCommand: an invalid trajectory; names joint and point.
        UnknownJoint: a joint that the controller does not have.
    """
    limits, tree = host.runner.controller.limits, host.robot.tree
    try:
        rules = rules_of(host, topic=request is None)
        checked = trajectory_from(leader_trajectory(trajectory, tree), limits.names, rules)
    finally:
        drop_points(trajectory)
    names = checked.joint_names
    checked = checked.settled(limits.select(names))
    problem = validate(checked, limits.select(names))
    if problem is not None:
        raise InvalidCommand(problem.text)
    path, goal, goal_time = host.params.tolerances(names)
    guard = None
    if request is not None:
        if request.multi_dof_trajectory.joint_names or request.multi_dof_trajectory.points:
            raise InvalidCommand(
                "the goal has a multi_dof_trajectory; this controller has no such joints"
            )
        ignored = host.params.peer_defaults
        requested = leader_tolerances(tolerance_requests(request.path_tolerance), tree)
        requested = _known(requested, names) if ignored else requested
        path, guard = path.requested(requested, names), _guard_of(requested, names)
        at_goal = leader_tolerances(tolerance_requests(request.goal_tolerance), tree)
        at_goal = _known(at_goal, names) if ignored else at_goal
        goal = goal.requested(at_goal, names)
        if any(t.acceleration > 0.0 for t in (*request.path_tolerance, *request.goal_tolerance)):
            host.warn(
                "acceleration",
                "acceleration tolerances of a goal are not used: accelerations are not measured",
            )
        tolerance = seconds(request.goal_time_tolerance)
        goal_time = goal_time if tolerance == 0.0 else max(tolerance, 0.0)
    rate = 1.0 if checked.stepped else playback_rate(checked, limits.select(names))
    if rate < 1.0:
        host.warn(
            "rate",
            "the trajectory exceeds velocity or acceleration limits between its points; it is "
            f"executed at {rate:.2f} of its velocity, along the same path",
        )
    return FollowGoal(
        trajectory=checked, path=path, goal=goal, goal_time=goal_time, guard=guard, within=limits,
        rate=rate, cmd_timeout=host.params.end_timeout,
    )  # fmt: skip


def _guard_of(requests: Sequence[ToleranceRequest], joints: Sequence[str]) -> Array:
    """Return the path tolerances of a goal for the guard [rad or m], shape (n,); NaN if not set."""
    bounds = np.full(len(joints), np.nan)
    for request in requests:
        if request.position > 0.0 or request.position == NO_TOLERANCE:
            bounds[joints.index(request.joint)] = max(request.position, 0.0) or math.inf
    return bounds


def _known(requests: Sequence[ToleranceRequest], names: Sequence[str]) -> list[ToleranceRequest]:
    return [request for request in requests if request.joint in names]


def rules_of(host: ArticulationControllerNode, *, topic: bool) -> TrajectoryRules:
    """Return what a controller accepts in trajectories.

    Args:
        host: the controller.
        topic: whether they are received on ``~/joint_trajectory``; else as goals.
    """
    params: ArticulationParams = host.params

    def reference(names: tuple[str, ...]) -> TrajectorySample:
        joints = joint_indices(names, params.joints)
        present = host.in_loop(lambda: host.runner.reference_in(0.0))
        return TrajectorySample(*(values[joints] for values in present))

    upsampled = params.positions_upsampling_enable and topic
    return TrajectoryRules(
        efforts="effort" in params.interfaces,
        end_velocity=params.allow_nonzero_velocity_at_trajectory_end,
        partial=params.allow_partial_joints_goal,
        stepped=params.interpolation_method == "none",
        start=reference if params.allow_integration_in_goal_trajectories else None,
        upsampling=params.positions_upsampling_policy_frequency if upsampled else None,
    )


def start(
    host: ArticulationControllerNode, goal: FollowGoal, stamp: Any, label: str
) -> TrajectoryFollower:
    """Start a trajectory at its stamp; only in the loop.

    Args:
        host: the controller.
        goal: the trajectory.
        stamp: start time as a message; 0 for now.
        label: name of the trajectory in messages to others.

    Raises:
        OldTrajectory: it ended in the past.
        InvalidCommand: its stamp is days ahead, as one of another clock.
        MotionError: it cannot be executed now; see also JointArbiter.start.
    """
    refusal = host.refusal()
    if refusal is None and JOINT_CONTROLLER in host.params.inactive_controllers:
        refusal = f"{JOINT_CONTROLLER} is inactive; {ACTIVATE}"
    if refusal is not None:
        raise MotionError(refusal)
    given, end_time = seconds(stamp), goal.trajectory.end_time
    delay, hint = 0.0, "(does its sender use another use_sim_time?)"
    if given:
        # The next reference is for one period after the next deadline.
        delay = given - host.step.next_ns * 1e-9
    if delay > DURATION.max:
        raise InvalidCommand(f"the trajectory's stamp is {delay:.4g} s ahead {hint}")
    if delay + end_time < 0.0:
        raise OldTrajectory(
            f"the trajectory's stamp is {-delay:.2f} s old and its duration {end_time:.2f} s: it "
            f"has ended {hint}"
        )
    return host.runner.start(goal, label, delay)


def listen_for_trajectories(host: ArticulationControllerNode) -> None:
    """Subscribe to ``~/joint_trajectory``, and to those of other names."""

    def start_trajectory(message: JointTrajectory) -> None:
        try:
            goal = goal_of(host, message)
            host.in_loop(lambda: start(host, goal, message.header.stamp, "~/joint_trajectory"))
        except (MotionError, TimeoutError) as error:
            host.warn("trajectory", f"trajectory refused, nothing moves: {error}")

    for name in ("~", *host.params.aliases):
        topic = f"{name}/joint_trajectory"
        host.listen(JointTrajectory, topic, qos.REQUESTS, start_trajectory, size_fault=size_fault)


def _beyond(host: ArticulationControllerNode, ahead: float) -> str:
    """Return why no active trajectory determines the reference in a time [s]; empty if one does."""
    active = [run for run in host.runner.trajectories.runs]
    left = [
        (f.goal.trajectory.end_time - f.time) / f.goal.rate for f in active if not f.status.ended
    ]
    if not left:
        return "no trajectory is active"
    if ahead > max(left):
        return f"the requested time is {ahead - max(left):.3f} s after the end of the trajectory"
    return ""


def serve_state_and_reset(host: ArticulationControllerNode, reset: Callable[[], str]) -> None:
    """Offer the services.

    Args:
        host: the controller.
        reset: discards all commands, in the loop; returns the message of success.
    """

    def query(request: Any, response: Any) -> Any:
        """Return the reference at a time: that of active trajectories, else the current one."""
        refusal = host.state_fault() if host.active else INACTIVE
        if refusal is not None:
            response.success, response.message = False, refusal
            return response
        ahead = seconds(request.time) - host.now() if seconds(request.time) else 0.0
        try:
            sample, beyond = host.in_loop(
                lambda: (host.runner.reference_in(ahead), _beyond(host, ahead))
            )
        except TimeoutError as error:
            response.success, response.message = False, str(error)
            return response
        response.message = beyond if host.params.peer_defaults else ""
        response.success = not response.message
        response.name = list(host.runner.controller.joint_names)
        response.position, response.velocity, response.acceleration = (
            values.tolist() for values in sample
        )
        return response

    def discard(_request: Any, response: Any) -> Any:
        """Discard all commands and hold the measured positions."""
        if not host.active:
            response.success, response.message = False, INACTIVE
            return response
        return respond_from_loop(host, response, reset)

    for name in ("~", *host.params.aliases):
        host.serve(QueryTrajectoryState, f"{name}/query_state", query)
    host.serve(Trigger, "~/reset", discard)


@dataclass(frozen=True)
class _Execution:
    """Execution of a goal."""

    goal: ActionGoal
    run: TrajectoryFollower

    @property
    def ended(self) -> bool:
        return self.run.status.ended


class FollowTrajectoryServer(LoopActionServer[_Execution]):
    """Serves ``~/follow_joint_trajectory``."""

    def __init__(self, host: ArticulationControllerNode, monitor_rate: float) -> None:
        """Create the server.

        Args:
            host: the controller.
            monitor_rate: publish rate of the feedback [Hz].
        """
        self._host = host
        names = ("~", *host.params.aliases)
        actions = [(FollowJointTrajectory, f"{name}/follow_joint_trajectory") for name in names]
        super().__init__(host, actions, monitor_rate)
        if host.params.reject_invalid_goals:
            self.refuse_by(self._refusal)

    def start(self, goal: ActionGoal) -> _Execution | None:
        """Start the trajectory; abort the goal if it cannot be executed."""
        trajectory = goal.request.trajectory
        stamp, label = trajectory.header.stamp, f"action goal {goal.label}"
        try:
            # Long messages are converted outside the loop.
            follow_goal = goal_of(self._host, trajectory, goal.request)
            run = self._host.in_loop(lambda: start(self._host, follow_goal, stamp, label))
        except OldTrajectory as error:
            self._finish(goal, Result.OLD_HEADER_TIMESTAMP, str(error))
        except UnknownJoint as error:
            self._finish(goal, Result.INVALID_JOINTS, str(error))
        except (MotionError, TimeoutError) as error:
            self._finish(goal, Result.INVALID_GOAL, str(error))
        else:
            return _Execution(goal, run)
        return None

    def _refusal(self, request: Any) -> str:
        """Return why a goal is rejected when it is sent; empty if it is accepted."""
        try:
            goal_of(self._host, copy.deepcopy(request.trajectory), request)
        except (MotionError, TimeoutError) as error:
            return str(error)
        return ""

    def stop(self, execution: _Execution) -> None:
        """Cancel a trajectory: bring its joints to rest."""
        self._host.runner.cancel(execution.run, "canceled by its client")

    def answer(self, execution: _Execution) -> None:
        """Send the result."""
        follower = execution.run
        if execution.ended:
            outcome = OUTCOMES.get(follower.status, ActionOutcome.ABORTED)
            self._finish(execution.goal, CODES[follower.status], follower.text, outcome)
        else:
            text = "the controller is shutting down"
            self._finish(execution.goal, Result.INVALID_GOAL, text)

    def feedback(self, execution: _Execution) -> Any:
        """Return the feedback message; None before the first step."""
        now = execution.run.progress
        if now is None:
            return None
        names = execution.run.joint_names
        message = FollowJointTrajectory.Feedback(joint_names=list(names))
        set_stamp(message, self._host.now_ns())
        position, velocity = now.desired.position, now.desired.velocity
        _fill(message.desired, position, velocity, now.time)
        _fill(message.actual, now.position, now.velocity, now.elapsed)
        _fill(message.error, position - now.position, velocity - now.velocity, now.time)
        return message

    def _finish(
        self, goal: ActionGoal, code: int, text: str, outcome: ActionOutcome = ActionOutcome.ABORTED
    ) -> None:
        if text:
            self._host.get_logger().info(f"goal ended: {text}")
        goal.result.error_code, goal.result.error_string = code, text
        goal.finish(outcome, goal.result)


def _fill(point: Any, position: np.ndarray, velocity: np.ndarray, time: float) -> None:
    point.positions, point.velocities = position.tolist(), velocity.tolist()
    fill_seconds(point.time_from_start, time)
