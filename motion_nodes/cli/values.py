# SPDX-License-Identifier: Apache-2.0
"""Parsing of command-line values: groups, configurations, poses, files of motions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy, inverse
from motion_nodes.core.robot.robot import Group, Robot
from motion_nodes.core.robot.tree import JointKind
from motion_nodes.core.trajectory import trajectory_files
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidCommand, InvalidDescription, UnknownState, did_you_mean
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.core.scene.checker import CollisionChecker

NO_SOLUTION = 1
"""Exit code: the command is valid, but there is no solution."""


class PoseWords(NamedTuple):
    """Target pose of the tip, unparsed: --to-position, --to-rpy, --to-quat."""

    position: str | None
    rpy: str | None
    quat: str | None

    @property
    def given(self) -> bool:
        """Whether any option is given."""
        return any(word is not None for word in self)


class TipPose(NamedTuple):
    """Target pose of the tip."""

    tip: str
    X_BT: Array
    """In the base frame, shape (4, 4)."""
    oriented: bool
    """Whether the orientation is given; otherwise it is free."""


@dataclass(frozen=True)
class Subject:
    """A robot, a group of its joints, and the unit of angles."""

    robot: Robot
    group: Group
    degrees: bool = False
    """Whether angles are read and printed in degrees."""

    @classmethod
    def of(cls, name: str, group: str | None, degrees: bool = False) -> Subject:
        """Load a robot and find the group.

        Args:
            name: the robot, or the path of its description.
            group: name of the group; None for the first with a tip.
            degrees: whether angles are in degrees.

        Raises:
            RobotNotFound, UnknownGroup, InvalidDescription: the robot cannot be loaded.
            InvalidCommand: the robot has no groups.
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
        """1 for joints of the group with angles, 0 for prismatic ones, shape (n,)."""
        joints = [self.robot.tree.joints[name] for name in self.group.joints]
        return np.array([float(joint.kind is not JointKind.PRISMATIC) for joint in joints])

    def shown(self, q: Array) -> Array:
        """Return joint positions in the printed units, shape (..., n)."""
        return np.where(self.turns > 0.0, np.degrees(q), q) if self.degrees else np.asarray(q)

    @property
    def units(self) -> list[str]:
        """Printed unit of each joint."""
        angle = "deg" if self.degrees else "rad"
        return [angle if turning else "m" for turning in self.turns]

    def configuration(self, text: str, what: str, *, inside: bool = True) -> Array:
        """Return a configuration of the group [rad or m], shape (n,).

        Args:
            text: named state; a number for each joint; or ``joint=value`` for some joints, with the
                others as in ``home``.
            what: name of the option, for errors.
            inside: whether limits are checked.

        Raises:
            InvalidCommand: an unknown state or joint, a wrong count, a value that is not a finite
                number, or positions outside the limits.
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
                q[k] = self._in_si(numbers(value, 1, what), self.turns[k])[0]
        else:
            q = numbers(text, len(names), what, f"joints: {', '.join(names)}")
            q = self._in_si(q, self.turns)
        q = self.group.limits.settled(q)
        outside = self.group.limits.violations(q)
        if outside and inside:
            raise InvalidCommand(f"{what} is outside the limits: {'; '.join(outside)}.", field=what)
        return q

    @property
    def default_state(self) -> Array:
        """Joint positions of the state ``ready``, else of ``home``, shape (n,)."""
        known = self.robot.states.get("ready", {})
        name = "ready" if set(known) & set(self.group.joints) else "home"
        return self.robot.named_state(name, self.group.name).copy()

    def _in_si(self, values: Array, turns: Array) -> Array:
        """Return joint positions [rad or m]; ``turns`` as in :attr:`turns`."""
        return np.where(self.degrees * turns > 0.0, np.radians(values), values)

    def _state(self, name: str, what: str) -> Array:
        try:
            return self.robot.named_state(name, self.group.name).copy()
        except UnknownState as error:
            raise InvalidCommand(
                f"{what}: {error} Or give {len(self.group.joints)} numbers, separated by commas."
            ) from None

    def pose(
        self, position: str | None, rpy: str | None, quat: str | None, prefix: str = "--"
    ) -> tuple[Array, bool]:
        """Return a pose, shape (4, 4), and whether its orientation was given.

        Args:
            position: x,y,z [m].
            rpy: roll,pitch,yaw.
            quat: x,y,z,w.
            prefix: prefix of the options, for errors.

        Raises:
            InvalidCommand: no position, two orientations, or invalid numbers.
        """
        if position is None:
            raise InvalidCommand(f"{prefix}position x,y,z [m] is required.")
        if rpy is not None and quat is not None:
            raise InvalidCommand(f"give only one of {prefix}rpy and {prefix}quat.")
        xyz = numbers(position, 3, f"{prefix}position", "metres")
        if quat is not None:
            return _from_quaternion(xyz, numbers(quat, 4, f"{prefix}quat", "x,y,z,w")), True
        if rpy is None:
            return from_xyz_rpy(xyz), False
        return from_xyz_rpy(xyz, self.angles(rpy, f"{prefix}rpy")), True

    def in_group_base(self, X_BT: Array) -> Array:
        """Return poses in the robot's base frame, shape (..., 4, 4), in the base of the group."""
        base, model = self.group.base, self.robot
        if base in (None, model.base_frame):
            return X_BT
        X_BG = Kinematics(model.tree, base=model.base_frame).pose(model.home, str(base))
        return np.asarray(inverse(X_BG) @ X_BT)

    def destination(self, to: str | None, pose: PoseWords) -> Array | TipPose:
        """Return the target of a motion: joint positions, shape (n,), or a pose of the tip.

        Args:
            to: named state or joint positions.
            pose: options of a target pose.

        Raises:
            InvalidCommand: both or neither are given, a value is invalid, or the group has no tip.
        """
        if (to is not None) == pose.given:
            raise InvalidCommand(
                "give --to (named state or joint positions) or --to-position (optionally with "
                "--to-rpy or --to-quat); "
                f"{'both are' if pose.given else 'neither is'} given."
            )
        if to is not None:
            return self.configuration(to, "--to")
        X_BT, oriented = self.pose(*pose, prefix="--to-")
        if self.group.tip is None:
            raise InvalidCommand(
                f"group '{self.group.name}' has no tip to move to a pose; give --to."
            )
        return TipPose(self.group.tip, X_BT, oriented)

    def angles(self, text: str, what: str) -> Array:
        """Return three angles [rad]."""
        values = numbers(text, 3, what, "roll,pitch,yaw")
        return np.radians(values) if self.degrees else values


