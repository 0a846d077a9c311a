# SPDX-License-Identifier: Apache-2.0
"""Trajectories that clients ask for: from messages to goals of the core, and their start.

Reading a long message and looking at its limits take a while and are done in the executor; only the
start is for the loop, which looks again if the limits have changed since.
"""

from __future__ import annotations

from typing import Any

from trajectory_msgs.msg import JointTrajectory

from motion_nodes.control.joint_arbiter import TrajectoryRun
from motion_nodes.control.trajectory_follower import FollowGoal
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.articulation.articulation_params import guard_of, tolerances_of
from motion_nodes.nodes.articulation.controller_host import ControllerHost
from motion_nodes.ros import qos
from motion_nodes.ros.messages.trajectory_messages import (
    drop_points,
    seconds,
    size_fault,
    tolerance_requests,
    trajectory_from,
)
from motion_nodes.trajectory.trajectory_checks import validate

LOOP_SILENT = "the controller's loop did not answer"


class OldTrajectory(MotionError):
    """A trajectory that is over before it begins, by its stamp."""


def goal_of(host: ControllerHost, trajectory: Any, request: Any | None = None) -> FollowGoal:
    """Return the core's goal for a trajectory message and, from an action, its tolerances.

    The message's points are gone afterwards.

    Raises:
        InvalidCommand: with joint and point, for whatever makes it no goal.
        UnknownJoint: for a joint that the controller does not have.
    """
    limits = host.runner.controller.limits
    try:
        checked = trajectory_from(trajectory, limits.names)
    finally:
        drop_points(trajectory)
    names = checked.joint_names
    problem = validate(checked, limits.select(names))
    if problem is not None:
        raise InvalidCommand(problem.text)
    path, goal, goal_time = tolerances_of(host.node.params, names)
    guard = None
    if request is not None:
        if request.multi_dof_trajectory.joint_names or request.multi_dof_trajectory.points:
            raise InvalidCommand(
                "the goal has a multi_dof_trajectory; this controller has no such joints"
            )
        wishes = list(tolerance_requests(request.path_tolerance))
        path, guard = path.requested(wishes, names), guard_of(wishes, names)
        goal = goal.requested(tolerance_requests(request.goal_tolerance), names)
        if any(t.acceleration > 0.0 for t in (*request.path_tolerance, *request.goal_tolerance)):
            host.node.warn(
                "acceleration",
                "acceleration tolerances of a goal are not used: accelerations are not measured",
            )
        wish = seconds(request.goal_time_tolerance)
        goal_time = goal_time if wish == 0.0 else max(wish, 0.0)
    return FollowGoal(
        trajectory=checked, path=path, goal=goal, goal_time=goal_time, guard=guard, within=limits
    )


def start(host: ControllerHost, goal: FollowGoal, stamp: Any, label: str) -> TrajectoryRun:
    """Begin a trajectory at its stamp, at once where that is 0; for use in the loop alone.

    Raises:
        OldTrajectory: it has ended already.
        MotionError: it cannot be followed now; see also JointArbiter.start.
    """
    refusal = host.refusal()
    if refusal is not None:
        raise MotionError(refusal)
    given, end_time = seconds(stamp), goal.trajectory.end_time
    delay = 0.0
    if given:
        # The coming reference belongs to that deadline: where joints shall be a period later.
        delay = given - host.node.step.next_ns * 1e-9
    if delay + end_time < 0.0:
        raise OldTrajectory(
            f"the trajectory's stamp is {-delay:.2f} s old and it lasts {end_time:.2f} s: it "
            "is over (does its sender use another use_sim_time?)"
        )
    return host.runner.start(goal, label, delay)


def listen_for_trajectories(host: ControllerHost) -> None:
    """Take trajectories from the topic ~/joint_trajectory, which has no answers."""

    def hear(message: JointTrajectory) -> None:
        try:
            goal = goal_of(host, message)
            host.node.in_loop(lambda: start(host, goal, message.header.stamp, "~/joint_trajectory"))
        except (MotionError, TimeoutError) as error:
            text = str(error) or LOOP_SILENT
            host.node.warn("trajectory", f"trajectory refused, nothing moves: {text}")

    host.node.listen(
        JointTrajectory, "~/joint_trajectory", qos.REQUESTS, hear, size_fault=size_fault
    )
