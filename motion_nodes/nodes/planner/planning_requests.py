# SPDX-License-Identifier: Apache-2.0
"""Answers to MoveIt's planning requests: messages in, the planning core asked, messages out.

Requests are answered in several threads at once; each works on a scene and a checker of its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from moveit_msgs.msg import (
    MoveItErrorCodes,
    PlanningScene,
    RobotState,
    RobotTrajectory,
)
from numpy.typing import NDArray
from trajectory_msgs.msg import JointTrajectory as JointTrajectoryMessage

from motion_nodes.errors import InvalidCommand, MotionError, UnknownFrame
from motion_nodes.model.robot import Group, Robot
from motion_nodes.nodes.planner.planner_params import RrtPlannerParams
from motion_nodes.nodes.planner.planner_state import PlannerState
from motion_nodes.nodes.planner.planning_scene import PlanningSceneOwner
from motion_nodes.planning.cartesian import with_tool_speed
from motion_nodes.planning.path_watch import PathWatch
from motion_nodes.planning.pipeline import PlanOptions
from motion_nodes.planning.planner_settings import PlannerSettings
from motion_nodes.planning.planners import default_settings, find_planner
from motion_nodes.planning.planning_problem import PlanRequest
from motion_nodes.planning.recovered_plan import joined, plan_with_recovery
from motion_nodes.planning.recovery import RecoverySettings
from motion_nodes.planning.straight_line_planner import DirectMotion
from motion_nodes.planning.tree_search import SearchTree
from motion_nodes.planning.warm_up import load_planning
from motion_nodes.ros.clients.trajectory_client import SentTrajectory
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.messages.goal_constraints import goals_of, refuse_constraints_on_the_way
from motion_nodes.ros.messages.goal_context import GoalContext, refused
from motion_nodes.ros.messages.moveit_messages import RequestRejected, joint_values, requested_group
from motion_nodes.ros.messages.plan_messages import (
    PLAN_CODES,
    not_used,
    planning_time,
    scaling,
    state_message,
    trajectory_message,
)
from motion_nodes.ros.robot_frames import RobotFrames
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.moved_links import scene_for
from motion_nodes.scene.scene import Scene
from motion_nodes.trajectory.joint_trajectory import JointTrajectory

Array = NDArray[np.float64]
Codes = MoveItErrorCodes
Blocked = Callable[[SentTrajectory], str]

ERROR_CODES: dict[type, int] = {
    InvalidCommand: Codes.INVALID_GOAL_CONSTRAINTS,
    UnknownFrame: Codes.INVALID_LINK_NAME,
}
"""Code of what the planning core refuses to begin with."""


@dataclass(frozen=True)
class PlanWish:
    """A request to plan."""

    request: Any
    """moveit_msgs/MotionPlanRequest."""
    scene_diff: Any = field(default_factory=PlanningScene)
    """What is another in the scene, for this request alone."""
    from_present: bool = False
    """Whether it will be carried out, so that it begins where the robot is."""


@dataclass(frozen=True)
class PlannedMotion:
    """A plan as messages."""

    wish: PlanWish
    group: Group
    q: Array
    """All joints of the robot at the start, shape (n,)."""
    start: RobotState
    trajectory: RobotTrajectory
    time: float
    """Duration of planning [s]."""
    note: str
    """What the client should know; may be empty."""
    recovery_points: int = 0
    """How many of the first points are the recovery from a start that was not valid."""
    tree: SearchTree | None = None
    """What the search had grown, to draw."""


def tool_speed(request: Any, context: GoalContext) -> tuple[str, float] | None:
    """Return the link whose speed a request limits, and to what [m/s]; None where it does not.

    Raises:
        RequestRejected: for an unknown link, or a speed that is none.
    """
    speed = request.max_cartesian_speed
    if speed == 0.0:
        return None
    if not (math.isfinite(speed) and speed > 0.0):
        raise RequestRejected(
            Codes.INVALID_MOTION_PLAN,
            f"max_cartesian_speed is {speed} m/s; give one above 0, or 0 for no limit",
        )
    return context.link(request.cartesian_speed_limited_link), speed


class PlanningRequests:
    """What planning requests of all kinds share."""

    def __init__(
        self,
        robot: Robot,
        scenes: PlanningSceneOwner,
        frames: RobotFrames,
        state: PlannerState,
        params: Callable[[], RrtPlannerParams],
        stamp: Callable[[], Any],
    ) -> None:
        """Answer for one robot.

        Args:
            robot: that is planned for.
            scenes: where its scene comes from.
            frames: the robot's and those on /tf.
            state: the robot as it is measured.
            params: returns the parameters now in force.
            stamp: returns the time now as a message.
        """
        self.robot = robot
        self.scenes = scenes
        self.frames = frames
        self.state = state
        self.params = params
        self.stamp = stamp
        self.settings = PlannerSettings(default_settings())
        self.warm = threading.Event()
        """Set once everything is compiled."""
        self._checkers: dict[str, CollisionChecker] = {}
        self._making = threading.Lock()

    def warm_up(self) -> None:
        """Load what planning needs; requests wait until that has been done, see :attr:`warm`."""
        try:
            load_planning(self.robot)
        finally:
            self.warm.set()

    def group(self, name: str) -> Group:
        """Return a group by name or alias; no name means the only one that has a tip.

        Raises:
            RequestRejected: when there is none or more than one.
        """
        return requested_group(self.robot, name)

    def checker(self, group: Group, scene: Scene, q: Array) -> CollisionChecker:
        """Return a checker of a group for one thread, in a scene, with all joints at ``q``."""
        wanted, clearance = scene_for(self.robot, group.joints, scene), self.params().clearance
        others = np.ones(len(q), bool)
        others[group.indices] = False
        with self._making:
            made = self._checkers.get(group.name)
            if made is None:
                made = self._checkers[group.name] = CollisionChecker(self.robot, group.joints)
            # What is as it was keeps its tables, which take longer to make than to plan with.
            if made.clearance != clearance:
                made.set_clearance(clearance)
            if (made.positions[others] != q[others]).any():
                made.set_positions(q)
            if made.scene is not wanted:
                made.set_scene(wanted)
            made.kernel()
            return made.snapshot()

    def start(self, given: RobotState, *, from_present: bool = False) -> Array:
        """Return all joints where a plan begins, shape (n,): as given, else as measured.

        Raises:
            RequestRejected: for a state that cannot be used, joints of which nothing is known, or
                a plan that is to be carried out from elsewhere than where the robot is.
        """
        names = self.robot.joint_names
        values = joint_values(given, names, "start_state")
        if from_present:
            present = self.state.fresh()
            self._refuse_elsewhere(values, present)
            return present
        if len(values) == len(names):
            return np.array([values[name] for name in names])
        present, trouble = self.state.newest()
        if trouble:
            lacking = ", ".join(name for name in names if name not in values)
            raise RequestRejected(
                Codes.INVALID_ROBOT_STATE,
                f"start_state does not give {lacking}, and the robot's state is not known: "
                f"{trouble}",
            )
        return np.array([values.get(name, q) for name, q in zip(names, present, strict=True)])

    def plan(self, wish: PlanWish, cancelled: Callable[[], bool]) -> PlannedMotion:
        """Answer a MotionPlanRequest.

        Raises:
            RequestRejected: it cannot be served, or there is no plan.
        """
        self.await_warm(cancelled)
        request, params = wish.request, self.params()
        group = self.group(request.group_name)
        q = self.start(request.start_state, from_present=wish.from_present)
        context = GoalContext(self.robot, group, q, self.frames, not_used(request))
        if request.trajectory_constraints.constraints:
            raise refused("trajectory constraints cannot be held by these planners")
        refuse_constraints_on_the_way(request.path_constraints, context)
        speed = tool_speed(request, context)
        goals = goals_of(request.goal_constraints, context)
        options = self._options(request, group)
        question = PlanRequest(
            checker=self.checker(
                group, self.scenes.scene_with(wish.scene_diff, request.start_state), q
            ),
            start=context.start,
            goals=goals,
            timeout=planning_time(request.allowed_planning_time, params.allowed_planning_time),
            random_seed=params.random_seed,
            cancelled=cancelled,
        )
        try:
            recovered = plan_with_recovery(question, options, self.recovery_settings())
        except MotionError as error:
            code = ERROR_CODES.get(type(error), Codes.PLANNING_FAILED)
            raise RequestRejected(code, str(error)) from None
        plan, recovery = recovered.plan, recovered.recovery
        if plan.trajectory is None:
            raise RequestRejected(PLAN_CODES[plan.status], "; ".join([plan.reason, *context.notes]))
        trajectory = plan.trajectory
        if speed is not None and plan.motion is not None:
            slower = with_tool_speed(plan.motion, question.checker, *speed)
            trajectory = slower.points(options.time_step)
            if recovery is not None:
                trajectory = joined(recovery, trajectory, options.time_step)
        notes = [*context.notes, *plan.notes]
        planned = self._planned(wish, group, q, trajectory, plan.time, notes)
        points = 0 if recovery is None else len(recovery.times)
        return replace(planned, tree=plan.tree, recovery_points=points)

    def recovery_settings(self) -> RecoverySettings | None:
        """Return how starts that are not valid are left; None where they are refused."""
        params = self.params()
        return settings_from(params, RecoverySettings, "recovery_") if params.recovery else None

    def await_warm(self, cancelled: Callable[[], bool]) -> None:
        """Wait until everything is compiled, which takes a while at the first start on a machine.

        Raises:
            RequestRejected: the request was cancelled meanwhile.
        """
        while not self.warm.wait(0.02):
            if cancelled():
                raise RequestRejected(
                    Codes.PREEMPTED, "cancelled while the planner was being compiled"
                )

    def watch(self, planned: PlannedMotion) -> Blocked:
        """Return what says whether the rest of a plan is blocked, as the scene changes."""
        wish = planned.wish
        message = planned.trajectory.joint_trajectory
        return self._watch(
            planned.group,
            message,
            lambda: self.scenes.scene_with(wish.scene_diff, wish.request.start_state),
            planned.recovery_points,
        )

    def watch_free(self, message: JointTrajectoryMessage) -> Blocked:
        """Return the same for a trajectory of a client, as far as it is free to begin with.

        One that touches something from the beginning is taken to be meant so.
        """
        joints = set(message.joint_names)
        group = next((g for g in self.robot.groups.values() if set(g.joints) == joints), None)
        if group is None or not message.points:
            return lambda _: ""
        watch = self._watch(group, message, lambda: self.scenes.scene)
        return (lambda _: "") if watch(None) else watch

    # ---- inside

    def _options(self, request: Any, group: Group) -> PlanOptions:
        default = self.params().planner if group.tip is not None else DirectMotion.name
        asked = request.planner_id or default
        name, _ = find_planner(asked)
        known = name in self.settings.planners
        return PlanOptions(
            planner=asked,
            settings=self.settings.settings(name, group.name) if known else None,
            attempts=max(1, request.num_planning_attempts),
            velocity_scaling=scaling(
                request.max_velocity_scaling_factor, "max_velocity_scaling_factor"
            ),
            acceleration_scaling=scaling(
                request.max_acceleration_scaling_factor, "max_acceleration_scaling_factor"
            ),
        )

    def _refuse_elsewhere(self, values: dict[str, float], present: Array) -> None:
        tolerance = self.params().start_tolerance
        for i, name in enumerate(self.robot.joint_names):
            away = abs(values.get(name, present[i]) - present[i])
            if away > tolerance:
                raise RequestRejected(
                    Codes.START_STATE_INVALID,
                    f"start_state has {name} at {values[name]:.4f}, but it is at {present[i]:.4f}: "
                    f"{away:.4f} away, allowed is {tolerance:g} (start_tolerance); what is carried "
                    "out begins where the robot is",
                )

    def _planned(
        self,
        wish: PlanWish,
        group: Group,
        q: Array,
        trajectory: JointTrajectory,
        time: float,
        notes: list[str],
    ) -> PlannedMotion:
        frame = self.robot.base_frame
        everywhere = dict(zip(self.robot.joint_names, q.tolist(), strict=True))
        return PlannedMotion(
            wish=wish,
            group=group,
            q=q,
            start=state_message(everywhere, self.stamp(), frame),
            trajectory=trajectory_message(trajectory, frame),
            time=time,
            note="; ".join(notes),
        )

    def _watch(
        self,
        group: Group,
        message: JointTrajectoryMessage,
        scene: Callable[[], Scene],
        skipped: int = 0,
    ) -> Callable[[Any], str]:
        columns = [message.joint_names.index(name) for name in group.joints]
        # A recovery is in collision to begin with; what follows it is watched from its last point.
        points = message.points[max(0, skipped - 1) :]
        path = np.array([point.positions for point in points])[:, columns]
        times = [p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in points]
        q, _ = self.state.newest()
        watch = PathWatch(self.checker(group, self.scenes.scene, q), times, path)
        seen: list[Scene] = []

        def blocked(_: Any) -> str:
            q, trouble = self.state.newest()
            if not trouble:
                watch.advance(q[group.indices])
            newest = self.scenes.scene
            if newest not in seen:
                seen[:] = [newest]
                try:
                    return watch.obstacle(scene_for(self.robot, group.joints, scene()))
                except RequestRejected as refusal:
                    return str(refusal)
            return ""

        return blocked
