# SPDX-License-Identifier: Apache-2.0
"""Robot model of the suite: immutable and validated."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.robot.limits import JointLimits, joint_indices
from motion_nodes.core.robot.meshes import resolve_mesh
from motion_nodes.core.robot.robot_yaml import BaseSpec, DriveMode, RobotDescription
from motion_nodes.core.robot.tree import Joint, KinematicTree, frozen
from motion_nodes.errors import InvalidConfig, InvalidDescription, UnknownGroup, UnknownState
from motion_nodes.typing import Array

Sphere = tuple[float, float, float, float]
GRIPPER_GROUP = "gripper"
"""Name of the group that gripper actions move; its joints may push against objects."""


@dataclass(frozen=True, eq=False)
class Group:
    """Planning group: joints that are commanded together."""

    name: str
    joints: tuple[str, ...]
    """Joint names from base to tip."""
    indices: NDArray[np.intp]
    """Indices of these joints in the robot's ``joint_names``, shape (n,)."""
    limits: JointLimits
    base: str | None
    """First link of the chain; None: not a chain."""
    tip: str | None
    """Last link of the chain; None: not a chain."""
    aliases: tuple[str, ...]
    tips: tuple[str, ...] = ()
    """The tip, or the tips of the groups that it contains, such as both arms; empty: no tip."""
    members: tuple[str, ...] = ()
    """Groups and joints of which a request composed it; empty: a group of the description."""

    def requires_chain(self, groups: Iterable[Group], purpose: str) -> tuple[str, str]:
        """Return base and tip.

        Args:
            groups: of the robot, named in the error.
            purpose: what needs a chain, in the error.

        Raises:
            InvalidConfig: the group is not a chain; names its tips, or the groups that are chains.
        """
        if self.base is not None and self.tip is not None:
            return self.base, self.tip
        if self.tips:
            raise InvalidConfig(
                f"group '{self.name}' is not one chain, so it has no {purpose}; name the frames, "
                f"such as its tips {', '.join(self.tips)}."
            )
        chains = [group.name for group in groups if group.tip is not None]
        raise InvalidConfig(
            f"group '{self.name}' has no base and tip, so it has no {purpose}. Groups that have: "
            f"{', '.join(chains) or 'none'}."
        )


