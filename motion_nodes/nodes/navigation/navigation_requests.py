# SPDX-License-Identifier: Apache-2.0
"""Requests of the base navigator: conversion from messages to motions in a fixed frame.

Paths are planned in the executor, on a map in a thread; the loop only starts the motions. Goals
wait for the transform of their frame without blocking the executor.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from nav2_msgs.action import AssistedTeleop, BackUp, ComputePathToPose, DriveOnHeading, Spin
from nav2_msgs.action import FollowPath as FollowPathAction
from rclpy.clock import Clock, ClockType

from motion_nodes.core.navigation.approaches import (
    motion_along_heading,
    motion_through,
    motion_to_pose,
)
from motion_nodes.core.navigation.base_motion import BaseMotion
from motion_nodes.core.navigation.follow_path import LAWS, FollowPath
from motion_nodes.core.navigation.map_planner import NoGridPath
from motion_nodes.core.navigation.navigator import Blocked, MotionResult
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.navigation.pose_motions import Spin as SpinMotion
from motion_nodes.core.navigation.teleoperation import Teleoperation
from motion_nodes.errors import InvalidCommand, MotionError, did_you_mean
from motion_nodes.nodes.navigation.navigator_params import NavigatorParams
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.planar_messages import frame_of, pose2_from, pose2_of, poses_from
from motion_nodes.ros.node import MotionNode
from motion_nodes.tolerances import EQUAL_POINTS

if TYPE_CHECKING:
    from motion_nodes.nodes.base_navigator import BaseNavigatorNode

Codes = FollowPathAction.Result
CODES = {
    MotionResult.SUCCEEDED: Codes.NONE,
    MotionResult.CANCELED: Codes.NONE,
    MotionResult.PREEMPTED: Codes.UNKNOWN,
    MotionResult.STUCK: Codes.FAILED_TO_MAKE_PROGRESS,
    MotionResult.FAILED: Codes.NO_VALID_CONTROL,
    MotionResult.LOST: Codes.TF_ERROR,
    MotionResult.BLOCKED: Codes.PATIENCE_EXCEEDED,
    MotionResult.TIMEOUT: Codes.CONTROLLER_TIMED_OUT,
    MotionResult.ABORTED: Codes.UNKNOWN,
}
"""Error code of FollowPath by result, which Nav2's NavigateToPose forwards."""
PathCodes = ComputePathToPose.Result
PATH_CODES = {
    "start_outside": "START_OUTSIDE_MAP",
    "goal_outside": "GOAL_OUTSIDE_MAP",
    "start_occupied": "START_OCCUPIED",
    "goal_occupied": "GOAL_OCCUPIED",
    "no_path": "NO_VALID_PATH",
}
"""Name of the error code of a path by the reason of a planner."""
BEHAVIORS = (Spin, BackUp, DriveOnHeading, AssistedTeleop)
BEHAVIOR_CODES = {
    Codes.NONE: "NONE",
    Codes.TF_ERROR: "TF_ERROR",
    Codes.INVALID_PATH: "INVALID_INPUT",
    Codes.PATIENCE_EXCEEDED: "COLLISION_AHEAD",
    Codes.CONTROLLER_TIMED_OUT: "TIMEOUT",
}
"""Name of the error code of a behavior by that of FollowPath; others, and those that a behavior
does not have, are UNKNOWN."""
MISSED = (MotionResult.STUCK, MotionResult.FAILED, MotionResult.BLOCKED, MotionResult.TIMEOUT)
"""Results after which the next waypoint is tried if ``stop_on_failure`` is false."""
MAP_FRAME = "map"
"""Frame of a localization, in which clients of Nav2 send goals (REP-105)."""
RULE = "turn_then_drive"
"""Approach that ends at each pose: the rule of the source system."""
DEFAULT_LAW = ("", "FollowPath")
"""Values of controller_id for the default tracking law; FollowPath is Nav2's default name."""
TRANSFORM_WAIT = 0.5
"""Max time that a goal waits for the transform of its frame [s]."""
RETRY_PERIOD = 0.05
"""[s]"""


class NavigationRejected(MotionError):
    """A request that cannot be executed; ``code`` is the error code of the actions."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class FrameNotKnown(NavigationRejected):
    """No transform connects the goal's frame to odometry; one may still be received."""


@dataclass(frozen=True)
class NavigationPlan:
    """A motion that is ready to start."""

    motion: BaseMotion
    path: PlanarPath
    """Planned path."""
    frame: str
    """Frame of both, which does not move with the base; a map may drift relative to odometry."""
    after: tuple[float, ...] = ()
    """Remaining length of the path at each pose that is passed without a stop [m]."""
    allowance: float = math.inf
    """Max duration [s]."""
    blocked: Blocked = "detour"
    """What the base does at obstacles."""


