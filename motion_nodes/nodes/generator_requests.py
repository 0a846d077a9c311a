# SPDX-License-Identifier: Apache-2.0
"""Requests of the trajectory generator: conversion from messages, and trajectory generation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes
from numpy.typing import NDArray

from motion_nodes.core.planning.cartesian import with_tool_speed
from motion_nodes.core.planning.path_verification import sweep_path
from motion_nodes.core.planning.planning_problem import in_words
from motion_nodes.core.planning.task_space_generator import (
    CSpacePathSpec,
    TaskSpaceTrajectoryGenerator,
    parse_path_spec,
    path_spec_of,
)
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import checked_waypoints
from motion_nodes.core.trajectory.joint_trajectory import Infeasible, JointTrajectory
from motion_nodes.core.trajectory.spline import timestamped_trajectory
from motion_nodes.core.trajectory.through_waypoints import through_waypoints
from motion_nodes.core.trajectory.timed_path import PathEfforts, TimedPath, effort_limits
from motion_nodes.errors import MotionError
from motion_nodes.nodes.generator_params import TrajectoryGeneratorParams, conversion_of, options_of
from motion_nodes.ros.current_state import CurrentStateMonitor
from motion_nodes.ros.messages.moveit_messages import (
    RequestRejected,
    is_constrained,
    joint_values,
    requested_group,
)
from motion_nodes.ros.messages.plan_messages import scaling
from motion_nodes.ros.messages.trajectory_messages import points_of, waypoints_of
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.scene.scene_follower import SceneFollower
from motion_nodes.typing import Array

Codes = MoveItErrorCodes
CHECK_STEP = 0.005
"""Time step of collision checks along a motion [s]."""
MAX_CHECKERS = 16
"""Max number of cached collision checkers, one for each order of joints."""
TOOL_STEP = 0.02
"""Time step of displayed tool paths [s]."""


@dataclass(frozen=True)
class GeneratedMotion:
    """Result of a request."""

    motion: TimedPath
    trajectory: JointTrajectory
    """Its points."""
    time: float
    """Computation time [s]."""
    note: str = ""
    """Note for the client; may be empty."""


class GeneratorRequests:
    """Generates trajectories of one robot; thread-safe."""

    def __init__(
        self,
        node: RobotNode[TrajectoryGeneratorParams],
        state: CurrentStateMonitor,
        follower: SceneFollower,
    ) -> None:
        """Create the request interface of a robot.

        Args:
            node: of the robot.
            state: of the robot.
            follower: of its planning scene.
        """
        self._node, self.robot = node, node.robot
        self._state, self._follower = state, follower
        robot = node.robot
        self._kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        self._checkers: dict[tuple[str, ...], CollisionChecker] = {}
        self._lock = threading.Lock()

    def _current(self) -> Array:
        """Return positions of all joints [rad or m], shape (n,); those of ``home`` if unknown."""
        q, _ = self._state.newest()
        return np.where(np.isfinite(q), q, self.robot.home)

    def from_waypoints(self, message: Any) -> GeneratedMotion:
        """Generate a motion through the points of a JointTrajectory, with or without times.

        Raises:
            MotionError: an invalid point, or a motion in collision.
        """
        begin = time.monotonic()
        params = self._node.params
        names, points, times = points_of(message, self.robot)
        check = _CollisionCheck(self, names)
        limits = self.robot.limits.select(names)
        if times.any():
            motion = timestamped_trajectory(points, times, limits, params.interpolation)
        else:
            options = options_of(params, check.is_free, efforts=self._efforts(names))
            motion = through_waypoints(points, limits, options)
        return self._sampled(motion, begin, check)

    def from_path_spec(self, text: str) -> GeneratedMotion:
        """Generate a motion along a task-space, joint-space or composite path.

        Args:
            text: path specification as YAML.

        Raises:
            MotionError: an invalid specification, or a path that cannot be followed.
        """
        begin = time.monotonic()
        params = self._node.params
        spec = path_spec_of(parse_path_spec(text, "path_spec"), "path_spec")
        group = requested_group(self.robot, params.group)
        check = _CollisionCheck(self, group.joints)
        options = options_of(params, check.is_free)
        if isinstance(spec, CSpacePathSpec):
            points = checked_waypoints(spec.waypoints, group.joints, least=2)
            options = replace(options, efforts=self._efforts(group.joints))
            motion = through_waypoints(points, self.robot.limits.select(group.joints), options)
            return self._sampled(motion, begin, check)
        generator = TaskSpaceTrajectoryGenerator(
            self.robot, group.name, check.is_free, config=conversion_of(params), options=options
        )
        tool = params.tool or None
        seed = self._current()[self.robot.indices(generator.joints_of(tool))]
        made = generator.compute_task_space_trajectory_from_path_spec(spec, tool, seed)
        if made is None:
            raise Infeasible(generator.failure)
        return self._sampled(made, begin, check)

    def retimed(self, request: Any) -> GeneratedMotion:
        """Generate a motion along the waypoints in a MotionPlanRequest.

        Raises:
            RequestRejected: an invalid request, or a motion in collision.
        """
        begin = time.monotonic()
        try:
            return self._retimed(request, begin)
        except RequestRejected:
            raise
        except MotionError as error:
            raise RequestRejected(Codes.INVALID_MOTION_PLAN, str(error)) from None

    def tool_poses(self, motion: TimedPath) -> Array:
        """Return poses of the tool along a motion in the robot's base frame, shape (k, 4, 4).

        Raises:
            RequestRejected: the robot has no tool frame.
        """
        params = self._node.params
        tool = params.tool or self._tip(params.group)
        step = max(TOOL_STEP, motion.duration / 1000.0)
        Q = np.tile(self._current(), (len(times := motion.sample_times(step)), 1))
        Q[:, self.robot.indices(motion.joint_names)] = motion.states(times)[0]
        return self._kinematics.pose_batch(Q, tool)

    def checker(self, joints: tuple[str, ...]) -> tuple[CollisionChecker, str]:
        """Return a checker of some joints for one request, and a note on its planning scene."""
        with self._lock:
            if joints not in self._checkers:
                if len(self._checkers) >= MAX_CHECKERS:
                    self._checkers.pop(next(iter(self._checkers)))
                self._checkers[joints] = CollisionChecker(self.robot, joints)
            checker = self._checkers[joints].snapshot()
        scene, note = self._follower.scene, self._follower.note
        checker.set_scene(scene)
        checker.set_positions(self._current())
        return checker, note

    @property
    def avoid_collisions(self) -> bool:
        """Whether motions in collision are rejected."""
        return self._node.params.avoid_collisions

    def _retimed(self, request: Any, begin: float) -> GeneratedMotion:
        _refuse_goals(request)
        names, points = waypoints_of(request, self.robot)
        if request.group_name:
            group = requested_group(self.robot, request.group_name)
            others = [name for name in names if name not in group.joints]
            if others:
                raise RequestRejected(
                    Codes.INVALID_GROUP_NAME,
                    f"group '{group.name}' has no joint {', '.join(others)}",
                )
        start = joint_values(request.start_state, self.robot, "start_state")
        if start:
            first = [start.get(name, points[0, k]) for k, name in enumerate(names)]
            points = np.vstack([[first], points])
        check = _CollisionCheck(self, names)
        notes: list[str] = []
        velocity, acceleration = scaling(request, notes)
        options = options_of(
            self._node.params,
            check.is_free,
            method=request.planner_id or "lines",
            velocity_scaling=velocity,
            acceleration_scaling=acceleration,
            efforts=self._efforts(names),
        )
        motion = through_waypoints(points, self.robot.limits.select(names), options)
        if request.max_cartesian_speed != 0.0:
            link = request.cartesian_speed_limited_link or self._tip(request.group_name)
            checker, _ = self.checker(names)
            motion = with_tool_speed(motion, checker, link, request.max_cartesian_speed)
        made = self._sampled(motion, begin, check)
        return replace(made, note="; ".join(filter(None, [made.note, *notes])))

    def _tip(self, name: str) -> str:
        """Return the tip of a group; empty for the only group with one."""
        group = requested_group(self.robot, name)
        if group.tip is None:
            raise RequestRejected(
                Codes.INVALID_LINK_NAME, f"group '{group.name}' has no tip; name a link"
            )
        return group.tip

    def _efforts(self, joints: tuple[str, ...]) -> PathEfforts | None:
        """Return the effort limits of joints; the others are assumed in their home positions."""
        return effort_limits(self.robot, joints, self.robot.home, self._node.params.effort_share)

    def _sampled(self, motion: TimedPath, begin: float, check: _CollisionCheck) -> GeneratedMotion:
        """Sample a motion, and check it for collisions."""
        trajectory = motion.points(self._node.params.time_step)
        check.validate(motion)
        return GeneratedMotion(motion, trajectory, time.monotonic() - begin, check.note)


class _CollisionCheck:
    """Collision checks of one request."""

    def __init__(self, requests: GeneratorRequests, joints: tuple[str, ...]) -> None:
        self.note = ""
        self._checker: CollisionChecker | None = None
        if requests.avoid_collisions:
            self._checker, self.note = requests.checker(tuple(joints))

    @property
    def is_free(self) -> Callable[[Array], NDArray[np.bool_]] | None:
        """Check of configurations (m, n), which returns shape (m,); None if disabled."""
        return None if self._checker is None else self._checker.exact.are_free

    def validate(self, motion: TimedPath) -> None:
        """Raise Infeasible for a motion in collision."""
        if self._checker is None:
            return
        times = motion.sample_times(CHECK_STEP)
        Q = motion.states(times)[0]
        order = [motion.joint_names.index(name) for name in self._checker.joint_names]
        sweep = sweep_path(self._checker, Q[:, order])
        if not sweep.free:
            contacts = in_words(self._checker, sweep.q)
            at = times[int(np.abs(Q[:, order] - sweep.q).max(axis=1).argmin())]
            raise Infeasible(f"collision {at:.3f} s after the start: {contacts}")


def _refuse_goals(request: Any) -> None:
    if request.goal_constraints or is_constrained(request.path_constraints):
        raise RequestRejected(
            Codes.INVALID_GOAL_CONSTRAINTS,
            "goal_constraints and path_constraints are only for planning (plan_kinematic_path); "
            "this service follows waypoints",
        )