@dataclass(frozen=True)
class JointDrive:
    """Properties of one joint's drive.

    Control law: ``tau = stiffness (q* - q) + damping (v* - v) + effort``, ``|tau| <= max_effort``;
    the gains in effect depend on the mode, see :meth:`gains`.
    """

    joint: str
    mode: DriveMode
    """Control mode after start."""
    stiffness: float
    """Position gain [N m/rad or N/m]."""
    damping: float
    """Velocity gain [N m s/rad or N s/m]."""
    armature: float
    """Rotor and gear inertia reflected to the joint [kg m^2 or kg]."""
    max_effort: float
    """Effort limit of the URDF [N m or N]; 0: no drive."""
    kp: float = 0.0
    """Position gain of the suite's own PID, if it commands efforts [N m/rad or N/m]."""
    ki: float = 0.0
    """Integral gain of that PID [N m/(rad s) or N/(m s)]."""
    kd: float = 0.0
    """Velocity gain of that PID [N m s/rad or N s/m]."""

    @property
    def passive(self) -> bool:
        """Whether the joint has no drive, so it accepts no commands."""
        return self.max_effort == 0.0

    def gains(self, mode: DriveMode | None = None) -> tuple[float, float]:
        """Return the gains of a mode; None: the mode after start.

        Args:
            mode: control mode.

        Returns:
            Position gain [N m/rad or N/m] and velocity gain [N m s/rad or N s/m].
        """
        mode = mode or self.mode
        if mode == "position":
            return self.stiffness, self.damping
        return (0.0, self.damping) if mode == "velocity" else (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot; created by :func:`motion_nodes.core.robot.loader.load_robot`."""

    name: str
    kind: str
    """``arm``, ``differential``, ``holonomic``, ``ackermann`` or ``floating``."""
    directory: Path
    """Folder of the robot.yaml."""
    description: RobotDescription
    """Decoded robot.yaml."""
    tree: KinematicTree
    urdf: str
    """Text of the URDF."""
    joint_names: tuple[str, ...]
    """Actuated joints, in the order of all arrays."""
    limits: JointLimits
    groups: Mapping[str, Group]
    """Groups by name, without aliases."""
    drives: tuple[JointDrive, ...]
    """Drive of each joint, in the order of ``joint_names``."""
    states: Mapping[str, Mapping[str, float]]
    """Named states of the file: joint -> position [rad or m]."""
    home: Array
    """Rest position [rad or m], shape (n,), read-only."""
    spheres: Mapping[str, tuple[Sphere, ...]]
    """Collision spheres: link -> (x, y, z, radius) in the link's frame [m]."""
    base: BaseSpec | None = None
    """Wheeled base; None: none."""

    @property
    def base_joints(self) -> tuple[str, ...]:
        """Wheel and steering joints of the mobile base, commanded by its controller."""
        return () if self.base is None else self.base.wheel_names + self.base.steering_names

    @property
    def passive_joints(self) -> tuple[str, ...]:
        """Joints without a drive, such as casters: measured, never commanded."""
        return self.description.passive_joints

    @property
    def arm_joints(self) -> tuple[str, ...]:
        """Joints of the joint controller: neither the mobile base's nor passive ones."""
        others = {*self.base_joints, *self.passive_joints}
        return tuple(name for name in self.joint_names if name not in others)

    @property
    def hands(self) -> tuple[Group, ...]:
        """Groups whose joints may push against objects: the gripper, or those of several arms.

        The latter have no tip, and are attached to the last joint of a chain.
        """
        gripper = self.groups.get(GRIPPER_GROUP)
        if gripper is not None:
            return (gripper,)
        return tuple(group for group in self.groups.values() if self.holder(group) is not None)

    def holder(self, group: Group) -> Group | None:
        """Return the chain to whose last joint a group without a tip is attached; None: none."""
        if group.tip is not None:
            return None
        ways = [
            {joint.name for joint in self.tree.path(self.tree.root, self.tree.joint(name).child)}
            for name in group.joints
        ]
        above = set.intersection(*ways) - set(group.joints)
        chains = [g for g in self.groups.values() if g.tip is not None and g.joints[-1] in above]
        return chains[0] if chains else None

    @property
    def base_frame(self) -> str:
        """Reference link of the robot's poses."""
        return self.description.frames.base

    @property
    def tool_frame(self) -> str | None:
        """Default tool link, if there is one."""
        return self.description.frames.tool

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names accepted by :meth:`named_state`."""
        return tuple(self.states)

    def group(self, name: str | Sequence[str]) -> Group:
        """Return a group by its name or one of its aliases, or composed of groups and joints.

        Args:
            name: a group or a joint, or several: a list, or one text with ``+`` between them, such
                as ``"left+right"``. A composed group has the joints of its members in their order.
                It is a chain, with a base and a tip, if its joints are all those between two links,
                in order; otherwise poses of its frames are those in the robot's base frame.

        Raises:
            UnknownGroup: lists names and aliases.
            InvalidConfig: no members, a joint twice, or one that is not commanded.
        """
        if isinstance(name, str):
            found = self._declared(name)
            return found if found is not None else _composed(self, self._words(name))
        if not isinstance(name, Iterable):
            raise UnknownGroup(str(name), self.groups, self.name)
        return _composed(self, tuple(name))

    def _declared(self, name: str) -> Group | None:
        """Return the group of the description with a name or alias."""
        for group in self.groups.values():
            if name == group.name or name in group.aliases:
                return group
        return None

    def _words(self, text: str) -> tuple[str, ...]:
        """Return the names in a text that are separated by ``+``; names may contain it, too."""
        parts, words = [part.strip() for part in text.split("+")], []
        while parts:
            ends = range(len(parts), 0, -1)
            end = next((k for k in ends if self._is_member("+".join(parts[:k]))), 1)
            words.append("+".join(parts[:end]))
            parts = parts[end:]
        return tuple(words)

    def _is_member(self, word: str) -> bool:
        return word in self.tree.joints or self._declared(word) is not None

    def named_state(self, name: str, group: str | None = None) -> Array:
        """Return the positions of a named state.

        Args:
            name: one of ``state_names``.
            group: a group, as of :meth:`group`; None: all joints.

        Returns:
            Positions [rad or m] of all joints or of the group's, shape (n,), read-only; joints that
            the state does not contain are as in ``home``.

        Raises:
            UnknownState: lists the states, or those with joints of the group.
            UnknownGroup: lists the groups.
        """
        chosen = self.group(group) if group is not None else None
        about = self.joint_names if chosen is None else chosen.joints
        known = [n for n, state in self.states.items() if n == "home" or set(state) & set(about)]
        if name not in known:
            where = self.name if chosen is None else f"{self.name}, group '{chosen.name}'"
            raise UnknownState(name, known, where)
        values = self.home.copy()
        for joint, value in self.states[name].items():
            values[self.joint_names.index(joint)] = value
        return frozen(values if chosen is None else values[chosen.indices])

    def chain(self, base: str, tip: str) -> tuple[Joint, ...]:
        """Return the joints from one link down to another, including fixed ones.

        Args:
            base: upper link.
            tip: lower link.

        Raises:
            UnknownFrame: lists the links.
            InvalidDescription: ``tip`` is not below ``base``.
        """
        return self.tree.path(base, tip)

    def drive(self, joint: str) -> JointDrive:
        """Return the drive of a joint.

        Raises:
            UnknownJoint: lists the joints.
        """
        return self.drives[int(self.indices([joint])[0])]

    def indices(self, joints: tuple[str, ...] | list[str]) -> NDArray[np.intp]:
        """Return the indices of joints in ``joint_names``, shape (len(joints),).

        Raises:
            UnknownJoint: lists the joints.
        """
        return joint_indices(joints, self.joint_names, self.name)

    def mesh_path(self, filename: str) -> Path:
        """Return the file of a mesh from its ``filename`` in the URDF.

        Raises:
            InvalidDescription: no such file exists; lists the places that were tried.
        """
        return resolve_mesh(filename, self.directory)


@functools.lru_cache(maxsize=256)
def _composed(robot: Robot, words: tuple[str, ...]) -> Group:
    """Return the group of the joints of groups and joints; the declared one if there is one.

    Raises:
        UnknownGroup, InvalidConfig: as :meth:`Robot.group`.
    """
    if not words:
        raise InvalidConfig("a group needs joints; name groups or joints.", field="group")
    joints: list[str] = []
    for word in words:
        joints += _member_joints(robot, word)
    names = tuple(joints)
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise InvalidConfig(
            f"group '{'+'.join(words)}' has joint '{twice}' twice; name each joint once.",
            field="group",
        )
    for group in robot.groups.values():
        if group.joints == names:
            return group
    indices = robot.indices(names)
    indices.setflags(write=False)
    tips = tips_inside(names, robot.groups.values())
    base, tip = _ends(robot, names, tips)
    return Group(
        "+".join(words), names, indices, robot.limits.select(names), base, tip, (),
        tips if tip is None else (tip,), words,
    )  # fmt: skip


def _member_joints(robot: Robot, word: str) -> tuple[str, ...]:
    """Return the joints of a group, or one joint."""
    group = robot._declared(word)
    if group is not None:
        return group.joints
    if word in robot.arm_joints or word in robot.base_joints:
        return (word,)
    joint = robot.tree.joints.get(word)
    if joint is None or not joint.movable:
        known = [n for group in robot.groups.values() for n in (group.name, *group.aliases)]
        raise UnknownGroup(word, [*known, *robot.arm_joints], robot.name)
    if joint.mimic is not None:
        raise InvalidConfig(
            f"joint '{word}' mimics '{joint.mimic.joint}', which moves it; name that joint.",
            field="group",
        )
    raise InvalidConfig(f"joint '{word}' has no drive, so no group can move it.", field="group")


def tips_inside(joints: Collection[str], groups: Iterable[Group]) -> tuple[str, ...]:
    """Return the tips of the largest chains among groups whose joints are all among others.

    Args:
        joints: names of joints.
        groups: groups of the same robot.
    """
    kept = set(joints)
    inside = [g for g in groups if g.tip is not None and kept.issuperset(g.joints)]
    tips = [
        g.tip
        for g in inside
        if g.tip and not any(set(g.joints) < set(other.joints) for other in inside)
    ]
    return tuple(dict.fromkeys(tips))


def _ends(
    robot: Robot, joints: tuple[str, ...], tips: tuple[str, ...]
) -> tuple[str | None, str | None]:
    """Return base and tip of joints that are all those between two links; None, None if not."""
    tree = robot.tree
    last = tree.joints[joints[-1]].child
    for tip in (*(tips if len(tips) == 1 else ()), last):
        for base in (robot.base_frame, tree.joints[joints[0]].parent):
            with contextlib.suppress(InvalidDescription):  # not a chain
                if tree.variables(base, tip) == joints:
                    return base, tip
    return None, None
