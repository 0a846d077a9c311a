# SPDX-License-Identifier: Apache-2.0
"""Join a decoded robot.yaml and a kinematic tree to a :class:`Robot`; check that they agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from motion_nodes.errors import BadDescription, did_you_mean
from motion_nodes.model.description import (
    DifferentialSpec,
    DriveDescription,
    GroupDescription,
    RobotDescription,
)
from motion_nodes.model.limits import JointLimits, joint_indices
from motion_nodes.model.robot import Group, JointDrive, Robot, Sphere
from motion_nodes.model.tree import Array, JointKind, KinematicTree, frozen

Spheres = Mapping[str, tuple[Sphere, ...]]
_SOURCED_BLOCKS = ("base", "limits", "drives")


def assemble(
    file: Path, description: RobotDescription, tree: KinematicTree, urdf: str, spheres: Spheres
) -> Robot:
    """Return the robot.

    Args:
        file: the robot.yaml, for errors and as the place of the robot's other files.
        description: what it says.
        tree: what the URDF says.
        urdf: text of the URDF.
        spheres: collision spheres by link.

    Raises:
        BadDescription: names the file, the field and what is allowed.
    """
    check = _Checker(file, description, tree)
    check.kind()
    check.frames()
    check.collision(spheres)
    check.contacts()
    limits = _limits(check)
    groups = _groups(check, limits)
    drives = _drives(check, limits)
    states = _states(check, limits)
    check.sources()
    return Robot(
        name=description.name,
        kind=description.kind,
        directory=file.parent,
        description=description,
        tree=tree,
        urdf=urdf,
        joint_names=tree.joint_names,
        limits=limits,
        groups=MappingProxyType(groups),
        drives=drives,
        states=MappingProxyType(states),
        home=_home(check, limits),
        spheres=MappingProxyType(dict(spheres)),
    )


@dataclasses.dataclass(frozen=True)
class _Checker:
    """The checks of a description against its tree."""

    file: Path
    description: RobotDescription
    tree: KinematicTree

    def fail(self, path: str, text: str) -> BadDescription:
        """Return the error for a field."""
        return BadDescription(f"{self.file}: {path}: {text}")

    def joints(self, names: Iterable[str], path: str) -> None:
        """Refuse a name that is no actuated joint, and a name given twice."""
        seen: set[str] = set()
        for name in names:
            if name not in self.tree.joint_names:
                why = "is not an actuated joint" if name in self.tree.joints else "is not a joint"
                raise self.fail(
                    path,
                    f"'{name}' {why} of {self.description.urdf}."
                    f"{did_you_mean(name, self.tree.joint_names)}",
                )
            if name in seen:
                raise self.fail(path, f"joint '{name}' stands twice.")
            seen.add(name)

    def link(self, name: str | None, path: str) -> None:
        """Refuse a name that is no link."""
        if name is not None and name not in self.tree.links:
            raise self.fail(
                path,
                f"'{name}' is not a link of {self.description.urdf}."
                f"{did_you_mean(name, self.tree.frame_names)}",
            )

    def kind(self) -> None:
        """Refuse an arm with a base, a base without one, and wheels that are no joints."""
        base = self.description.base
        if self.description.kind == "arm":
            if base is not None:
                raise self.fail("base", "a robot of kind 'arm' has none; remove it.")
            return
        if base is None:
            raise self.fail(
                "base",
                f"is missing; a robot of kind '{self.description.kind}' needs the fields: "
                f"{', '.join(field.name for field in dataclasses.fields(DifferentialSpec))}.",
            )
        self.joints(base.left_wheel_names, "base.left_wheel_names")
        self.joints(base.right_wheel_names, "base.right_wheel_names")
        self.joints(base.wheel_names, "base.left_wheel_names and base.right_wheel_names")
        for name in base.wheel_names:
            if self.tree.joints[name].kind is not JointKind.CONTINUOUS:
                raise self.fail(
                    "base",
                    f"wheel joint '{name}' is not of type continuous in {self.description.urdf}; "
                    "a wheel turns without end.",
                )
        if len(base.left_wheel_names) != len(base.right_wheel_names):
            raise self.fail("base", "left_wheel_names and right_wheel_names differ in length.")

    def frames(self) -> None:
        """Refuse frames that are no links."""
        self.link(self.description.frames.base, "frames.base")
        self.link(self.description.frames.tool, "frames.tool")
        if self.description.frames.odom in self.tree.links:
            raise self.fail("frames.odom", "is a link of the robot; it must be a frame outside.")

    def contacts(self) -> None:
        """Refuse contact settings of links that do not exist."""
        for name in self.description.simulation.contact:
            self.link(name, "simulation.contact")

    def collision(self, spheres: Spheres) -> None:
        """Refuse spheres and ignored pairs of links that do not exist, and bad radii."""
        for pair in self.description.collision.ignore:
            for name in pair:
                self.link(name, "collision.ignore")
        for name, items in spheres.items():
            path = f"{self.description.collision.spheres}, {name}"
            self.link(name, path)
            for item in items:
                if item[3] <= 0.0:
                    raise self.fail(path, f"sphere {list(item)} needs a positive radius.")

    def sources(self) -> None:
        """Refuse a number without a source, and a source of nothing."""
        data = dataclasses.asdict(self.description)
        numbers = [p for block in _SOURCED_BLOCKS for p in _number_paths(data[block], block)]
        for path in numbers:
            if not any(_covers(source, path) for source in self.description.sources):
                raise self.fail(
                    "sources",
                    f"{path} has no source; add `{path}: <where the number comes from>` "
                    "(a block's path covers all its numbers).",
                )
        for source in self.description.sources:
            block = source.split(".")[0]
            if block in _SOURCED_BLOCKS and not any(_covers(source, path) for path in numbers):
                raise self.fail("sources", f"'{source}' is no number of this file.")


def _covers(source: str, path: str) -> bool:
    """Return whether a source's path is that of the number or of a block around it."""
    return path == source or path.startswith((f"{source}.", f"{source}["))


