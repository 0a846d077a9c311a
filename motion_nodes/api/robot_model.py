# SPDX-License-Identifier: Apache-2.0
"""A loaded robot with its groups, as returned by ``mn.load_robot``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.api.joint_group import JointGroup
from motion_nodes.core.bases.base import BaseLimits, Twist2, WheeledBase
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.bases.odometry import Odometry
from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import available_robots as robots_on_path
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras import shown_on_page
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.extras.policies.runner import PolicyRunner


class MobileBase:
    """Kinematics of a wheeled base. Twists are in the base frame: x forward, y left, z up."""

    kinematics: WheeledBase
    """Differential, holonomic or Ackermann kinematics, with further methods."""

    def __init__(self, kinematics: WheeledBase) -> None:
        """Wrap the kinematics of a base; usually ``load_robot(...).base``.

        Args:
            kinematics: kinematics of the base.
        """
        self.kinematics = kinematics

    def __repr__(self) -> str:
        return f"MobileBase({type(self.kinematics).__name__}: {', '.join(self.wheel_names)})"

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Driven wheel joints, in the order of all wheel arrays."""
        return self.kinematics.wheel_names

    @property
    def steering_names(self) -> tuple[str, ...]:
        """Steering joints, in the order of all steering arrays."""
        return self.kinematics.steering_names

    def wheels_from_twist(self, vx: float = 0.0, vy: float = 0.0, wz: float = 0.0) -> Array:
        """Compute wheel velocities (inverse kinematics); no limits are applied.

        Args:
            vx: forward velocity [m/s].
            vy: velocity to the left [m/s]; ignored by bases that cannot move sideways.
            wz: yaw rate, counter-clockwise [rad/s].

        Returns:
            Wheel velocities [rad/s], shape (wheels,), in the order of ``wheel_names``.

        Raises:
            InvalidCommand: a number that is not finite.
        """
        return self.kinematics.wheels_from_twist(self._feasible(vx, vy, wz))

    def steering_from_twist(self, vx: float = 0.0, vy: float = 0.0, wz: float = 0.0) -> Array:
        """Compute the steering angles of a twist; no limit of the steering rate is applied.

        Args:
            vx: forward velocity [m/s].
            vy: velocity to the left [m/s]; ignored by bases that cannot move sideways.
            wz: yaw rate, counter-clockwise [rad/s].

        Returns:
            Steering angles [rad], shape (steering joints,), in the order of ``steering_names``;
            empty for a base without steering.

        Raises:
            InvalidCommand: a number that is not finite.
        """
        at_rest = np.zeros(len(self.steering_names))
        return self.kinematics.steer(self._feasible(vx, vy, wz), at_rest, 1e6)

    def twist_from_wheels(self, wheels: ArrayLike, steering: ArrayLike | None = None) -> Twist2:
        """Compute the twist of the base from wheel velocities (forward kinematics).

        Args:
            wheels: wheel velocities [rad/s], shape (wheels,); wheel displacements [rad] give the
                displacement of the base instead.
            steering: steering angles [rad], shape (steering joints,); default: 0.

        Returns:
            Forward and lateral velocity [m/s] and yaw rate [rad/s] in the base frame.

        Raises:
            InvalidCommand: wrong length, or numbers that are not finite.
        """
        angles = np.zeros(len(self.steering_names)) if steering is None else steering
        speeds = finite_numbers(wheels, self.wheel_names, "wheel velocities")
        return self.kinematics.twist_from_wheels(
            speeds, finite_numbers(angles, self.steering_names, "steering angles")
        )

    def odometry(self) -> Odometry:
        """Return odometry at the origin; ``odometry.advance(path, dt)`` integrates a motion."""
        return Odometry()

    def controller(self, limits: BaseLimits) -> BaseController:
        """Return a controller from twist commands to limited wheel velocities, with odometry.

        Args:
            limits: limits of body and wheels.

        Returns:
            A controller; call ``command(twist, now)`` for each command, and ``step(now, dt)`` and
            ``measure(wheels, dt)`` in each cycle.
        """
        return BaseController(self.kinematics, BaseControllerConfig(limits=limits))

    def _feasible(self, vx: float, vy: float, wz: float) -> Twist2:
        twist = finite_numbers((vx, vy, wz), ("vx", "vy", "wz"), "a twist").tolist()
        return self.kinematics.nearest_twist(Twist2(*twist))


