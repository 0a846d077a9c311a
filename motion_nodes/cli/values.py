# SPDX-License-Identifier: Apache-2.0
"""From what a person types to numbers: configurations, poses, groups."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from motion_nodes.errors import InvalidCommand, UnknownState, did_you_mean
from motion_nodes.model.poses import from_xyz_quat, from_xyz_rpy
from motion_nodes.model.robot import Group, Robot
from motion_nodes.model.tree import Array, JointKind
from motion_nodes.robot_setup.derived_robot import load_description

if TYPE_CHECKING:
    from motion_nodes.scene.checker import CollisionChecker

NO_SOLUTION = 1
"""Exit code: the question was understood, and the answer is no."""


class PoseWords(NamedTuple):
    """Where the tip is to end, as it was typed: --to-position, --to-rpy, --to-quat."""

    position: str | None
    rpy: str | None
    quat: str | None

    @property
    def given(self) -> bool:
        """Whether anything was typed."""
        return any(word is not None for word in self)


class TipPose(NamedTuple):
    """Where the tip is to end."""

    tip: str
    X_BT: Array
    """In the base frame, shape (4, 4)."""
    oriented: bool
    """Whether its orientation was given; else any will do."""


@dataclass(frozen=True)
class Subject:
    """A robot and a group of its joints, and how angles are given."""

    robot: Robot
    group: Group
    degrees: bool = False

    @classmethod
    def of(cls, name: str, group: str | None, degrees: bool = False) -> Subject:
        """Load a robot and find the group.

        Raises:
            RobotNotFound, UnknownGroup, InvalidDescription: as the robot says.
            InvalidCommand: the robot has no group that would do, so one must be named.
        """
        robot = load_description(name)
        if group is not None:
            return cls(robot, robot.group(group), degrees)
        chains = [g for g in robot.groups.values() if g.tip is not None]
        found = next(iter(chains or robot.groups.values()), None)
        if found is None:
            raise InvalidCommand(
                f"robot '{robot.name}' has no groups of joints; this command is for arms."
            )
        return cls(robot, found, degrees)

    @property
    def turns(self) -> Array:
        """Which joints of the group turn, so that degrees mean something; 1 or 0, shape (n,)."""
        joints = [self.robot.tree.joints[name] for name in self.group.joints]
        return np.array([float(joint.kind is not JointKind.PRISMATIC) for joint in joints])

    def shown(self, q: Array) -> Array:
        """Return joint values as they are printed, shape (..., n)."""
        return np.where(self.turns > 0.0, np.degrees(q), q) if self.degrees else np.asarray(q)

    @property
    def units(self) -> list[str]:
        """Unit of each joint's value."""
        angle = "deg" if self.degrees else "rad"
        return [angle if turning else "m" for turning in self.turns]

    def configuration(self, text: str, what: str, *, inside: bool = True) -> Array:
        """Return a configuration of the group.

        Args:
            text: name of a state; a number for each joint; or ``joint=value`` for some, the others
                as in ``home``.
            what: name of the option, for errors.
            inside: whether it has to be inside the limits.

        Raises:
            InvalidCommand: wrong count, no number, not finite, or outside the limits; no such
                state.
        """
        text = text.strip()
        if re.fullmatch(r"[A-Za-z_]\w*", text) and text not in ("nan", "inf"):
            return self._state(text, what)
        names = self.group.joints
        if "=" in text:
            q = self.robot.home[self.group.indices].copy()
            for part in filter(None, text.split(",")):
                name, _, value = part.partition("=")
                name = name.strip()
                if name not in names:
                    hint = did_you_mean(name, names)
                    raise InvalidCommand(f"{what}: joint '{name}' is not in the group.{hint}")
                k = names.index(name)
                q[k] = self._radians(numbers(value, 1, what))[0]
        else:
            q = self._radians(numbers(text, len(names), what, f"joints: {', '.join(names)}"))
        outside = self.group.limits.violations(q, tolerance=1e-6)
        if outside and inside:
            raise InvalidCommand(f"{what} is outside the limits: {'; '.join(outside)}.")
        return q

    @property
    def default_state(self) -> Array:
        """Joint values of the state ``ready``, or ``home`` where there is none, shape (n,)."""
        known = self.robot.states.get("ready", {})
        name = "ready" if set(known) & set(self.group.joints) else "home"
        return self.robot.named_state(name, self.group.name).copy()

    def _radians(self, values: Array) -> Array:
        if not self.degrees:
            return values
        if len(values) != len(self.turns):
            return np.radians(values)
        return np.where(self.turns > 0.0, np.radians(values), values)

    def _state(self, name: str, what: str) -> Array:
        try:
            return self.robot.named_state(name, self.group.name).copy()
        except UnknownState as error:
            raise InvalidCommand(
                f"{what}: {error} Or give {len(self.group.joints)} numbers with commas between."
            ) from None

    def pose(
        self, position: str | None, rpy: str | None, quat: str | None, prefix: str = "--"
    ) -> tuple[Array, bool]:
        """Return a pose, and whether its orientation was given.

        Raises:
            InvalidCommand: no position, two orientations, or numbers that are none.
        """
        if position is None:
            raise InvalidCommand(f"{prefix}position x,y,z is needed, in metres.")
        if rpy is not None and quat is not None:
            raise InvalidCommand(f"{prefix}rpy and {prefix}quat say the same; give one of them.")
        xyz = numbers(position, 3, f"{prefix}position", "metres")
        if quat is not None:
            return _from_quaternion(xyz, numbers(quat, 4, f"{prefix}quat", "x,y,z,w")), True
        if rpy is None:
            return from_xyz_rpy(xyz), False
        return from_xyz_rpy(xyz, self.angles(rpy, f"{prefix}rpy")), True

    def destination(self, to: str | None, pose: PoseWords) -> Array | TipPose:
        """Return where a motion ends: joint values of the group, shape (n,), or the tip's pose.

        Raises:
            InvalidCommand: both or neither are given, they make no sense, or the group has no tip.
        """
        if (to is not None) == pose.given:
            raise InvalidCommand(
                "give --to (a state or joint values) or --to-position (with --to-rpy or --to-quat, "
                "if the orientation matters); "
                f"{'both are' if pose.given else 'neither is'} given."
            )
        if to is not None:
            return self.configuration(to, "--to")
        X_BT, oriented = self.pose(*pose, prefix="--to-")
        if self.group.tip is None:
            raise InvalidCommand(
                f"group '{self.group.name}' has no tip to bring to a pose; give --to."
            )
        return TipPose(self.group.tip, X_BT, oriented)

    def angles(self, text: str, what: str) -> Array:
        """Return three angles [rad]."""
        values = numbers(text, 3, what, "roll,pitch,yaw")
        return np.radians(values) if self.degrees else values


