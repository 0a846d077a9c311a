# SPDX-License-Identifier: Apache-2.0
"""What clients ask of the base navigator: from messages to motions in a frame.

Planning a long path takes a while and is done in the executor; only the start is for the loop.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Any, Protocol

from nav2_msgs.action import FollowPath as FollowPathAction

from motion_nodes.base_navigation.approaches import ApproachConfig, motion_to_pose
from motion_nodes.base_navigation.base_motion import BaseMotion
from motion_nodes.base_navigation.follow_path import LAWS, FollowPath
from motion_nodes.base_navigation.navigator import NavigationTask
from motion_nodes.base_navigation.planar_path import PlanarPath
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.errors import InvalidCommand, MotionError, did_you_mean
from motion_nodes.nodes.navigation.navigator_params import NavigatorParams
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.planar_messages import frame_of, pose2_from, poses_from
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.transform_tree import TransformTree

Codes = FollowPathAction.Result

TRANSFORM_WAIT = 0.5
"""[s] How long a goal waits for the transform of its frame."""

DEFAULT_LAW = ("", "FollowPath")
"""Names under which clients ask for the server's usual law; Nav2's is called FollowPath."""


class Refused(MotionError):
    """A request that cannot be carried out; ``code`` is the actions' error code."""

    def __init__(self, code: int, text: str) -> None:
        """Keep both."""
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Plan:
    """A motion that is ready to begin."""

    motion: BaseMotion
    path: PlanarPath
    """The way it will take."""
    frame: str
    """Frame of both; it stands still, or drifts against the odometry as a map does."""


@dataclass(frozen=True)
class NavigationProgress:
    """How the task under way stands."""

    pose: Pose2
    """Of the base in the frame of the goal."""
    remaining: float
    """[m]"""
    speed: float
    """[m/s]"""
    time_remaining: float
    """[s]"""


class NavigationHost(Protocol):
    """The navigator behind its endpoints."""

    tree: TransformTree

    @property
    def node(self) -> MotionNode[Any]:
        """The node itself; its parameters are NavigatorParams."""

    @property
    def odom_frame(self) -> str:
        """Frame of the odometry."""

    @property
    def base_frame(self) -> str:
        """Frame of the base."""

    def config(self) -> ApproachConfig:
        """Return how the base is to be moved."""

    def where(self) -> Pose2:
        """Return where the base is in the frame of the odometry.

        Raises:
            MotionError: that is not known; says why.
        """

    def begin(self, plan: Plan, label: str) -> NavigationTask:
        """Start a motion; for use in the loop alone."""

    def cancel(self, task: NavigationTask) -> None:
        """Bring the base to rest if it still carries out a task; for use in the loop alone."""

    def progress(self) -> NavigationProgress:
        """Return how the task under way stands."""

    def frame_pose(self, frame: str) -> Pose2:
        """Return where the frame of the odometry is in another one.

        Raises:
            MotionError: nothing connects them, or nothing newer than transform_timeout.
        """


def plan_to_pose(host: NavigationHost, stamped: Any) -> Plan:
    """Return a motion to the pose of a geometry_msgs/PoseStamped.

    Raises:
        Refused: says why.
    """
    try:
        frame = frame_of(stamped, "the goal")
        goal = pose2_from(stamped.pose, "the goal")
    except InvalidCommand as error:
        raise Refused(Codes.INVALID_PATH, str(error)) from None
    frame, (goal,) = _in_steady_frame(host, frame, [goal], stamped)
    start = _start(host, frame)
    try:
        motion, path = motion_to_pose(start, goal, host.config())
    except InvalidCommand as error:
        raise Refused(Codes.NO_VALID_CONTROL, str(error)) from None
    return Plan(motion, path, frame)


def plan_along(host: NavigationHost, message: Any, controller_id: str) -> Plan:
    """Return a motion along a nav_msgs/Path.

    Raises:
        Refused: says why.
    """
    config = host.config()
    follow = config.follow
    if controller_id in LAWS:
        follow = dataclasses.replace(follow, law=controller_id)
    elif controller_id not in DEFAULT_LAW:
        raise Refused(
            Codes.INVALID_CONTROLLER,
            f"controller_id '{controller_id}' is not known.{did_you_mean(controller_id, LAWS)} "
            "Empty means the parameter tracking_law.",
        )
    try:
        frame, poses = poses_from(message)
        frame, poses = _in_steady_frame(host, frame, poses, message)
        path = PlanarPath(poses)
        motion = FollowPath(config.kind, path, follow)
        motion.check_start(_start(host, frame))
        if tight := motion.too_tight():
            host.node.warn("tight", tight)
    except InvalidCommand as error:
        raise Refused(Codes.INVALID_PATH, str(error)) from None
    return Plan(motion, path, frame)


def check_age(host: NavigationHost, message: Any, what: str) -> None:
    """Refuse a message that was sent long ago; a stamp of 0 is now.

    Raises:
        Refused: says how old it is.
    """
    params: NavigatorParams = host.node.params
    stamp = stamp_ns(message)
    age = (host.node.now_ns() - stamp) * 1e-9
    if stamp and age > params.goal_timeout:
        raise Refused(
            Codes.INVALID_PATH,
            f"{what} is {age:.1f} s old by its stamp; allowed is goal_timeout, "
            f"{params.goal_timeout:g} s (does its sender use another use_sim_time?)",
        )


def _start(host: NavigationHost, frame: str) -> Pose2:
    try:
        return host.frame_pose(frame).compose(host.where())
    except MotionError as error:
        raise Refused(Codes.TF_ERROR, str(error)) from None


def _in_steady_frame(
    host: NavigationHost, frame: str, poses: list[Pose2], message: Any
) -> tuple[str, list[Pose2]]:
    """Return poses in a frame that does not move with the base: the odometry's for one that does.

    Raises:
        Refused: for a frame that is not known, or poses that are too old to say where they are now.
    """
    if frame == host.odom_frame:
        return frame, poses
    X_BF = Pose2() if frame == host.base_frame else _on_the_base(host, frame)
    if X_BF is None:
        return frame, poses
    check_age(host, message, f"a goal in frame '{frame}', which moves with the base,")
    X_OF = _start(host, host.odom_frame).compose(X_BF)
    return host.odom_frame, [X_OF.compose(pose) for pose in poses]


def _on_the_base(host: NavigationHost, frame: str) -> Pose2 | None:
    """Return where a frame is on the base; None for one elsewhere, connected with the odometry.

    Raises:
        Refused: for a frame that is neither, after having waited for it.
    """
    tree, end = host.tree, time.monotonic() + TRANSFORM_WAIT
    while True:
        tree.update()
        try:
            if tree.is_below(frame, host.base_frame):
                return planar(tree.pose(host.base_frame, frame)[0])
            host.frame_pose(frame)
            return None
        except MotionError as error:
            if time.monotonic() > end:
                raise Refused(Codes.TF_ERROR, str(error)) from None
            time.sleep(0.02)


def planar(X: Any) -> Pose2:
    """Return a (4, 4) pose seen from above."""
    return Pose2(float(X[0, 3]), float(X[1, 3]), math.atan2(float(X[1, 0]), float(X[0, 0])))