@dataclass(frozen=True)
class NavigationProgress:
    """Progress of the active task."""

    pose: Pose2
    """Pose of the base in the frame of the goal."""
    remaining: float
    """Remaining distance [m]."""
    speed: float
    """Translational speed [m/s]."""
    time_remaining: float
    """Estimated remaining time [s]."""


def plan_to_pose(host: BaseNavigatorNode, stamped: Any) -> NavigationPlan:
    """Plan a motion to a geometry_msgs/PoseStamped.

    Raises:
        NavigationRejected: an invalid goal, or one that cannot be reached.
    """
    return plan_to(host, *goal_of(host, stamped, "the goal"))


def goal_of(host: BaseNavigatorNode, stamped: Any, what: str) -> tuple[str, Pose2]:
    """Return frame and pose of a geometry_msgs/PoseStamped, in a frame that the base does not move.

    Args:
        host: the navigator.
        stamped: the message.
        what: its name in error messages.

    Raises:
        NavigationRejected: an invalid goal, or an unknown frame.
    """
    try:
        frame = frame_of(stamped, what)
        goal = pose2_from(stamped.pose, what)
    except InvalidCommand as error:
        raise NavigationRejected(Codes.INVALID_PATH, str(error)) from None
    frame, (goal,) = _in_steady_frame(host, frame, [goal], stamped)
    return frame, goal


def plan_to(host: BaseNavigatorNode, frame: str, goal: Pose2) -> NavigationPlan:
    """Plan a motion to a pose in a frame of :func:`goal_of`.

    Raises:
        NavigationRejected: the pose cannot be reached.
    """
    config, start = host.config(), _start(host, frame)
    try:
        motion, path = motion_to_pose(start, goal, config)
        around = host.around(frame, path)
    except InvalidCommand as error:
        raise NavigationRejected(Codes.NO_VALID_CONTROL, str(error)) from None
    except NoGridPath as error:
        raise NavigationRejected(getattr(PathCodes, PATH_CODES[error.why]), str(error)) from None
    if around is not None:
        frame, path = around
        motion = FollowPath(config.kind, path, config.follow)
    return NavigationPlan(motion, path, frame)


def plan_through(host: BaseNavigatorNode, goals: Sequence[tuple[str, Pose2]]) -> NavigationPlan:
    """Plan a motion through poses in frames of :func:`goal_of`, up to the next necessary stop.

    That is the last pose, or one before it whose successor is in another frame, or behind obstacles
    of the map; a pose at the position of the previous one, which is a turn on the spot, is a motion
    of its own.

    Raises:
        NavigationRejected: a pose cannot be reached.
    """
    (frame, first), *others = goals
    config, start = host.config(), _start(host, frame)
    if _behind_obstacles(host, frame, start, first):
        return plan_to(host, frame, first)
    run = [first]
    for other, goal in others:
        ends = (start, *run, goal)[-3:]
        close = min(a.distance(b) for a, b in itertools.pairwise(ends))
        if other != frame or close <= config.follow.tolerance.xy or config.approach == RULE:
            break
        if _behind_obstacles(host, frame, run[-1], goal):
            break
        run.append(goal)
    try:
        motion, path, after = motion_through(start, run, config)
    except InvalidCommand as error:
        raise NavigationRejected(Codes.NO_VALID_CONTROL, str(error)) from None
    return NavigationPlan(motion, path, frame, after)


def _behind_obstacles(host: BaseNavigatorNode, frame: str, start: Pose2, goal: Pose2) -> bool:
    """Return whether the direct path between poses is blocked in the map."""
    try:
        return host.around(frame, motion_to_pose(start, goal, host.config())[1]) is not None
    except InvalidCommand:
        return False
    except NoGridPath:
        return True


def plan_behavior(host: BaseNavigatorNode, request: Any) -> NavigationPlan:
    """Plan the motion of a goal of nav2_msgs' Spin, BackUp, DriveOnHeading or AssistedTeleop.

    Raises:
        NavigationRejected: an invalid goal, or an unknown pose of the base.
    """
    config, frame = host.config(), host.odom_frame
    start = _start(host, frame)
    blocked: Blocked = "end"
    try:
        # A field of later versions of Nav2.
        if getattr(request, "disable_collision_checks", False):
            raise InvalidCommand(
                "disable_collision_checks is true; obstacles always stop the base, unless the "
                "parameter obstacles.mode is off"
            )
        follow = config.follow
        motion: BaseMotion
        if isinstance(request, Spin.Goal | AssistedTeleop.Goal):
            _, path = motion_along_heading(start, 0.0, follow.limits.max_velocity, config)
        if isinstance(request, AssistedTeleop.Goal):
            motion, blocked = Teleoperation(config.kind, host.params.teleop_timeout), "stand"
        elif isinstance(request, Spin.Goal):
            motion = SpinMotion(config.kind, request.target_yaw, follow.limits, follow.tolerance)
        else:
            motion, path = motion_along_heading(start, *_straight_of(request), config)
    except InvalidCommand as error:
        raise NavigationRejected(Codes.INVALID_PATH, str(error)) from None
    allowance = request.time_allowance.sec + 1e-9 * request.time_allowance.nanosec
    return NavigationPlan(
        motion, path, frame, allowance=allowance if allowance > 0.0 else math.inf, blocked=blocked
    )


