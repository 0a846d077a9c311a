# SPDX-License-Identifier: Apache-2.0
"""What the viewer needs to know about one robot: its model, its name and where it stands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array, KinematicTree, frozen
from motion_nodes.scene.robot_spheres import CollisionBody, link_bodies

RMPFLOW, IK, PLANNER = "RMPflow", "IK", "planner"
"""Who can follow a target that is dragged."""

RIGID_TOLERANCE = 1e-6
"""How far a given pose may be from a rigid one before it is refused."""


class ViewedModel(Protocol):
    """The part of a loaded robot that is drawn and shown on the panel."""

    @property
    def name(self) -> str:
        """Name of the robot model."""

    @property
    def kind(self) -> str:
        """What it is: ``arm``, ``differential``, ``holonomic`` or ``ackermann``."""

    @property
    def tree(self) -> KinematicTree:
        """Links, joints and shapes."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Actuated joints: the order of ``q``."""

    @property
    def home(self) -> Array:
        """Positions drawn before the first state comes [rad or m], shape (n,)."""

    def mesh_path(self, filename: str) -> Path:
        """Return the file behind a mesh name of the URDF; raises a MotionError for none."""


@dataclass(frozen=True)
class ViewedRobot:
    """One robot in the viewer.

    Raises:
        InvalidConfig: for a name that is empty or holds a slash inside, a placement that is no
            pose, or a speed that is not positive.
        UnknownJoint: for a slider or steering joint that the robot does not have.
    """

    model: ViewedModel
    name: str = ""
    """What the callbacks and updates call it, such as its ROS namespace; the model's name if
    empty."""
    X_WR: Array = field(default_factory=lambda: np.eye(4))
    """Where its root link stands in the world until the first base update, shape (4, 4)."""
    named_states: Sequence[str] = ()
    """States that get a button."""
    sliders: Sequence[str] | None = None
    """Joints that get a slider. None: all actuated ones, but on a wheeled base no endless ones,
    because wheels obey speeds, not positions."""
    drive: bool | None = None
    """Whether it gets a drive pad. None: when its kind is not ``arm``."""
    steering: Sequence[str] = ()
    """Steering joints, left one first, whose angles stand beside the drive pad."""
    tool: str = ""
    """Link whose way a planned path shows; empty for a robot that is not planned for."""
    scene_frame: str = ""
    """Link in whose frame the objects of its planning scene stand; the root link if empty."""
    bodies: Callable[[], Iterable[CollisionBody]] | None = None
    """Returns its collision spheres, when they are first asked for."""
    followers: Sequence[str] = ()
    """Who can bring the tool to a dragged target, the usual one first; none: there is no target."""
    gripper: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Joints of a gripper and where each is closed and open [rad or m]; they get one slider."""
    limits: JointLimits | None = None
    """Of its joints; those of its tree if None."""
    edits_scene: bool = False
    """Whether people may change its planning scene on the page."""
    max_linear: float = 1.0
    """Upper end of the drive pad's speed slider [m/s]."""
    max_angular: float = 2.0
    """Upper end of the drive pad's turn rate slider [rad/s]."""

    def __post_init__(self) -> None:
        """Fill in what follows from the model, and check the rest."""
        name = (self.name or self.model.name).strip("/")
        if not name or any(character.isspace() for character in name):
            raise InvalidConfig(f"'{self.name}' is no name for a viewed robot: give one word.")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "X_WR", checked_pose(self.X_WR, f"{name}: placement X_WR"))
        drive = self.model.kind != "arm" if self.drive is None else self.drive
        object.__setattr__(self, "drive", drive)
        object.__setattr__(self, "sliders", self._slider_joints(drive))
        self._check_joints(self.steering)
        self._check_joints(tuple(self.gripper))
        if self.limits is None:
            object.__setattr__(self, "limits", JointLimits.of_tree(self.model.tree))
        for frame in filter(None, (self.tool, self.scene_frame)):
            if frame not in self.model.tree.frame_names:
                raise UnknownFrame(frame, self.model.tree.frame_names, name)
        for label, speed in (("linear", self.max_linear), ("angular", self.max_angular)):
            if not (np.isfinite(speed) and speed > 0.0):
                raise InvalidConfig(
                    f"{name}: max_{label} is {speed}; it must be finite and positive."
                )

    @classmethod
    def of(
        cls,
        robot: Robot,
        name: str = "",
        X_WR: Array | None = None,
        *,
        followers: Sequence[str] = (),
        edits_scene: bool = False,
    ) -> ViewedRobot:
        """Return a robot with all that its description says.

        Sliders are for the joints that a joint controller leads, speeds go up to those of its base.
        """
        base = robot.base
        tools = [group.tip for group in robot.groups.values() if group.tip is not None]
        speeds = (base.linear.x.max_velocity, base.angular.z.max_velocity) if base else (1.0, 2.0)
        return cls(
            robot,
            name,
            np.eye(4) if X_WR is None else X_WR,
            named_states=robot.state_names,
            sliders=robot.arm_joints,
            steering=base.steering_names if base else (),
            tool=tools[0] if tools else "",
            scene_frame=robot.base_frame,
            bodies=functools.partial(link_bodies, robot),
            followers=followers if tools else (),
            gripper=_gripper(robot),
            limits=robot.limits,
            edits_scene=edits_scene and bool(tools),
            max_linear=speeds[0],
            max_angular=speeds[1],
        )

    def _slider_joints(self, drive: bool) -> tuple[str, ...]:
        """Return the joints that get a slider."""
        if self.sliders is None:
            joint = self.model.tree.joint
            return tuple(
                name
                for name in self.model.joint_names
                if not drive or np.isfinite(joint(name).upper)
            )
        self._check_joints(self.sliders)
        return tuple(self.sliders)

    def _check_joints(self, names: Sequence[str]) -> None:
        """Refuse a joint that the robot does not have."""
        for name in names:
            if name not in self.model.joint_names:
                raise UnknownJoint(name, self.model.joint_names, self.name)

    def checked_positions(self, q: object, where: str) -> Array:
        """Return joint positions as an array in which NaN marks the unchanged ones.

        Raises:
            InvalidCommand: when there is not one number for each joint.
        """
        names = self.model.joint_names
        try:
            values = np.array(q, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidCommand(
                f"{self.name}: {where} needs numbers, was given {q!r:.80}."
            ) from None
        if values.shape != (len(names),):
            raise InvalidCommand(
                f"{self.name}: {where} was given an array of shape {values.shape}, but needs "
                f"{len(names)} positions: {', '.join(names)}."
            )
        values[~np.isfinite(values)] = np.nan
        return values


def _gripper(robot: Robot) -> dict[str, tuple[float, float]]:
    """Return the joints that the named states ``close`` and ``open`` both speak of."""
    closed, opened = (robot.states.get(name, {}) for name in ("close", "open"))
    both = [joint for joint in closed if joint in opened and joint in robot.arm_joints]
    return {joint: (float(closed[joint]), float(opened[joint])) for joint in both}


def checked_pose(X: object, where: str) -> Array:
    """Return ``X`` as a read-only pose.

    Raises:
        InvalidCommand: when it is not a finite rigid (4, 4) transform; the text says why.
    """
    try:
        pose = np.array(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidCommand(f"{where} needs a (4, 4) matrix, was given {X!r:.80}.") from None
    if pose.shape != (4, 4):
        raise InvalidCommand(f"{where} has shape {pose.shape}, but a pose is a (4, 4) matrix.")
    if not np.isfinite(pose).all():
        raise InvalidCommand(f"{where} holds NaN or infinity; the last good pose stays.")
    R = pose[:3, :3]
    skew = float(np.abs(R @ R.T - np.eye(3)).max())
    if skew > RIGID_TOLERANCE or np.linalg.det(R) < 0.0 or (pose[3] != (0, 0, 0, 1)).any():
        raise InvalidCommand(
            f"{where} is no rigid pose: its rotation part is off by {skew:.2g} from orthonormal, "
            f"its last row is {pose[3].tolist()} (needs [0, 0, 0, 1])."
        )
    return frozen(pose)
