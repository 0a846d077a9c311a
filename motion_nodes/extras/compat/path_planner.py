# SPDX-License-Identifier: Apache-2.0
"""Path planner with the interface of Isaac Sim's motion generation (``compute_path``).

Its trajectories become joint commands of a robot: single actions or sequences.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.ik.problem import IkTolerance
from motion_nodes.core.planning.path_tools import interpolate
from motion_nodes.core.planning.pipeline import PlanOptions, plan
from motion_nodes.core.planning.planning_problem import (
    Goal,
    JointGoal,
    JointSpace,
    PlanRequest,
    PlanResult,
    PoseGoal,
)
from motion_nodes.core.planning.task_space_rrt import RrtConfig, TaskSpaceRrt, read_rrt_config
from motion_nodes.core.robot.limits import joint_indices
from motion_nodes.core.robot.poses import from_xyz_quat, inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.scene.world import World
from motion_nodes.core.trajectory.joint_trajectory import Infeasible, Trajectory
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError, UnknownFrame
from motion_nodes.extras.compat.obstacles import Obstacles
from motion_nodes.typing import Array

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ArticulationAction:
    """Joint command."""

    joint_positions: Array
    """Positions [rad or m], shape (n,)."""
    joint_velocities: Array
    """Velocities [rad/s or m/s], shape (n,)."""
    joint_names: tuple[str, ...]
    joint_indices: NDArray[np.intp]
    """Indices of the joints in the robot's order, shape (n,)."""


class ArticulationTrajectory:
    """A trajectory for some joints of a robot.

    Raises:
        UnknownJoint: the trajectory moves a joint that the robot does not have.
        InvalidConfig: a time step that is not finite and positive.
    """

    def __init__(
        self, robot_joints: Sequence[str], trajectory: Trajectory, physics_dt: float = 1.0 / 60.0
    ) -> None:
        """Map the trajectory's joints to the robot's.

        Args:
            robot_joints: names of the robot's joints, in its order.
            trajectory: the trajectory, with its joints in any order.
            physics_dt: default time step of sequences [s].

        Raises:
            UnknownJoint, InvalidConfig: see the class.
        """
        if not (math.isfinite(physics_dt) and physics_dt > 0.0):
            raise InvalidConfig(
                f"physics_dt is {physics_dt} s; it must be finite and above 0", field="physics_dt"
            )
        self.robot_joints = tuple(robot_joints)
        self.trajectory = trajectory
        self._step = physics_dt
        self._indices = joint_indices(trajectory.joint_names, self.robot_joints, "the robot")

    def get_trajectory_duration(self) -> float:
        """Return the duration [s]."""
        return self.trajectory.duration

    def get_active_joints_subset(self) -> tuple[str, ...]:
        """Return the joints of the trajectory, in the order of the actions."""
        return self.trajectory.joint_names

    def get_robot_articulation(self) -> tuple[str, ...]:
        """Return the joints of the robot, in its order."""
        return self.robot_joints

    def get_initial_action(self) -> ArticulationAction:
        """Return the required initial joint state."""
        return self.get_action_at_time(self.trajectory.start_time)

    def get_action_at_time(self, time: float) -> ArticulationAction:
        """Return the joint command at a time [s].

        Raises:
            Infeasible: a time outside the trajectory; a ValueError.
        """
        start, end = self.trajectory.start_time, self.trajectory.end_time
        if not start <= time <= end:
            raise Infeasible(
                f"time is {time} s; the trajectory lasts from {start:g} to {end:g} s", field="time"
            )
        position, velocity = self.trajectory.joint_targets(time)
        return ArticulationAction(position, velocity, self.trajectory.joint_names, self._indices)

    def get_action_sequence(self, timestep: float | None = None) -> list[ArticulationAction]:
        """Return actions from start to end, both included; the last step may be shorter.

        Args:
            timestep: time step [s]; None: the default.

        Raises:
            InvalidCommand: a step that is not finite and positive.
        """
        times = self.trajectory.sample_times(self._step if timestep is None else timestep)
        return [self.get_action_at_time(time) for time in times.tolist()]