def _straight_of(request: Any) -> tuple[float, float]:
    """Return distance, negative in reverse, and speed of a BackUp or DriveOnHeading goal [m, m/s].

    Raises:
        InvalidCommand: a target beside the base, or a speed of the other sign.
    """
    target, speed = request.target, request.speed
    if target.y or target.z:
        raise InvalidCommand(
            f"target is ({target.x:g}, {target.y:g}, {target.z:g}) m; y and z must be 0, as the "
            "base drives along its heading"
        )
    if isinstance(request, BackUp.Goal):
        return -abs(target.x), abs(speed)
    if target.x * speed < 0.0:
        raise InvalidCommand(
            f"target.x is {target.x:g} m and speed {speed:g} m/s; their signs must be equal"
        )
    return target.x, abs(speed)


def plan_along(host: BaseNavigatorNode, message: Any, controller_id: str) -> NavigationPlan:
    """Plan a motion along a nav_msgs/Path.

    Args:
        host: the navigator.
        message: the path.
        controller_id: tracking law; empty for that of the parameters.

    Raises:
        NavigationRejected: an invalid path, or one that cannot be followed.
    """
    config = host.config()
    follow = config.follow
    if controller_id in LAWS:
        follow = dataclasses.replace(follow, law=controller_id)
    elif controller_id not in DEFAULT_LAW:
        raise NavigationRejected(
            Codes.INVALID_CONTROLLER,
            f"controller_id '{controller_id}' is not known.{did_you_mean(controller_id, LAWS)} "
            "Empty means the parameter tracking_law.",
        )
    try:
        frame, poses = poses_from(message)
        frame, poses = _in_steady_frame(host, frame, poses, message)
        if all(pose.distance(poses[-1]) <= EQUAL_POINTS for pose in poses):
            return _plan_on_the_spot(host, frame, poses[-1], follow.max_deviation)
        path = PlanarPath(poses)
        motion = FollowPath(config.kind, path, follow)
        motion.check_start(_start(host, frame))
        if tight := motion.too_tight():
            host.warn("tight", tight)
    except InvalidCommand as error:
        raise NavigationRejected(Codes.INVALID_PATH, str(error)) from None
    return NavigationPlan(motion, path, frame)


def _plan_on_the_spot(
    host: BaseNavigatorNode, frame: str, goal: Pose2, max_deviation: float
) -> NavigationPlan:
    """Plan a motion along a path without a length, such as a planner's from a pose to itself."""
    away = _start(host, frame).distance(goal)
    if away > max_deviation:
        raise InvalidCommand(
            f"the base is {away:.2f} m from the start of the path; allowed is {max_deviation:g} m "
            "(max_deviation)"
        )
    return plan_to(host, frame, goal)


def check_age(host: BaseNavigatorNode, message: Any, what: str) -> None:
    """Validate the age of a message; a stamp of 0 is now.

    Args:
        host: the navigator.
        message: with a header.
        what: its name in error messages.

    Raises:
        NavigationRejected: it is older than goal_timeout.
    """
    params: NavigatorParams = host.params
    stamp = stamp_ns(message)
    age = (host.now_ns() - stamp) * 1e-9
    if stamp and age > params.goal_timeout:
        raise NavigationRejected(
            Codes.INVALID_PATH,
            f"{what} is {age:.1f} s old by its stamp; allowed is goal_timeout, "
            f"{params.goal_timeout:g} s (does its sender use another use_sim_time?)",
        )


def _start(host: BaseNavigatorNode, frame: str) -> Pose2:
    try:
        return host.frame_pose(frame).compose(host.base_pose())
    except MotionError as error:
        raise NavigationRejected(Codes.TF_ERROR, str(error)) from None


def _in_steady_frame(
    host: BaseNavigatorNode, frame: str, poses: list[Pose2], message: Any
) -> tuple[str, list[Pose2]]:
    """Return frame and poses, converted to the odometry frame if theirs moves with the base."""
    if frame == host.odom_frame:
        return frame, poses
    X_BF = Pose2() if frame == host.base_frame else _on_the_base(host, frame)
    if X_BF is None:
        return frame, poses
    check_age(host, message, f"a goal in frame '{frame}', which moves with the base,")
    X_OF = _start(host, host.odom_frame).compose(X_BF)
    return host.odom_frame, [X_OF.compose(pose) for pose in poses]