def _number_paths(data: object, path: str) -> Iterator[str]:
    """Yield the path of every number below ``data``."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _number_paths(value, f"{path}.{key}")
    elif isinstance(data, list | tuple):
        for i, value in enumerate(data):
            yield from _number_paths(value, f"{path}[{i}]")
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield path


def _limits(check: _Checker) -> JointLimits:
    """Return the limits of all actuated joints."""
    names = check.tree.joint_names
    given = check.description.limits
    check.joints(given.acceleration, "limits.acceleration")
    check.joints(given.jerk, "limits.jerk")
    joints = [check.tree.joints[name] for name in names]
    return JointLimits(
        names=names,
        lower=frozen([joint.lower for joint in joints]),
        upper=frozen([joint.upper for joint in joints]),
        velocity=frozen([joint.velocity for joint in joints]),
        effort=frozen([joint.effort for joint in joints]),
        acceleration=frozen([given.acceleration.get(name, np.inf) for name in names]),
        jerk=frozen([given.jerk.get(name, np.inf) for name in names]),
    )


def _states(check: _Checker, limits: JointLimits) -> dict[str, Mapping[str, float]]:
    """Return the named states; ``home`` is always one of them."""
    states: dict[str, Mapping[str, float]] = {"home": {}}
    for name, state in check.description.named_states.items():
        path = f"named_states.{name}"
        check.joints(state, path)
        outside = limits.select(list(state)).violations(list(state.values()))
        if outside:
            raise check.fail(path, f"is outside the limits: {'; '.join(outside)}.")
        states[name] = MappingProxyType(dict(state))
    return states


def _home(check: _Checker, limits: JointLimits) -> Array:
    """Return ``home``; a joint that it does not name stands at the allowed value nearest zero."""
    home = limits.clip(np.zeros(len(limits.names)))
    for joint, value in check.description.named_states.get("home", {}).items():
        if joint in limits.names:
            home[limits.names.index(joint)] = value
    return frozen(home)


def _groups(check: _Checker, limits: JointLimits) -> dict[str, Group]:
    """Return the groups."""
    groups: dict[str, Group] = {}
    taken: dict[str, str] = {}
    for name, given in check.description.groups.items():
        path = f"groups.{name}"
        for word in (name, *given.aliases):
            if word in taken:
                raise check.fail(path, f"the name '{word}' is also one of group '{taken[word]}'.")
            taken[word] = name
        check.joints(given.joints, f"{path}.joints")
        indices = joint_indices(given.joints, limits.names)
        if np.any(np.diff(indices) < 0):
            right = [limits.names[i] for i in sorted(indices)]
            raise check.fail(f"{path}.joints", f"not in order from base to tip: use {right}.")
        _check_chain(check, given, path)
        indices.setflags(write=False)
        groups[name] = Group(
            name,
            given.joints,
            indices,
            limits.select(given.joints),
            given.base,
            given.tip,
            given.aliases,
        )
    return groups


def _check_chain(check: _Checker, given: GroupDescription, path: str) -> None:
    """Refuse a base and tip that are not the ends of the group's joints."""
    check.link(given.base, f"{path}.base")
    check.link(given.tip, f"{path}.tip")
    if given.base is None or given.tip is None:
        if given.base is not given.tip:
            raise check.fail(path, "needs both base and tip, or neither.")
        return
    try:
        chain = check.tree.path(given.base, given.tip)
    except BadDescription:
        raise check.fail(
            path, f"tip '{given.tip}' is not below base '{given.base}' in the tree."
        ) from None
    moving = tuple(joint.name for joint in chain if joint.movable)
    if moving != given.joints:
        raise check.fail(
            path, f"the joints from {given.base} to {given.tip} are {', '.join(moving) or 'none'}."
        )


def _drives(check: _Checker, limits: JointLimits) -> tuple[JointDrive, ...]:
    """Return one drive per joint."""
    drives: dict[str, JointDrive] = {}
    for i, given in enumerate(check.description.drives):
        path = f"drives[{i}]"
        check.joints(given.joints, f"{path}.joints")
        stiffness = _per_joint(check, given, "stiffness", path)
        damping = _per_joint(check, given, "damping", path)
        armature = _per_joint(check, given, "armature", path)
        for k, joint in enumerate(given.joints):
            if joint in drives:
                raise check.fail(f"{path}.joints", f"joint '{joint}' has two drives.")
            effort = float(limits.effort[limits.names.index(joint)])
            drives[joint] = JointDrive(
                joint, given.mode, stiffness[k], damping[k], armature[k], effort
            )
    missing = [name for name in limits.names if name not in drives]
    if missing:
        raise check.fail("drives", f"these joints have no drive: {', '.join(missing)}.")
    return tuple(drives[name] for name in limits.names)


def _per_joint(check: _Checker, given: DriveDescription, field: str, path: str) -> Sequence[float]:
    """Return one value per joint of a drive."""
    values: tuple[float, ...] | float = getattr(given, field)
    count = len(given.joints)
    if not isinstance(values, tuple):
        return (float(values),) * count
    if len(values) != count:
        raise check.fail(
            f"{path}.{field}",
            f"{len(values)} values for {count} joints; give one per joint, or one number for all.",
        )
    return values
