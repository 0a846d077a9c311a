# SPDX-License-Identifier: Apache-2.0
"""Trajectories along tool paths.

Tool and joint paths from files.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.chain import IkChain, joints_between
from motion_nodes.core.planning.composite_path import (
    CompositePathSpec,
    CSpacePathSpec,
    TransitionMode,
)
from motion_nodes.core.planning.task_space_conversion import (
    ConvertedPath,
    PathConversionConfig,
    PathConverter,
)
from motion_nodes.core.planning.task_space_path_spec import TaskSpacePathSpec
from motion_nodes.core.robot.files.path_spec_yaml import (
    CSpaceEntry,
    LinearEntry,
    PathSpecEntry,
    RotationEntry,
    TangentArcEntry,
    TaskSpaceEntry,
    ThreePointArcEntry,
    TranslationEntry,
    pieces_of,
    read_path_spec,
)
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.trajectory.joint_path import FreeCheck
from motion_nodes.core.trajectory.joint_trajectory import Infeasible
from motion_nodes.core.trajectory.through_waypoints import JointTrajectoryGenerator, WaypointOptions
from motion_nodes.core.trajectory.time_parameterization import scaled_limits, time_optimal
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription

PathSpec = TaskSpacePathSpec | CSpacePathSpec | CompositePathSpec


class TaskSpaceTrajectoryGenerator(JointTrajectoryGenerator):
    """Generates trajectories for a group of a robot from paths of its tool.

    Time-optimal within the limits; tolerances are those of
    :class:`~motion_nodes.core.planning.task_space_conversion.PathConversionConfig`. The setters of
    joint limits are inherited.
    """

    def __init__(
        self,
        robot: Robot,
        group: str,
        is_free: FreeCheck | None = None,
        *,
        config: PathConversionConfig | None = None,
        options: WaypointOptions | None = None,
    ) -> None:
        """Create with the limits of a robot's group.

        Args:
            robot: the robot.
            group: a chain of it.
            is_free: collision check of the joint path; None: no check.
            config: settings of the conversion; None: the default.
            options: its scalings and jerk limits are used; None: full limits.
        """
        chain = IkChain.of_group(robot, group)
        super().__init__(robot.limits.select(chain.joint_names))
        self._robot, self._is_free = robot, is_free
        self._chains = {chain.tip: chain}
        self._base, self._default = chain.base, chain.tip
        self._config = config or PathConversionConfig()
        self._options = options or WaypointOptions()
        self.last: ConvertedPath | None = None
        """Result of the last conversion: converted fraction, and why it ended early."""

    def get_all_frame_names(self) -> tuple[str, ...]:
        """Return the frames of the robot; those moved by the group can follow a path."""
        return self._robot.tree.frame_names

    def get_path_conversion_config(self) -> PathConversionConfig:
        """Return the settings of the conversion."""
        return self._config

    def set_path_conversion_param(self, name: str, value: float) -> bool:
        """Set a parameter of the conversion; return False if it is unknown or the value invalid."""
        if name not in {field.name for field in dataclasses.fields(self._config)}:
            return False
        try:
            self._config = PathConversionConfig(
                **(dataclasses.asdict(self._config) | {name: value})
            )
        except (InvalidConfig, TypeError):
            return False
        return True

    def compute_task_space_trajectory_from_points(
        self,
        positions: ArrayLike,
        quats_xyzw: ArrayLike,
        frame: str | None = None,
        seed: ArrayLike | None = None,
    ) -> TimedPath | None:
        """Return the trajectory along straight lines with uniform rotation between orientations.

        Args:
            positions: in the group's base [m], shape (k, 3), k >= 2; repeated poses are skipped.
            quats_xyzw: orientations in the group's base, shape (k, 4).
            frame: the controlled frame; None: the group's tip.
            seed: initial joint positions, shape (n,).

        Returns:
            The trajectory, or None; with the reason in :attr:`failure`.
        """
        points, quats = np.asarray(positions, float), np.asarray(quats_xyzw, float)
        if points.ndim != 2 or points.shape[1:] != (3,) or quats.shape != (len(points), 4):
            raise InvalidCommand(
                f"positions have shape {points.shape} and quaternions {quats.shape}; they must be "
                "(k, 3) and (k, 4)"
            )
        if len(points) < 2:
            raise InvalidCommand(f"{len(points)} point given; a path needs at least 2")
        try:
            poses = [from_xyz_quat(p, q) for p, q in zip(points, quats, strict=True)]
        except ValueError as error:
            raise InvalidCommand(str(error)) from None
        spec = TaskSpacePathSpec(poses[0])
        for pose in poses[1:]:
            if not np.allclose(pose, spec.final_pose, rtol=0.0, atol=1e-6):
                spec.add_linear_path(pose)
        return self.compute_task_space_trajectory_from_path_spec(spec, frame, seed)

    def compute_task_space_trajectory_from_path_spec(
        self,
        spec: TaskSpacePathSpec | CompositePathSpec,
        frame: str | None = None,
        seed: ArrayLike | None = None,
    ) -> TimedPath | None:
        """Return the trajectory along a path.

        Args:
            spec: poses are in the group's base.
            frame: the controlled frame; None: the group's tip.
            seed: initial joint positions, shape (n,); composite paths have their own.

        Returns:
            The trajectory, or None; :attr:`failure` then has the reason, and :attr:`last` the joint
            positions up to there.
        """
        converter = PathConverter(self._chain(frame), self._config, self._is_free)
        limits = scaled_limits(
            self.limits.select(converter.chain.joint_names),
            self._options.velocity_scaling,
            self._options.acceleration_scaling,
            self._options.jerk_limited,
        )

        def make() -> TimedPath:
            if isinstance(spec, CompositePathSpec):
                self.last = spec.convert(converter)
            else:
                self.last = converter.convert(spec.path(), seed)
            if self.last.path is None or self.last.reason:
                raise Infeasible(self.last.reason)
            return time_optimal(self.last.path, limits)

        return self._attempt(make)

    def joints_of(self, frame: str | None = None) -> tuple[str, ...]:
        """Return the joints that move a frame; None: the group's tip."""
        return self._chain(frame).joint_names

    def _chain(self, frame: str | None) -> IkChain:
        """Return the chain to a frame (cached): those of the group's joints that move it."""
        tip = frame or self._default
        if tip not in self._chains:
            group = self._chains[self._default]
            every = joints_between(self._robot.tree, self._base, tip)
            joints = [name for name in every if name in group.joint_names]
            others = zip(self._robot.joint_names, self._robot.home, strict=True)
            fixed = {name: float(q) for name, q in others if name not in joints}
            self._chains[tip] = IkChain(
                self._robot.tree,
                self._base,
                tip,
                joints or group.joint_names,
                limits=self._robot.limits,
                fixed=fixed,
            )
        return self._chains[tip]


