# SPDX-License-Identifier: Apache-2.0
"""Kinematics with the interface of Isaac Sim's ``KinematicsSolver``, and its articulation wrapper.

Any solver of :mod:`motion_nodes.core.ik.solvers` is behind it. Differences: solutions are free of
collisions with the robot and with obstacles that were added, and quaternions are (x, y, z, w)
by default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.ik.chain import IkChain, joints_between
from motion_nodes.core.ik.problem import (
    IkRequest,
    IkResult,
    IkSettings,
    IkSolver,
    IkTolerance,
    as_configurations,
)
from motion_nodes.core.ik.solvers import DEFAULT, make_solver
from motion_nodes.core.robot.import_robot import load_foreign
from motion_nodes.core.robot.kinematics import GroupKinematics
from motion_nodes.core.robot.limits import joint_indices
from motion_nodes.core.robot.poses import multiply
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidConfig, UnknownFrame
from motion_nodes.extras.compat.articulation_policy import Articulation
from motion_nodes.extras.compat.obstacles import Obstacles
from motion_nodes.extras.compat.path_planner import ArticulationAction, pose_from
from motion_nodes.typing import Array

QUATERNIONS = ("xyzw", "wxyz")


class KinematicsSolver(Obstacles):
    """Forward and inverse kinematics of any frame of a robot, in world coordinates."""

    def __init__(
        self,
        robot: Robot,
        joints: str | Sequence[str] = "arm",
        *,
        solver: str = DEFAULT,
        settings: IkSettings | None = None,
        world: World | None = None,
        quaternions: str = "xyzw",
    ) -> None:
        """Create the solver.

        Args:
            robot: the robot.
            joints: joints of configurations: names, or the name of a group. Others stay at home.
            solver: name of the IK solver.
            settings: of the solver; default tolerances: 1 mm and 0.01 rad.
            world: obstacles; default: an empty world.
            quaternions: order of given quaternions, ``xyzw`` or ``wxyz``, that of Isaac Sim.

        Raises:
            UnknownJoint, UnknownGroup: lists the names.
            InvalidConfig: an unknown solver or order.
        """
        super().__init__(world)
        if quaternions not in QUATERNIONS:
            raise InvalidConfig(
                f"quaternions is '{quaternions}'; allowed are {', '.join(QUATERNIONS)}.",
                field="quaternions",
            )
        self.robot, self._solver = robot, solver
        self._settings = settings or IkSettings()
        self._order = [1, 2, 3, 0] if quaternions == "wxyz" else [0, 1, 2, 3]
        self._checker = CollisionChecker(robot, joints)
        self._names = self._checker.joint_names
        self._kinematics = GroupKinematics(robot, self._names, robot.home)
        self._home = robot.home[joint_indices(self._names, robot.joint_names, robot.name)]
        self._seeds = np.empty((0, len(self._names)))
        self._solvers: dict[str, tuple[IkSolver, NDArray[np.intp]]] = {}
        self._X_WB: Array = np.eye(4)
        self.last: IkResult | None = None
        """Result of the last inverse kinematics, with the reason of a failure."""

    @classmethod
    def from_files(
        cls, robot_description_path: str | Path, urdf_path: str | Path | None = None
    ) -> KinematicsSolver:
        """Return the solver of a robot of Lula's robot description or XRDF.

        Its configurations have the joints of the description's c-space; it expects quaternions in
        the order (w, x, y, z), as ``LulaKinematicsSolver`` does.

        Args:
            robot_description_path: the description.
            urdf_path: the URDF; None: the one beside it.

        Raises:
            InvalidDescription: a file cannot be read.
        """
        urdf = None if urdf_path is None else Path(urdf_path)
        robot = load_foreign(Path(robot_description_path), urdf)
        return cls(robot, quaternions="wxyz")

    def get_joint_names(self) -> list[str]:
        """Return the joints of configurations, in their order."""
        return list(self._names)

    def get_all_frame_names(self) -> list[str]:
        """Return the frames for which kinematics are available."""
        return list(self.robot.tree.frame_names)

    def get_cspace_position_limits(self) -> tuple[Array, Array]:
        """Return lower and upper limits of the joints [rad or m], shape (n,) each."""
        limits = self.robot.limits.select(self._names)
        return limits.lower.copy(), limits.upper.copy()

    def set_robot_base_pose(self, robot_position: ArrayLike, robot_orientation: ArrayLike) -> None:
        """Set the pose of the robot's base frame in the world.

        Args:
            robot_position: position [m], shape (3,).
            robot_orientation: quaternion, shape (4,), or rotation matrix, shape (3, 3).

        Raises:
            InvalidCommand: an invalid pose.
        """
        X_WB = self._pose(robot_position, robot_orientation)
        self._checker.set_base_pose(X_WB)
        self._X_WB = X_WB

    def supports_collision_avoidance(self) -> bool:
        """Return True: solutions do not collide with the robot and with obstacles."""
        return True

    def compute_forward_kinematics(
        self, frame_name: str, joint_positions: ArrayLike, position_only: bool = False
    ) -> tuple[Array, Array]:
        """Return the pose of a frame in the world.

        Args:
            frame_name: the frame.
            joint_positions: positions in the order of :meth:`get_joint_names` [rad or m], (n,).
            position_only: the rotation is not needed; it is returned all the same.

        Returns:
            Position [m], shape (3,), and rotation matrix, shape (3, 3).

        Raises:
            UnknownFrame: lists the frames.
            InvalidCommand: a wrong number of positions, or not finite.
        """
        self._check_frame(frame_name)
        q = as_configurations(joint_positions, self._names, "joint_positions")[0]
        X_WF = multiply(self._X_WB, self._kinematics.pose(q, frame_name))
        return X_WF[:3, 3].copy(), X_WF[:3, :3].copy()

    def compute_inverse_kinematics(
        self,
        frame_name: str,
        target_position: ArrayLike,
        target_orientation: ArrayLike | None = None,
        warm_start: ArrayLike | None = None,
        position_tolerance: float | None = None,
        orientation_tolerance: float | None = None,
    ) -> tuple[Array, bool]:
        """Return joint positions for a pose of a frame.

        Args:
            frame_name: the frame.
            target_position: its position in the world [m], shape (3,).
            target_orientation: its quaternion in the world, shape (4,), or matrix, shape (3, 3);
                None: any.
            warm_start: positions to start from, usually the current ones [rad or m], shape (n,);
                default: the first default seed, else home. Joints that do not move the frame keep
                these.
            position_tolerance: max position error [m]; None: the default.
            orientation_tolerance: max rotation error [rad]; None: the default.

        Returns:
            Positions in the order of :meth:`get_joint_names` [rad or m], shape (n,), and whether
            they reach the pose; if not, they are the closest found (reason in ``last``).

        Raises:
            UnknownFrame: lists the frames.
            InvalidConfig: no joint moves the frame, or an invalid tolerance.
            InvalidCommand: an invalid pose or warm start.
        """
        free = target_orientation is None
        X_WT = self._pose(target_position, np.eye(3) if free else target_orientation)
        usual = self._settings.tolerance
        tolerance = IkTolerance(
            usual.position if position_tolerance is None else position_tolerance,
            math.inf if free
            else usual.orientation if orientation_tolerance is None
            else orientation_tolerance,
        )  # fmt: skip
        near = self._seeds[0] if len(self._seeds) else self._home
        if warm_start is not None:
            near = as_configurations(warm_start, self._names, "warm_start")[0]
        solver, columns = self._solver_of(frame_name)
        self._checker.set_scene(self.world.scene)
        q = near.copy()

        def whole(part: Array) -> Array:
            q[columns] = part
            return q

        self.last = solver.solve(
            IkRequest(
                X_WT,
                seed=near[columns],
                initial_guesses=self._seeds[:, columns],
                base_pose=self._X_WB,
                validity=lambda part: self._checker.exact.is_free(whole(part)) or "collision",
                settings=replace(self._settings, tolerance=tolerance),
            )
        )
        return whole(self.last.q).copy(), self.last.success

    def set_max_iterations(self, max_iterations: int) -> None:
        """Set the max number of iterations of one inverse kinematics, after which it fails.

        Raises:
            InvalidConfig: it is not a whole number of at least 1.
        """
        self._settings = replace(self._settings, max_iterations=max_iterations)

    def get_max_iterations(self) -> int | None:
        """Return the max number of iterations; None: only the timeout counts."""
        return self._settings.max_iterations

    def set_default_position_tolerance(self, tolerance: float) -> None:
        """Set the max position error [m].

        Raises:
            InvalidConfig: it is not above 0.
        """
        self._set_tolerance(position=tolerance)

    def set_default_orientation_tolerance(self, tolerance: float) -> None:
        """Set the max rotation error [rad].

        Raises:
            InvalidConfig: it is not above 0.
        """
        self._set_tolerance(orientation=tolerance)

    def get_default_position_tolerance(self) -> float:
        """Return the max position error [m]."""
        return float(self._settings.tolerance.lengths[0])

    def get_default_orientation_tolerance(self) -> float:
        """Return the max rotation error [rad]."""
        return float(self._settings.tolerance.lengths[1])

    def set_default_cspace_seeds(self, seeds: ArrayLike) -> None:
        """Set configurations from which searches start [rad or m], shape (m, n).

        Raises:
            InvalidCommand: another shape, or not finite.
        """
        self._seeds = as_configurations(seeds, self._names, "seeds")

    def get_default_cspace_seeds(self) -> Array:
        """Return the configurations from which searches start [rad or m], shape (m, n)."""
        return self._seeds.copy()

    def _set_tolerance(self, **values: float) -> None:
        tolerance = replace(self._settings.tolerance, **values)
        self._settings = replace(self._settings, tolerance=tolerance)

    def _pose(self, position: ArrayLike, orientation: ArrayLike | None) -> Array:
        turn = np.asarray(orientation, np.float64)
        return pose_from(position, turn[self._order] if turn.shape == (4,) else turn)

    def _check_frame(self, name: str) -> None:
        if name not in self.robot.tree.frame_names:
            raise UnknownFrame(name, self.robot.tree.frame_names, self.robot.name)

    def _solver_of(self, frame: str) -> tuple[IkSolver, NDArray[np.intp]]:
        """Return the solver of a frame, and the columns of its joints."""
        self._check_frame(frame)
        if frame not in self._solvers:
            robot = self.robot
            between = joints_between(robot.tree, robot.base_frame, frame)
            names = [name for name in between if name in self._names]
            if not names:
                raise InvalidConfig(
                    f"none of the joints {', '.join(self._names)} moves '{frame}'.", field=frame
                )
            others = zip(robot.joint_names, robot.home.tolist(), strict=True)
            chain = IkChain(
                robot.tree, robot.base_frame, frame, names, limits=robot.limits,
                fixed={name: q for name, q in others if name not in names},
            )  # fmt: skip
            columns = joint_indices(chain.joint_names, self._names, robot.name)
            self._solvers[frame] = make_solver(chain, self._solver, self._settings), columns
        return self._solvers[frame]


class ArticulationKinematicsSolver:
    """Kinematics of one frame of a robot at its current joint positions.

    Without robot: :class:`motion_nodes.core.ik.tool_goal.ArticulationIk`.
    """

    def __init__(
        self,
        robot_articulation: Articulation,
        kinematics_solver: KinematicsSolver,
        end_effector_frame_name: str,
    ) -> None:
        """Connect a solver to a robot, which may have more joints in another order.

        Args:
            robot_articulation: the robot.
            kinematics_solver: the solver.
            end_effector_frame_name: frame of the poses.

        Raises:
            UnknownJoint: the robot does not have a joint of the solver.
            UnknownFrame: lists the frames.
        """
        self._robot, self._solver = robot_articulation, kinematics_solver
        names = tuple(robot_articulation.joint_names)
        self._indices = joint_indices(kinematics_solver.get_joint_names(), names, "the robot")
        self.set_end_effector_frame(end_effector_frame_name)

    def set_end_effector_frame(self, end_effector_frame_name: str) -> None:
        """Set the frame of the poses.

        Raises:
            UnknownFrame: lists the frames.
        """
        frames = self._solver.get_all_frame_names()
        if end_effector_frame_name not in frames:
            raise UnknownFrame(end_effector_frame_name, frames, self._solver.robot.name)
        self._frame = end_effector_frame_name

    def get_end_effector_frame(self) -> str:
        """Return the frame of the poses."""
        return self._frame

    def get_kinematics_solver(self) -> KinematicsSolver:
        """Return the solver."""
        return self._solver

    def get_joints_subset(self) -> tuple[str, ...]:
        """Return the joints of the actions, in their order."""
        return tuple(self._solver.get_joint_names())

    def compute_end_effector_pose(self, position_only: bool = False) -> tuple[Array, Array]:
        """Return the current pose of the frame in the world.

        Args:
            position_only: see :meth:`KinematicsSolver.compute_forward_kinematics`.

        Returns:
            Position [m], shape (3,), and rotation matrix, shape (3, 3).

        Raises:
            InvalidCommand: the robot's state is not finite.
        """
        return self._solver.compute_forward_kinematics(self._frame, self._now(), position_only)

    def compute_inverse_kinematics(
        self,
        target_position: ArrayLike,
        target_orientation: ArrayLike | None = None,
        position_tolerance: float | None = None,
        orientation_tolerance: float | None = None,
    ) -> tuple[ArticulationAction, bool]:
        """Return the joint command that moves the frame to a pose, from the current positions.

        Arguments and errors are those of :meth:`KinematicsSolver.compute_inverse_kinematics`.

        Returns:
            The command, and whether it reaches the pose; if not, it is the current positions.
        """
        now = self._now()
        q, success = self._solver.compute_inverse_kinematics(
            self._frame, target_position, target_orientation, now,
            position_tolerance, orientation_tolerance,
        )  # fmt: skip
        unsaid = np.full(len(q), math.nan)
        names = self.get_joints_subset()
        return ArticulationAction(q if success else now, unsaid, names, self._indices), success

    def _now(self) -> Array:
        positions = np.asarray(self._robot.joint_positions(), np.float64)[self._indices]
        names = self._solver.get_joint_names()
        now: Array = as_configurations(positions, names, "the robot's state")[0]
        return now