class PathPlanner(Obstacles):
    """Plans collision-free paths of some joints of a robot to a target; not thread-safe.

    RRT-Connect plans to joint targets, the task-space RRT to targets of the end effector. Poses are
    in the world. Equal seeds, scenes and targets give equal paths.
    """

    def __init__(
        self,
        robot: Robot,
        joints: Sequence[str] | str,
        config: RrtConfig | str | Path | None = None,
        *,
        end_effector_frame_name: str = "",
        world: World | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Create the planner; may compile code on the first use of a robot.

        Args:
            robot: the robot.
            joints: active joints: names, or the name of a group. Others are watched.
            config: settings, or a settings file; default: those of :class:`RrtConfig`.
            end_effector_frame_name: link of the targets; empty: that of the settings, else the
                robot's tool.
            world: obstacles; default: an empty world.
            timeout: max planning time [s].

        Raises:
            UnknownJoint, UnknownGroup, UnknownFrame: lists the names.
            InvalidDescription, InvalidConfig: invalid settings.
        """
        super().__init__(world)
        self.robot, self._timeout = robot, timeout
        self._checker = CollisionChecker(robot, joints)
        notes: tuple[str, ...] = ()
        if isinstance(config, str | Path):
            config, notes = read_rrt_config(config)
        for note in notes:
            _LOG.warning("%s", note)
        self._first_config = self.config = config or RrtConfig()
        self._frame = end_effector_frame_name
        self._check_weights(self.config)
        _ = self.end_effector_frame
        self._goal: Goal | None = None
        self._X_WB: Array = np.eye(4)
        self._base_moved = False
        self.last: PlanResult | None = None
        """Result of the last call of :meth:`compute_path`; None: there was no target."""

    @property
    def end_effector_frame(self) -> str:
        """Link of the targets.

        Raises:
            UnknownFrame: lists the links.
        """
        frame = self._frame or self.config.task_space_frame_name or self.robot.tool_frame or ""
        if frame not in self.robot.tree.frame_names:
            raise UnknownFrame(frame, self.robot.tree.frame_names, self.robot.name)
        return frame

    def get_active_joints(self) -> list[str]:
        """Return the joints of paths, in the order of the columns."""
        return list(self._checker.joint_names)

    def get_watched_joints(self) -> list[str]:
        """Return the joints that are fixed during a path; their links may collide."""
        active = set(self._checker.joint_names)
        return [name for name in self.robot.joint_names if name not in active]

    def set_robot_base_pose(self, position: ArrayLike, quat_xyzw: ArrayLike) -> None:
        """Set the pose of the robot's base in the world.

        Args:
            position: position [m], shape (3,).
            quat_xyzw: orientation, shape (4,), or rotation matrix, shape (3, 3).

        Raises:
            InvalidCommand: invalid pose.
        """
        X_WB = pose_from(position, quat_xyzw)
        self._checker.set_base_pose(X_WB)
        self._X_WB, self._base_moved = X_WB, True

    def set_cspace_target(self, active_joint_targets: ArrayLike) -> None:
        """Set target joint positions [rad or m], shape (n,); clears the end effector's target.

        Raises:
            InvalidCommand: wrong length, or a value that is not finite.
        """
        space = JointSpace.of_robot(self.robot, self._checker.joint_names)
        self._goal = JointGoal(space.checked(active_joint_targets, "the target"))

    def set_end_effector_target(
        self, position: ArrayLike | None = None, orientation: ArrayLike | None = None
    ) -> None:
        """Set the target of the end effector; clears the joint target.

        Args:
            position: position in the world [m], shape (3,); None: unconstrained.
            orientation: quat_xyzw in the world, shape (4,), or rotation matrix, shape (3, 3); None:
                unconstrained. Both None: no target.

        Raises:
            InvalidCommand: invalid pose.
        """
        if position is None and orientation is None:
            self._goal = None
            return
        place = np.zeros(3) if position is None else position
        X_WT = pose_from(
            place, np.array([0.0, 0.0, 0.0, 1.0]) if orientation is None else orientation
        )
        task = self.config.task_space_planning_params
        tolerance = IkTolerance(
            math.inf if position is None else task.translation_target_final_tolerance,
            math.inf if orientation is None else task.orientation_target_final_tolerance,
        )
        # Targets are fixed in the world, even if the base moves before planning.
        self._goal = PoseGoal(self.end_effector_frame, X_WT, tolerance)

    def compute_path(
        self, active_joint_positions: ArrayLike, watched_joint_positions: ArrayLike = ()
    ) -> Array | None:
        """Plan a path to the target.

        Args:
            active_joint_positions: positions of the active joints [rad or m], shape (n,).
            watched_joint_positions: positions of the watched joints [rad or m], in the order of
                :meth:`get_watched_joints`; default: unchanged.

        Returns:
            Waypoints [rad or m], joined by straight lines, shape (k, n); None: no target, or no
            path (reason in ``last``).

        Raises:
            InvalidCommand: a wrong number of joint positions.
        """
        self._watch(watched_joint_positions)
        if self._goal is None:
            self.last = None
            return None
        self._checker.set_scene(self._scene())
        goal = self._goal
        if isinstance(goal, PoseGoal):
            task = self.config.task_space_planning_params
            position, turn = goal.tolerance.position, goal.tolerance.orientation
            final = IkTolerance(
                position if position == math.inf else task.translation_target_final_tolerance,
                turn if turn == math.inf else task.orientation_target_final_tolerance,
            )
            goal = replace(goal, X_BT=inverse(self._X_WB) @ np.asarray(goal.X_BT), tolerance=final)
        request = PlanRequest(
            self._checker,
            active_joint_positions,
            (goal,),
            timeout=self._timeout,
            random_seed=self.config.seed,
        )
        options = PlanOptions(planner=TaskSpaceRrt.name, settings=self.config, retime=False)
        self.last = plan(request, options).result
        if self.last.path is None:
            _LOG.warning("no path: %s", self.last.reason)
        return self.last.path

    def set_param(self, param_name: str, value: object) -> bool:
        """Set a parameter.

        Args:
            param_name: name, such as ``task_space_planning_params/gradient_substep_size``.
            value: its value.

        Returns:
            Whether it was set; False: an unknown name or invalid value, which is logged.
        """
        before = self.config
        try:
            self.config = before.with_param(param_name, value)
            self._check_weights(self.config)
            _ = self.end_effector_frame
        except MotionError as error:
            self.config = before
            _LOG.warning("%s", error)
            return False
        return True

    def set_random_seed(self, random_seed: int) -> bool:
        """Set the random seed."""
        return self.set_param("seed", random_seed)

    def set_max_iterations(self, max_iter: int) -> bool:
        """Set the max number of tree extensions."""
        return self.set_param("max_iterations", max_iter)

    def update_world(
        self, updated_obstacles: Iterable[str] | None = None, base_moved: bool = False
    ) -> bool:
        """Update the poses of obstacles; of all, including static ones, if the base moved.

        Arguments are those of :meth:`Obstacles.update_world`.
        """
        moved, self._base_moved = self._base_moved or base_moved, False
        return super().update_world(None if moved else updated_obstacles, moved)

    def reset(self) -> bool:
        """Reset obstacles, target and settings; keep base pose and watched joints."""
        self._goal, self.config = None, self._first_config
        return super().reset()

    def _scene(self) -> Scene:
        scene = self.world.scene
        if self.config.enable_self_collision_checking:
            return scene
        links = [body.link for body in self._checker.bodies if body.carried is None]
        return replace(scene, allowed=scene.allowed.with_pairs(combinations(links, 2)))

    def _watch(self, positions: ArrayLike) -> None:
        watched = self.get_watched_joints()
        values = np.asarray(positions, np.float64).ravel()
        if values.size not in (0, len(watched)):
            raise InvalidCommand(
                f"{values.size} positions were given for {len(watched)} watched joints: "
                f"{', '.join(watched) or 'there are none'}."
            )
        if values.size:
            self._checker.set_positions(dict(zip(watched, values.tolist(), strict=True)))

    def _check_weights(self, config: RrtConfig) -> None:
        weights = config.distance_metric_weights
        if weights and len(weights) != len(self._checker.joint_names):
            raise InvalidConfig(
                f"distance_metric_weights holds {len(weights)} numbers for "
                f"{len(self._checker.joint_names)} joints: {', '.join(self._checker.joint_names)}."
            )


def pose_from(position: ArrayLike, orientation: ArrayLike) -> Array:
    """Return a pose from a position and a quaternion or matrix.

    Raises:
        InvalidCommand: invalid values.
    """
    p, turn = np.asarray(position, np.float64), np.asarray(orientation, np.float64)
    if p.shape != (3,) or turn.shape not in ((4,), (3, 3)):
        raise InvalidCommand(
            f"a pose needs a position of 3 numbers and a quaternion (x, y, z, w) or matrix (3, 3); "
            f"got {position!r} and {orientation!r}.",
            field="pose",
        )
    if not (np.isfinite(p).all() and np.isfinite(turn).all()) or not turn.any():
        raise InvalidCommand(
            f"a pose needs finite numbers, got {position!r} and {orientation!r}.", field="pose"
        )
    if turn.shape == (4,):
        return from_xyz_quat(tuple(p), tuple(turn / np.linalg.norm(turn)))
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = turn, p
    if np.abs(turn @ turn.T - np.eye(3)).max() > 1e-6 or np.linalg.det(turn) < 0.0:
        raise InvalidCommand(f"a rotation matrix must be orthonormal, got {orientation!r}.")
    return X


class PathPlannerVisualizer:
    """Converts the path of a planner to a sequence of robot commands."""

    def __init__(self, planner: PathPlanner, joint_positions: Callable[[], ArrayLike]) -> None:
        """Create the converter.

        Args:
            planner: the planner.
            joint_positions: returns the positions of all joints of the planner's robot [rad or m],
                in the robot's order, shape (n,).
        """
        self._planner, self._joint_positions = planner, joint_positions

    def get_path_planner(self) -> PathPlanner:
        """Return the planner."""
        return self._planner

    def compute_plan_as_articulation_actions(
        self, max_cspace_dist: float = 0.05, *, max_c_space_dist: float | None = None
    ) -> list[ArticulationAction]:
        """Plan from the robot's current state, and return joint commands along the path.

        Args:
            max_cspace_dist: max step of a joint between two commands [rad or m].
            max_c_space_dist: older spelling of ``max_cspace_dist``.

        Returns:
            One command per configuration, from the current one; empty without a path.

        Raises:
            InvalidCommand: a wrong number of joint positions.
        """
        planner = self._planner
        now = np.asarray(self._joint_positions(), np.float64)
        names = planner.robot.joint_names
        active = planner.robot.indices(planner.get_active_joints())
        watched = planner.robot.indices(planner.get_watched_joints())
        if now.shape != (len(names),):
            raise InvalidCommand(
                f"{now.size} positions for {len(names)} joints: {', '.join(names)}."
            )
        path = planner.compute_path(now[active], now[watched])
        dense = self.interpolate_path(path, max_cspace_dist, max_c_space_dist=max_c_space_dist)
        joints = tuple(planner.get_active_joints())
        unsaid = np.full(len(joints), math.nan)
        return [ArticulationAction(q, unsaid, joints, active) for q in dense]

    def interpolate_path(
        self,
        path: ArrayLike | None,
        max_cspace_dist: float = 0.05,
        *,
        max_c_space_dist: float | None = None,
    ) -> Array:
        """Return a path with intermediate points, so that no step exceeds a distance.

        Args:
            path: waypoints [rad or m], shape (k, n), or None.
            max_cspace_dist: max step of a joint [rad or m].
            max_c_space_dist: older spelling of ``max_cspace_dist``.

        Returns:
            Configurations [rad or m], including the waypoints, shape (m, n); m = 0 without a path.
        """
        joints = self._planner.get_active_joints()
        if path is None or np.size(path) == 0:
            return np.empty((0, len(joints)))
        step = max_cspace_dist if max_c_space_dist is None else max_c_space_dist
        space = JointSpace.of_robot(self._planner.robot, joints)
        # Lines of a path stay as they are, also those of more than half a turn.
        straight = replace(space, wraps=np.zeros_like(space.wraps))
        return interpolate(straight, path, step)
