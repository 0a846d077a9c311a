# SPDX-License-Identifier: Apache-2.0
"""Description of one robot for the viewer: model, name, placement and panel settings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.robot_spheres import CollisionBody, link_bodies
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint
from motion_nodes.typing import Array

RMPFLOW, IK, PLANNER = "RMPflow", "IK", "planner"
"""Controllers that can move the tool to a target."""


@dataclass(frozen=True)
class ViewedRobot:
    """One robot in the viewer.

    Raises:
        InvalidConfig: a name that is empty or contains spaces, or a speed that is not positive.
        InvalidCommand: a placement that is not a rigid pose.
        UnknownJoint: a slider, steering or gripper joint that the robot does not have.
        UnknownFrame: a tool or scene frame that the robot does not have.
    """

    model: Robot
    """The robot."""
    name: str = ""
    """Name used by callbacks and updates, such as the ROS namespace; empty: the model's name."""
    X_WR: Array = field(default_factory=lambda: np.eye(4))
    """Pose of the root link in the world until the first base update, shape (4, 4)."""
    named_states: Sequence[str] = ()
    """States with a button."""
    state_positions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Positions of named states by state and joint [rad or m]; those that can be a goal state."""
    sliders: Sequence[str] | None = None
    """Joints with a slider. None: all actuated joints; for wheeled bases without continuous ones,
    because wheels are velocity-controlled."""
    drive: bool | None = None
    """Whether to add a drive pad. None: unless the kind is ``arm`` or ``floating``."""
    steering: Sequence[str] = ()
    """Steering joints, the left one first, whose angles are shown with the drive pad."""
    tool: str = ""
    """Link whose planned path is shown; empty: no planning."""
    scene_frame: str = ""
    """Link that is the frame of its planning scene; empty: the root link."""
    bodies: Callable[[], Iterable[CollisionBody]] | None = None
    """Returns its collision spheres; called when they are first shown."""
    followers: Sequence[str] = ()
    """Controllers that can move the tool to a target, the default first; empty: no target."""
    planned_joints: Sequence[str] = ()
    """Joints that the planner moves, in the planning group of the tool; empty: no goal state."""
    gripper: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Gripper joints with their closed and open positions [rad or m]; controlled by one slider."""
    limits: JointLimits | None = None
    """Joint limits; None: those of the kinematic tree."""
    edits_scene: bool = False
    """Whether the planning scene can be edited on the page."""
    tasks: bool = False
    """Whether to add the task panel."""
    navigates: bool = False
    """Whether a navigator drives its base to poses."""
    max_linear: float = 1.0
    """Max of the drive pad's speed slider [m/s]."""
    max_angular: float = 2.0
    """Max of the drive pad's turn rate slider [rad/s]."""

    def __post_init__(self) -> None:
        """Fill in defaults from the model, and validate."""
        name = (self.name or self.model.name).strip("/")
        if not name or any(character.isspace() for character in name):
            raise InvalidConfig(
                f"name of a viewed robot is '{self.name}'; it must be one word without spaces.",
                field="name",
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "X_WR", frozen(rigid_pose(self.X_WR, f"{name}: placement X_WR")))
        wheeled = self.model.kind not in ("arm", "floating")
        drive = wheeled if self.drive is None else self.drive
        object.__setattr__(self, "drive", drive)
        object.__setattr__(self, "sliders", self._slider_joints(drive))
        self._check_joints(self.steering)
        self._check_joints(tuple(self.gripper))
        self._check_joints(self.planned_joints)
        if self.limits is None:
            object.__setattr__(self, "limits", JointLimits.of_tree(self.model.tree))
        for frame in filter(None, (self.tool, self.scene_frame)):
            if frame not in self.model.tree.frame_names:
                raise UnknownFrame(frame, self.model.tree.frame_names, name)
        for label, speed in (("linear", self.max_linear), ("angular", self.max_angular)):
            if not (np.isfinite(speed) and speed > 0.0):
                raise InvalidConfig(
                    f"{name}: max_{label} is {speed}; it must be finite and above 0.",
                    field=f"max_{label}",
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
        in_suite: bool = False,
    ) -> ViewedRobot:
        """Return a robot with the settings of its description.

        Sliders are for the joints of the joint controller; max speeds are those of the base.

        Args:
            robot: the description.
            name: as in :attr:`name`.
            X_WR: pose of the root link in the world, shape (4, 4); None: identity.
            followers: as in :attr:`followers`; ignored without a tool.
            edits_scene: as in :attr:`edits_scene`; ignored without a tool.
            in_suite: whether there may be nodes for tasks, of robots with a group ``arm`` and a
                ``gripper``, and for navigation, of robots with a base.

        Raises:
            InvalidConfig: see the class.
        """
        base = robot.base
        fingers = {j for j, (closed, opened) in _gripper(robot).items() if closed != opened}
        arms = [group for group in robot.groups.values() if group.tip is not None]
        tools = [group.tip for group in arms if group.tip is not None]
        speeds = (base.linear.x.max_velocity, base.angular.z.max_velocity) if base else (1.0, 2.0)
        return cls(
            robot,
            name,
            np.eye(4) if X_WR is None else X_WR,
            named_states=robot.state_names,
            state_positions=robot.states,
            # Fingers are moved by the slider of the gripper.
            sliders=tuple(j for j in robot.arm_joints if j not in fingers),
            steering=base.steering_names if base else (),
            tool=tools[0] if tools else "",
            scene_frame=robot.base_frame,
            bodies=functools.partial(link_bodies, robot),
            followers=followers if tools else (),
            planned_joints=arms[0].joints if arms else (),
            gripper=_gripper(robot),
            limits=robot.limits,
            edits_scene=edits_scene and bool(tools),
            tasks=in_suite and {"arm", "gripper"} <= robot.groups.keys(),
            navigates=in_suite and base is not None,
            max_linear=speeds[0],
            max_angular=speeds[1],
        )

    @property
    def title(self) -> str:
        """Name on the panel, with the model if the name does not tell it."""
        model = self.model.name
        return self.name if model in self.name else f"{self.name} ({model})"

    def driven_by_policy(self) -> ViewedRobot:
        """Return the robot with a drive pad in place of joint sliders and tool target."""
        return dataclasses.replace(
            self, drive=True, sliders=(), named_states=(), followers=(), gripper={}, tool="",
            planned_joints=(), edits_scene=False, tasks=False, navigates=False,
        )  # fmt: skip

    def _slider_joints(self, drive: bool) -> tuple[str, ...]:
        """Return the joints with a slider."""
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
        """Raise UnknownJoint for a joint that the robot does not have."""
        for name in names:
            if name not in self.model.joint_names:
                raise UnknownJoint(name, self.model.joint_names, self.name)

    def checked_positions(self, q: object, where: str) -> Array:
        """Return joint values as an array in which NaN means unchanged.

        Args:
            q: values in the order of the model's ``joint_names``, shape (n,); non-finite values
                mean unchanged.
            where: caller, for the error.

        Returns:
            Array of shape (n,).

        Raises:
            InvalidCommand: not one number per joint.
        """
        names = self.model.joint_names
        try:
            values = np.array(q, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidCommand(
                f"{self.name}: {where} needs numbers, got {q!r:.80}.", field=where
            ) from None
        if values.shape != (len(names),):
            raise InvalidCommand(
                f"{self.name}: {where} needs {len(names)} values ({', '.join(names)}), got shape "
                f"{values.shape}.",
                field=where,
            )
        values[~np.isfinite(values)] = np.nan
        return values


def _gripper(robot: Robot) -> dict[str, tuple[float, float]]:
    """Return the joints that both named states, ``close`` and ``open``, contain."""
    closed, opened = (robot.states.get(name, {}) for name in ("close", "open"))
    both = [joint for joint in closed if joint in opened and joint in robot.arm_joints]
    return {joint: (float(closed[joint]), float(opened[joint])) for joint in both}