class RobotModel:
    """A robot with its joints, groups and, if any, its wheeled base.

    ``robot["arm"]`` is the :class:`JointGroup` of that name or alias, ``robot["left+right"]`` that
    of the joints of both.
    """

    description: Robot
    """Validated description: kinematic tree, drives, collision spheres."""

    def __init__(self, description: Robot) -> None:
        """Wrap a description; usually :func:`load_robot`.

        Args:
            description: description of the robot.
        """
        self.description = description
        self._groups: dict[str, JointGroup] = {}

    def __repr__(self) -> str:
        """Return name, kind, groups and number of joints."""
        groups = ", ".join(self.group_names) or "no groups"
        return f"RobotModel({self.name}: {self.kind}, {len(self.joint_names)} joints; {groups})"

    def __getitem__(self, group: str) -> JointGroup:
        """Return a group; see :meth:`group`."""
        return self.group(group)

    def group(self, group: str | Sequence[str]) -> JointGroup:
        """Return a group of the robot, or one of any of its groups and joints.

        Args:
            group: name or alias of a group, or name of a joint; or several: a list, or one text
                with ``+`` between them. Configurations of such a group contain the joints of its
                members in the order given. If these are all joints between two links, from base
                to tip, the group is a chain with a tip; otherwise poses are asked for by frame,
                such as those of :attr:`JointGroup.tips`, in the robot's base frame.

        Raises:
            UnknownGroup: lists groups, aliases and joints.
            InvalidConfig: no members, a joint twice, or one that is not commanded.
        """
        name = self.description.group(group).name
        if name not in self._groups:
            self._groups[name] = JointGroup(self.description, name)
        return self._groups[name]

    def __getattr__(self, name: str) -> Any:
        """Raise the error for an unknown name; it says of which group it is an attribute."""
        text = f"'RobotModel' object has no attribute '{name}'"
        if not name.startswith("_"):
            if hasattr(JointGroup, name):
                group = next(iter(self.group_names), "arm")
                text += f"; groups have it: robot[{group!r}].{name}"
            elif name in self.group_names:
                text += f"; groups are items: robot[{name!r}]"
        raise AttributeError(text, name=name, obj=self)

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names of the groups."""
        return iter(self.group_names)

    @property
    def name(self) -> str:
        """Name of the robot."""
        return self.description.name

    @property
    def kind(self) -> str:
        """``arm``, ``differential``, ``holonomic``, ``ackermann`` or ``floating``."""
        return self.description.kind

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups, without aliases."""
        return tuple(self.description.groups)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Actuated joints of the robot, in the order of its arrays."""
        return self.description.joint_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of all links, root first."""
        return self.description.tree.frame_names

    @property
    def limits(self) -> JointLimits:
        """Limits of all joints, in the order of ``joint_names``, shape (n,) each."""
        return self.description.limits

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the named states, such as ``home``."""
        return self.description.state_names

    def state(self, name: str) -> Array:
        """Return a named state of all joints [rad or m], shape (n,), read-only.

        Args:
            name: one of ``state_names``.

        Raises:
            UnknownState: lists the named states.
        """
        return self.description.named_state(name)

    def load_policy(
        self,
        policy: str | Path,
        *,
        description: str | Path | None = None,
        joint_order: Sequence[str] = (),
    ) -> PolicyRunner:
        """Load a learned policy for this robot.

        Args:
            policy: network (.onnx, TorchScript .pt), a folder with one, or the name of a published
                policy, such as ``go2_walk``, which is downloaded on first use.
            description: IO_descriptors.yaml or env.yaml; None: searched next to the network.
            joint_order: order of the joints in training, which env.yaml does not contain; empty:
                breadth first.

        Returns:
            The policy, with inputs and targets in the order of ``joint_names``.

        Raises:
            InvalidDescription: files that are missing, invalid, or do not match the robot.
            MotionError: a published policy could not be downloaded.
        """
        from motion_nodes.extras.policies.policy_files import load_policy

        return load_policy(
            policy, self.description, description=description, joint_order=joint_order
        )

    def show(self, what: Any = None, *, world: World | None = None, port: int = 8080) -> Any:
        """Show the robot in the browser, where its joints can be moved; needs the extra ``viewer``.

        Args:
            what: a named state, positions by joint or of all joints [rad or m]; a trajectory or
                plan, which is played as a ghost; None: the home state.
            world: obstacles to show.
            port: first TCP port to try; 0: any free port.

        Returns:
            The page, with ``.url`` and ``.close()``; a notebook displays it. It stays open until it
            is closed, or the process ends.

        Raises:
            InvalidCommand: positions of another robot, or a plan without a motion.
            UnknownState, UnknownJoint: lists those of the robot.
            MotionError: the page cannot be served.
        """
        return shown_on_page(self.description, what, world, port)

    @cached_property
    def base(self) -> MobileBase:
        """Wheeled base of the robot.

        Raises:
            InvalidConfig: the robot has no wheeled base.
        """
        if self.description.base is None:
            raise InvalidConfig(f"robot '{self.name}' ({self.kind}) has no wheeled base.")
        return MobileBase(base_of(self.description))


def load_robot(
    name_or_path: str | Path,
    *,
    urdf: str | Path | None = None,
    package_paths: tuple[str | Path, ...] = (),
) -> RobotModel:
    """Load a robot.

    Args:
        name_or_path: name of a robot (:func:`available_robots`), its folder or robot.yaml; an
            XRDF, SRDF, Lula or cuRobo file; or a URDF, xacro or MJCF alone, from which a robot.yaml
            is derived as by ``motion new``, and cached.
        urdf: URDF of an XRDF, SRDF, Lula or cuRobo file; None: the one in the same folder.
        package_paths: folders in which ``package://`` paths of a URDF are resolved.

    Returns:
        The validated robot; all its arrays are read-only.

    Raises:
        RobotNotFound: no such robot or file; lists the available robots.
        InvalidDescription: names the file, the field and the allowed values.
        InvalidConfig: two robots on the search path have the same name.
    """
    return RobotModel(load_description(name_or_path, urdf, package_paths))


def available_robots() -> tuple[str, ...]:
    """Return the names of the shipped robots and of those on ``MOTION_NODES_ROBOT_PATH``.

    Returns:
        Names for :func:`load_robot`.

    Raises:
        InvalidConfig: two robots have the same name; names both files.
    """
    return tuple(robots_on_path())
