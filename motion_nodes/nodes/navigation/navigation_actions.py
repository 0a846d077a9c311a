# SPDX-License-Identifier: Apache-2.0
"""Actions of the base navigator, named as in Nav2; the loop executes their goals."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nav2_msgs.action import (
    AssistedTeleop,
    BackUp,
    DriveOnHeading,
    FollowPath,
    FollowWaypoints,
    NavigateThroughPoses,
    NavigateToPose,
    Spin,
)
from nav2_msgs.msg import MissedWaypoint

from motion_nodes.core.navigation.navigator import MotionResult, NavigationTask
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import Spin as SpinMotion
from motion_nodes.core.navigation.teleoperation import Teleoperation
from motion_nodes.nodes.navigation.navigation_requests import (
    BEHAVIOR_CODES,
    BEHAVIORS,
    CODES,
    MISSED,
    FrameNotKnown,
    NavigationPlan,
    NavigationRejected,
    PendingGoals,
    goal_of,
    plan_along,
    plan_behavior,
    plan_through,
    plan_to,
)
from motion_nodes.ros.concurrency.servers import ActionGoal, ActionOutcome, LoopActionServer
from motion_nodes.ros.messages.planar_messages import stamped_pose
from motion_nodes.ros.messages.trajectory_messages import fill_seconds

if TYPE_CHECKING:
    from motion_nodes.nodes.base_navigator import BaseNavigatorNode

Codes = FollowPath.Result

OUTCOMES = {
    MotionResult.SUCCEEDED: ActionOutcome.SUCCEEDED,
    MotionResult.CANCELED: ActionOutcome.CANCELED,
}
"""Outcome by result; others are aborted."""


@dataclass
class _Navigation:
    """Execution of a goal; a :class:`NavigationRequest`."""

    server: NavigationServer
    goal: ActionGoal
    task: NavigationTask | None = None
    """None: it is planned, or waits for the transform of its frame."""
    frame: str = ""
    goals: list[tuple[str, Pose2] | NavigationRejected] = field(default_factory=list)
    """Frames and poses to reach one after the other, or why one is missed; empty for a path, and
    before the start."""
    skips: bool = False
    """Whether waypoints that are not reached are missed, instead of ending the goal."""
    bad: int | None = None
    """Index of the pose for which a goal of several was refused."""
    first: int = 0
    """Index of the pose that is the first one to reach."""
    count: int = 1
    """Number of poses to reach; after the last pose of the list the first one follows."""
    reached: int = 0
    """Number of poses that were reached before the current motion."""
    after: tuple[float, ...] = ()
    """Remaining length of the path at each pose that the current motion passes [m]."""
    passed: int = 0
    """Number of these that it has passed."""
    length: float = 0.0
    """Length of its path [m]."""
    time: float = 0.0
    """Duration of the motions to them [s]."""
    detours: int = 0
    """Detours of these motions."""
    canceled: bool = False

    @property
    def continues(self) -> bool:
        """Whether a pose was reached, or is missed, that is not the last one."""
        task = self.task
        if task is None or not task.ended:
            return False
        over = task.ending is MotionResult.SUCCEEDED or self.missed
        return over and self.reached + self.span < self.count

    @property
    def missed(self) -> bool:
        """Whether the motion ended without reaching a waypoint that may be missed."""
        task = self.task
        return self.skips and task is not None and task.ended and task.ending in MISSED

    @property
    def span(self) -> int:
        """Number of poses of the current motion."""
        return 1 + len(self.after)

    @property
    def index(self) -> int:
        """Index of the current pose."""
        return (self.first + self.reached) % max(1, len(self.goals))

    def ahead(self) -> float:
        """Return the length of straight lines from the end of the motion to the last pose [m]."""
        rest = self.goals[self.reached + self.span - 1 :]
        left = [goal[1] for goal in rest if isinstance(goal, tuple)]
        return sum(math.dist((a.x, a.y), (b.x, b.y)) for a, b in itertools.pairwise(left))

    @property
    def ended(self) -> bool:
        return self.goal.ended if self.task is None else self.task.ended

    def plan(self) -> NavigationPlan | None:
        return self.server.next_plan(self)

    def start(self, plan: NavigationPlan | None) -> None:
        self.server.begin(self, plan)

    def refuse(self, error: Exception) -> None:
        if isinstance(error, FrameNotKnown) and self.server.begin_without(self):
            return
        code = getattr(error, "code", Codes.CONTROLLER_TIMED_OUT)
        self.server.fail(self, code, str(error))


class NavigationServer(LoopActionServer[_Navigation]):
    """Serves ``navigate_to_pose``, ``follow_path``, both kinds of pose lists, and behaviors."""

    def __init__(
        self, host: BaseNavigatorNode, pending: PendingGoals, feedback_rate: float
    ) -> None:
        """Create the servers.

        Args:
            host: the navigator.
            pending: of the navigator's goals.
            feedback_rate: publish rate of the feedback [Hz].
        """
        self._host, self._pending = host, pending
        actions = (
            (NavigateToPose, "navigate_to_pose"),
            (NavigateThroughPoses, "navigate_through_poses"),
            (FollowWaypoints, "follow_waypoints"),
            (FollowPath, "follow_path"),
            (Spin, "spin"),
            (BackUp, "backup"),
            (DriveOnHeading, "drive_on_heading"),
            (AssistedTeleop, "assisted_teleop"),
        )
        super().__init__(host, actions, feedback_rate)
        self.refuse_by(self._refusal)

    def _refusal(self, request: Any) -> str:
        """Return why a goal is rejected when it is sent; empty if it is accepted."""
        waypoints = isinstance(request, FollowWaypoints.Goal)
        if self._host.params.peer_defaults and waypoints and not request.poses:
            return "the goal has no poses"
        return ""

    def start(self, goal: ActionGoal) -> _Navigation | None:
        """Start the task, now or when its frame is known; abort the goal if it is refused."""
        navigation = _Navigation(self, goal)
        self._pending.begin(navigation)
        return None if goal.ended else navigation

    def begin(self, navigation: _Navigation, plan: NavigationPlan | None) -> None:
        """Start the task of a goal; None: all poses that are left are missed."""
        goal = navigation.goal
        label = f"{goal.action_name} goal {goal.label}"
        if plan is None:
            self.end(goal, Codes.NONE, "", ActionOutcome.SUCCEEDED)
            return

        def start() -> NavigationTask:
            if navigation.reached and self._host.driving:
                raise NavigationRejected(Codes.UNKNOWN, "preempted by a newer goal")
            return self._host.begin(plan, label)

        navigation.task = self._host.in_loop(start)
        navigation.frame, navigation.after = plan.frame, plan.after
        navigation.passed, navigation.length = 0, plan.path.length

    def begin_without(self, navigation: _Navigation) -> bool:
        """Start a goal of waypoints without those in unknown frames; return whether it may."""
        request = navigation.goal.request
        if not isinstance(request, FollowWaypoints.Goal) or self._stops_on_failure:
            return False
        try:
            self._read_goals(navigation, request, waited=True)
            self.begin(navigation, self.next_plan(navigation))
        except (NavigationRejected, TimeoutError) as error:
            navigation.refuse(error)
        return True

    @property
    def _stops_on_failure(self) -> bool:
        return bool(self._host.params.stop_on_failure)

    def next_plan(self, navigation: _Navigation) -> NavigationPlan | None:
        """Return the plan to the next pose; None if all that are left are missed."""
        while not navigation.goals or navigation.reached < navigation.count:
            try:
                return self._plan(navigation)
            except NavigationRejected as error:
                if not navigation.skips or isinstance(error, FrameNotKnown):
                    raise
                self._miss(navigation, error.code)
            navigation.reached += 1
        return None

    def _plan(self, navigation: _Navigation) -> NavigationPlan:
        request = navigation.goal.request
        if isinstance(request, FollowPath.Goal):
            return plan_along(self._host, request.path, request.controller_id)
        if navigation.goal.kind in BEHAVIORS:
            return plan_behavior(self._host, request)
        if not navigation.goals:
            self._read_goals(navigation, request)
        if isinstance(request, NavigateThroughPoses.Goal):
            left = navigation.goals[navigation.reached :]
            return plan_through(self._host, [goal for goal in left if isinstance(goal, tuple)])
        goal = navigation.goals[navigation.index]
        if isinstance(goal, NavigationRejected):
            # Of the same code, but final.
            raise NavigationRejected(goal.code, str(goal))
        return plan_to(self._host, *goal)

    def _read_goals(self, navigation: _Navigation, request: Any, *, waited: bool = False) -> None:
        """Read the poses of a goal."""
        if getattr(request, "behavior_tree", ""):
            raise NavigationRejected(
                Codes.INVALID_CONTROLLER,
                f"behavior_tree is '{request.behavior_tree}'; behavior trees are not supported, "
                "it must be empty",
            )
        if isinstance(request, NavigateToPose.Goal):
            navigation.goals = [goal_of(self._host, request.pose, "the goal")]
            return
        poses = len(request.poses)
        waypoints = isinstance(request, FollowWaypoints.Goal)
        if waypoints and request.goal_index:
            if request.goal_index >= poses:
                raise NavigationRejected(
                    Codes.INVALID_PATH,
                    f"goal_index is {request.goal_index}; it must be below the number of poses, "
                    f"{poses}",
                )
            navigation.first = request.goal_index
        navigation.skips = waypoints and not self._stops_on_failure
        goals: list[tuple[str, Pose2] | NavigationRejected] = []
        if not poses:
            raise NavigationRejected(Codes.INVALID_PATH, "the goal has no poses")
        for k, pose in enumerate(request.poses):
            try:
                goals.append(goal_of(self._host, pose, f"pose {k + 1} of {poses}"))
            except NavigationRejected as error:
                if not navigation.skips or (isinstance(error, FrameNotKnown) and not waited):
                    navigation.bad = k
                    raise
                goals.append(error)
        navigation.goals, navigation.bad = goals, None
        loops = 1 + getattr(request, "number_of_loops", 0)
        navigation.count = loops * poses - navigation.first

    def finish(self) -> None:
        """Continue to the next pose of goals that have one, and send the results of others."""
        for navigation in list(self._works):
            task = navigation.task
            if task is None or not navigation.continues:
                continue
            if navigation.canceled:
                self._end_canceled(navigation)
                continue
            if navigation.missed:
                self._miss(navigation, CODES[task.ending])
            navigation.reached += navigation.span
            navigation.time += task.time
            navigation.detours += task.detours
            navigation.task = None
            self._pending.proceed(navigation)
        super().finish()

    def is_over(self, navigation: _Navigation) -> bool:
        """Return whether the last motion of a goal has ended.

        A motion that ended as soon as it began, at a pose that was reached already, is followed by
        the next one at the next poll.
        """
        return navigation.ended and not navigation.continues

    def stop(self, navigation: _Navigation) -> None:
        """Cancel a task: bring the base to rest."""
        navigation.canceled = True
        if navigation.task is None:
            self._end_canceled(navigation)
        else:
            self._host.cancel(navigation.task)

    def fail(self, navigation: _Navigation, code: int, text: str) -> None:
        """Abort a goal whose motion cannot start."""
        self._miss(navigation, code)
        self.end(navigation.goal, code, text)

    def _miss(self, navigation: _Navigation, code: int) -> None:
        """Add the current waypoint, or the bad one of a refused goal, to the missed ones."""
        request = navigation.goal.request
        index = navigation.index if navigation.bad is None else navigation.bad
        if not isinstance(request, FollowWaypoints.Goal) or index >= len(request.poses):
            return
        if navigation.goals or navigation.bad is not None:
            missed = MissedWaypoint(index=index, goal=request.poses[index], error_code=code)
            result = navigation.goal.result
            result.missed_waypoints = [*result.missed_waypoints, missed]

    def _end_canceled(self, navigation: _Navigation) -> None:
        self.end(navigation.goal, Codes.NONE, "canceled by its client", ActionOutcome.CANCELED)

    def answer(self, navigation: _Navigation) -> None:
        """Send the result."""
        goal, task = navigation.goal, navigation.task
        if goal.ended:
            return
        if task is not None and goal.kind in BEHAVIORS:
            fill_seconds(goal.result.total_elapsed_time, task.time)
        if task is not None and task.ended and not navigation.continues:
            outcome = OUTCOMES.get(task.ending, ActionOutcome.ABORTED)
            if outcome is ActionOutcome.ABORTED:
                self._miss(navigation, CODES[task.ending])
            if navigation.missed:
                self.end(goal, Codes.NONE, task.text, ActionOutcome.SUCCEEDED)
            else:
                self.end(goal, CODES[task.ending], task.text, outcome)
        else:
            self.end(goal, Codes.UNKNOWN, "the navigator is shutting down")

    def feedback(self, navigation: _Navigation) -> Any:
        """Return the feedback message."""
        if navigation.task is None:
            return None
        progress = self._host.progress()
        if isinstance(navigation.goal.request, FollowPath.Goal):
            return FollowPath.Feedback(distance_to_goal=progress.remaining, speed=progress.speed)
        if isinstance(navigation.goal.request, FollowWaypoints.Goal):
            return FollowWaypoints.Feedback(current_waypoint=navigation.index)
        motion = navigation.task.motion
        if isinstance(motion, Teleoperation):
            steered = AssistedTeleop.Feedback()
            fill_seconds(steered.current_teleop_duration, navigation.task.time)
            return steered
        if isinstance(motion, SpinMotion):
            return Spin.Feedback(angular_distance_traveled=abs(motion.turned))
        if navigation.goal.kind in BEHAVIORS:
            distance = max(navigation.length - progress.remaining, 0.0)
            return navigation.goal.feedback_type(distance_traveled=distance)
        remaining = progress.remaining + navigation.ahead()
        if isinstance(navigation.goal.request, NavigateToPose.Goal):
            message = NavigateToPose.Feedback(distance_remaining=remaining)
        else:
            passed = sum(progress.remaining <= length for length in navigation.after)
            navigation.passed = max(navigation.passed, passed)
            left = navigation.count - navigation.reached - navigation.passed
            message = NavigateThroughPoses.Feedback(
                distance_remaining=remaining, number_of_poses_remaining=left
            )
        now = self._host.now_ns()
        message.current_pose = stamped_pose(progress.pose, navigation.frame, now)
        fill_seconds(message.navigation_time, navigation.time + navigation.task.time)
        message.number_of_recoveries = navigation.detours + navigation.task.detours
        fill_seconds(message.estimated_time_remaining, progress.time_remaining)
        return message

    def end(
        self, goal: ActionGoal, code: int, text: str, outcome: ActionOutcome = ActionOutcome.ABORTED
    ) -> None:
        """Send the result of a goal, and log its text."""
        if text:
            self._host.get_logger().info(f"goal ended: {text}")
        if goal.kind in BEHAVIORS:
            codes = goal.kind.Result
            code = getattr(codes, BEHAVIOR_CODES.get(code, "UNKNOWN"), codes.UNKNOWN)
        goal.result.error_code, goal.result.error_msg = code, text
        goal.finish(outcome, goal.result)
        self._jobs.submit(self.finish)