def load_path_spec(file: Path | str) -> PathSpec:
    """Return the path of a YAML file, see :mod:`motion_nodes.core.robot.files.path_spec_yaml`.

    Raises:
        InvalidDescription: invalid file format, or invalid path.
    """
    return path_spec_of(read_path_spec(file), str(file))


def path_spec_of(entry: PathSpecEntry, where: str = "path") -> PathSpec:
    """Return the path described by the content of a file.

    Args:
        entry: the content.
        where: for errors.

    Raises:
        InvalidDescription: it describes no valid path.
    """
    try:
        if entry.task_space is not None:
            return _task_space(entry.task_space, where)
        if entry.c_space is not None:
            return _c_space(entry.c_space)
        assert entry.composite is not None
        spec = CompositePathSpec(entry.composite.start)
        for part in entry.composite.parts:
            mode = TransitionMode(part.mode)
            if part.task_space is not None:
                spec.add_task_space_path_spec(_task_space(part.task_space, where), mode)
            elif part.c_space is not None:
                spec.add_c_space_path_spec(_c_space(part.c_space), mode)
        return spec
    except (InvalidCommand, ValueError) as error:
        if isinstance(error, InvalidDescription):
            raise
        raise InvalidDescription(f"{where}: {error}", field=getattr(error, "field", "")) from None


def _c_space(entry: CSpaceEntry) -> CSpacePathSpec:
    spec = CSpacePathSpec(entry.start)
    for waypoint in entry.waypoints:
        spec.add_c_space_waypoint(waypoint)
    return spec


def _task_space(entry: TaskSpaceEntry, where: str) -> TaskSpacePathSpec:
    spec = TaskSpacePathSpec(from_xyz_quat(entry.start.position, entry.start.quat_xyzw))
    for _, piece in pieces_of(entry, where):
        _add(spec, piece)
    return spec


def _add(spec: TaskSpacePathSpec, piece: object) -> None:
    """Add a segment to a path."""
    match piece:
        case LinearEntry():
            pose = from_xyz_quat(piece.position, piece.quat_xyzw)
            spec.add_linear_path(pose, piece.blend_radius)
        case TranslationEntry():
            spec.add_translation(piece.position, piece.blend_radius)
        case RotationEntry():
            spec.add_rotation(from_xyz_quat((0.0, 0.0, 0.0), piece.quat_xyzw)[:3, :3])
        case ThreePointArcEntry(quat_xyzw=None):
            spec.add_three_point_arc(piece.target, piece.mid, piece.orientation == "constant")
        case ThreePointArcEntry():
            assert piece.quat_xyzw is not None
            pose = from_xyz_quat(piece.target, piece.quat_xyzw)
            spec.add_three_point_arc_with_orientation_target(pose, piece.mid)
        case TangentArcEntry(quat_xyzw=None):
            spec.add_tangent_arc(piece.target, piece.orientation == "constant")
        case TangentArcEntry():
            assert piece.quat_xyzw is not None
            pose = from_xyz_quat(piece.target, piece.quat_xyzw)
            spec.add_tangent_arc_with_orientation_target(pose)