def checker_of(subject: Subject, world: str | None) -> CollisionChecker:
    """Return a checker of the group's joints in the scene of a file; None: with nothing around."""
    from motion_nodes.scene.checker import CollisionChecker
    from motion_nodes.scene.scene_from_file import load_scene

    scene = None if world is None else load_scene(world)
    return CollisionChecker(subject.robot, subject.group.joints, scene=scene)


def _from_quaternion(xyz: Array, quat: Array) -> Array:
    try:
        return from_xyz_quat(xyz, quat)
    except ValueError:
        raise InvalidCommand("--quat is zero; 0,0,0,1 turns nothing.") from None


def numbers(text: str, count: int | Sequence[int], what: str, meaning: str = "") -> Array:
    """Return the numbers in a text, with commas or blanks between.

    Args:
        text: as typed.
        count: how many are needed, or several counts that will do.
        what: name of the option, for errors.
        meaning: of the numbers, for errors.

    Raises:
        InvalidCommand: another count, or something that is not a finite number.
    """
    counts = (count,) if isinstance(count, int) else tuple(count)
    values = []
    for word in text.replace(",", " ").split():
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InvalidCommand(f"{what}: '{word}' is not a finite number.")
        values.append(value)
    if len(values) not in counts:
        needed = " or ".join(map(str, counts))
        about = f" ({meaning})" if meaning else ""
        given = f"{len(values)} {'was' if len(values) == 1 else 'were'} given"
        raise InvalidCommand(f"{what} needs {needed} numbers{about}; {given}.")
    return np.array(values)