def _on_the_base(host: BaseNavigatorNode, frame: str) -> Pose2 | None:
    """Return the pose of a frame on the base; None for other frames connected to odometry."""
    host.tree.update()
    try:
        if host.tree.is_below(frame, host.base_frame):
            return pose2_of(host.tree.pose(host.base_frame, frame)[0])
        host.frame_pose(frame)
    except MotionError as error:
        raise FrameNotKnown(Codes.TF_ERROR, f"{error}{_advice(host, frame)}") from None
    return None


def _advice(host: BaseNavigatorNode, frame: str) -> str:
    """Return the remedy for a goal in the frame of a map without a publisher."""
    if frame.rpartition("/")[2] != MAP_FRAME:
        return ""
    return (
        f" No localization publishes the transform from '{frame}' to '{host.odom_frame}': start "
        f"one, or send the goal in the frame '{host.odom_frame}'."
    )


class NavigationRequest(Protocol):
    """A goal from an action client or a topic."""

    @property
    def ended(self) -> bool:
        """Whether it was canceled while it waited, and is not to be started."""

    def plan(self) -> Any:
        """Return the plan of the motion; in the executor, or in a thread with a map.

        Raises:
            FrameNotKnown: no transform of the goal's frame has been received yet.
            NavigationRejected: it cannot be executed.
        """

    def start(self, plan: Any) -> None:
        """Start the motion; in the executor.

        Raises:
            NavigationRejected, TimeoutError: it cannot be started.
        """

    def refuse(self, error: Exception) -> None:
        """Report why it is not executed."""


@dataclass(frozen=True)
class _Waiting:
    request: NavigationRequest
    number: int
    deadline: float


class PendingGoals:
    """Plans requests, again until their frame is known, and starts them; in the executor.

    On a map of millions of cells a plan takes seconds, in which the executor of the process must
    serve others: with a map a thread plans.
    """

    def __init__(self, node: MotionNode[Any], has_map: Callable[[], bool]) -> None:
        """Create the timer of the retries.

        Args:
            node: the node.
            has_map: returns whether goals are planned on a map.
        """
        self._node, self._has_map = node, has_map
        self._waiting: list[_Waiting] = []
        self._count = self._started = 0
        self._planning = ThreadPoolExecutor(1, "goals")
        self._planned = ExecutorQueue(node)
        self._destroyed = False
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(RETRY_PERIOD, self._retry, clock=steady)
        self._timer.cancel()

    def begin(self, request: NavigationRequest) -> None:
        """Start a request now or within :data:`TRANSFORM_WAIT`; after that, refuse it."""
        self._count += 1
        self._plan(_Waiting(request, self._count, time.monotonic() + TRANSFORM_WAIT))

    def proceed(self, request: NavigationRequest) -> None:
        """Start the next motion of a request, unless a newer one was started."""
        self._plan(_Waiting(request, self._started, time.monotonic()))

    def destroy(self) -> None:
        """Discard waiting requests; their owner responds to them."""
        self._destroyed = True
        self._waiting.clear()
        self._planning.shutdown(wait=False, cancel_futures=True)
        self._node.destroy_timer(self._timer)
        self._planned.destroy()

    def _retry(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._plan(each)
        if not self._waiting:
            self._timer.cancel()

    def _plan(self, waiting: _Waiting) -> None:
        if waiting.request.ended:
            return
        if not self._has_map():
            self._start(waiting, waiting.request.plan)
            return

        def plan() -> None:
            try:
                found: Future[Any] = Future()
                found.set_result(waiting.request.plan())
            except Exception as error:
                found.set_exception(error)
            self._planned.submit(lambda: self._start(waiting, found.result))

        self._planning.submit(plan)

    def _start(self, waiting: _Waiting, planned: Callable[[], Any]) -> None:
        """Start a request with its plan, or plan it again later."""
        request = waiting.request
        if request.ended or self._destroyed:
            return
        try:
            if waiting.number < self._started:
                raise NavigationRejected(Codes.UNKNOWN, "a newer goal was accepted meanwhile")
            request.start(planned())
            self._started = waiting.number
        except FrameNotKnown as error:
            if time.monotonic() < waiting.deadline:
                self._waiting.append(waiting)
                self._timer.reset()
            else:
                request.refuse(error)
        except (NavigationRejected, TimeoutError) as error:
            request.refuse(error)
        except Exception as error:
            request.refuse(NavigationRejected(Codes.UNKNOWN, f"fault of the node: {error!r}"))
            raise