def checked_timeout(timeout: float) -> float:
    """Return the value of ``--timeout`` [s].

    Raises:
        InvalidCommand: it is not finite and above 0.
    """
    if not (math.isfinite(timeout) and timeout > 0.0):
        raise InvalidCommand(f"--timeout is {timeout:g} s; it must be finite and above 0.")
    return timeout


def checker_of(subject: Subject, world: str | None) -> CollisionChecker:
    """Return a collision checker of the group's joints.

    Args:
        subject: robot and group.
        world: scene file; None for a scene without obstacles.
    """
    from motion_nodes.core.scene.checker import CollisionChecker
    from motion_nodes.core.scene.world import load_scene

    scene = None if world is None else load_scene(world)
    return CollisionChecker(subject.robot, subject.group.joints, scene=scene)


def _from_quaternion(xyz: Array, quat: Array) -> Array:
    try:
        return from_xyz_quat(xyz, quat)
    except ValueError:
        raise InvalidCommand("--quat is zero; the identity is 0,0,0,1.") from None


def numbers(text: str, count: int | Sequence[int], what: str, meaning: str = "") -> Array:
    """Parse numbers separated by commas or blanks.

    Args:
        text: the text.
        count: required count, or several allowed counts.
        what: name of the option, for errors.
        meaning: meaning of the numbers, for errors.

    Raises:
        InvalidCommand: a wrong count, or a value that is not a finite number.
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
        raise InvalidCommand(
            f"{what} needs {needed} numbers{about}; given: {len(values)}.", field=what
        )
    return np.array(values)


def read_motion(
    file: str, joints: Sequence[str] = ()
) -> JointTrajectory | trajectory_files.Waypoints | trajectory_files.PathFile:
    """Return the trajectory, waypoints or path in a file; MCAP: joint states.

    Other files and errors are those of :func:`.trajectory_files.read_motion`.

    Args:
        file: name of the file.
        joints: of the robot, for recordings.

    Raises:
        InvalidDescription: the file cannot be read, or has none of these forms.
    """
    path = Path(file)
    if path.suffix != ".mcap":
        return trajectory_files.read_motion(file)
    try:
        from motion_nodes.ros.recording import recorded_motion
    except ImportError as error:
        raise InvalidDescription(f"{path}: recordings of ROS need rclpy ({error})") from None
    return recorded_motion(path, joints)
