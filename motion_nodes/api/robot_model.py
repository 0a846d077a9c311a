# SPDX-License-Identifier: Apache-2.0
"""A loaded robot and its groups: what ``mn.load_robot`` returns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from motion_nodes.api.joint_group import JointGroup
from motion_nodes.api.mobile_base import MobileBase
from motion_nodes.bases.from_robot import base_of
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.loader import available_robots as robots_on_path
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.robot_setup.derived_robot import load_description


class RobotModel:
    """A robot: its joints, groups and, if it has one, its wheeled base.

    ``robot["arm"]`` is the :class:`JointGroup` of that name or alias.
    """

    description: Robot
    """The checked description behind it: kinematic tree, drives, collision spheres."""

    def __init__(self, description: Robot) -> None:
        """Wrap a description; :func:`load_robot` makes one."""
        self.description = description
        self._groups: dict[str, JointGroup] = {}

    def __repr__(self) -> str:
        """Return name, kind, groups and number of joints."""
        groups = ", ".join(self.group_names) or "no groups"
        return f"RobotModel({self.name}: {self.kind}, {len(self.joint_names)} joints; {groups})"

    def __getitem__(self, group: str) -> JointGroup:
        """Return a group by name or alias.

        Raises:
            UnknownGroup: lists names and aliases.
        """
        name = self.description.group(group).name
        if name not in self._groups:
            self._groups[name] = JointGroup(self.description, name)
        return self._groups[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the groups."""
        return iter(self.group_names)

    @property
    def name(self) -> str:
        """Name of the robot."""
        return self.description.name

    @property
    def kind(self) -> str:
        """``arm``, ``differential``, ``holonomic`` or ``ackermann``."""
        return self.description.kind

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups, without aliases."""
        return tuple(self.description.groups)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Actuated joints of the whole robot."""
        return self.description.joint_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        """All links, the root first."""
        return self.description.tree.frame_names

    @property
    def limits(self) -> JointLimits:
        """Limits of all joints, in the order of ``joint_names``."""
        return self.description.limits

    @property
    def state_names(self) -> tuple[str, ...]:
        """Named states, such as ``home``."""
        return self.description.state_names

    def state(self, name: str) -> Array:
        """Return a named state of all joints [rad or m], shape (n,).

        Args:
            name: as in ``state_names``.

        Raises:
            UnknownState: lists the named states.
        """
        return self.description.named_state(name)

    @cached_property
    def base(self) -> MobileBase:
        """The wheeled base.

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
        name_or_path: a robot's name (:func:`available_robots`), its folder or robot.yaml; an XRDF,
            SRDF, Lula or cuRobo file; or a URDF alone. What a robot.yaml would state is then
            derived from the URDF, as ``motion new`` does, and cached for the next time.
        urdf: the URDF of an XRDF, SRDF, Lula or cuRobo file; None: the one beside it.
        package_paths: folders to search for ``package://`` in a URDF.

    Returns:
        The robot, checked; all its arrays are read-only.

    Raises:
        RobotNotFound: no robot of that name or file; lists the known ones.
        InvalidDescription: names the file, the field and what is allowed.
        InvalidConfig: two robots on the search path have that name.
    """
    return RobotModel(load_description(name_or_path, urdf, package_paths))


def available_robots() -> tuple[str, ...]:
    """Return the names of the shipped robots and of those on ``MOTION_NODES_ROBOT_PATH``.

    Raises:
        InvalidConfig: two of them have the same name; both files are named.
    """
    return tuple(robots_on_path())
