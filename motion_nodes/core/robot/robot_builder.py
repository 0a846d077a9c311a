# SPDX-License-Identifier: Apache-2.0
"""Builds a :class:`Robot` from a decoded robot.yaml and a kinematic tree, with checks.

Consistency checks of robot.yaml and URDF: names, geometry, sources of numbers; wheels of
a holonomic base; missing values are taken from the URDF.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from motion_nodes.core.robot.limits import JointLimits, joint_indices, of_members
from motion_nodes.core.robot.poses import compose, inverse
from motion_nodes.core.robot.robot import Group, JointDrive, Robot, Sphere, tips_inside
from motion_nodes.core.robot.robot_yaml import (
    BASE_SPECS,
    CONTROLLERS,
    AckermannSpec,
    BaseSpec,
    DifferentialSpec,
    DriveDescription,
    GroupDescription,
    HolonomicSpec,
    RobotDescription,
    RollerWheel,
)
from motion_nodes.core.robot.tree import JointKind, KinematicTree, frozen
from motion_nodes.core.robot.yaml_schema import decode
from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.typing import Array

Spheres = Mapping[str, tuple[Sphere, ...]]
_SOURCED_BLOCKS = ("base", "limits", "drives")
_DRIVE_NUMBERS = ("stiffness", "damping", "armature", "kp", "ki", "kd")
"""Fields of a drive with one value per joint."""


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Checks of a description against its tree; each raises :class:`InvalidDescription`."""

    file: Path
    description: RobotDescription
    tree: KinematicTree

    def fail(self, path: str, text: str) -> InvalidDescription:
        """Return the error for a field."""
        return InvalidDescription(f"{self.file}: {path}: {text}", field=path)

    def joints(self, names: Iterable[str], path: str) -> None:
        """Reject names that are not actuated joints, and duplicates."""
        seen: set[str] = set()
        for name in names:
            if name not in self.tree.joint_names:
                why = "is not an actuated joint" if name in self.tree.joints else "is not a joint"
                hint = did_you_mean(name, self.tree.joint_names)
                if self._mimics(name):
                    hint = f" It mimics '{self.tree.joints[name].law.joint}'; name that one."
                raise self.fail(path, f"'{name}' {why} of {self.description.urdf}.{hint}")
            if name in seen:
                raise self.fail(path, f"joint '{name}' is listed twice.")
            seen.add(name)

    def moving(self, names: Iterable[str], path: str) -> None:
        """Reject names that are neither actuated nor mimic joints."""
        self.joints([n for n in names if not self._mimics(n)], path)

    def _mimics(self, name: str) -> bool:
        joint = self.tree.joints.get(name)
        return joint is not None and joint.mimic is not None

    def link(self, name: str | None, path: str) -> None:
        """Reject a name that is not a link."""
        if name is not None and name not in self.tree.links:
            raise self.fail(
                path,
                f"'{name}' is not a link of {self.description.urdf}."
                f"{did_you_mean(name, self.tree.frame_names)}",
            )

    def driven(self, names: Iterable[str], path: str) -> None:
        """Reject joints as :meth:`joints` does, and passive ones."""
        names = tuple(names)
        self.joints(names, path)
        for name in names:
            if name in self.description.passive_joints:
                raise self.fail(path, f"joint '{name}' is one of passive_joints and has no drive.")

    def base(self, base: BaseSpec | None) -> None:
        """Reject invalid wheels and steering joints, and sides of different length."""
        if base is None:
            return
        for field in dataclasses.fields(base):
            if field.name.endswith("_names"):
                self.joints(getattr(base, field.name), f"base.{field.name}")
        self.driven(base.wheel_names + base.steering_names, "base")
        for name in base.wheel_names:
            if self.tree.joints[name].kind is not JointKind.CONTINUOUS:
                raise self.fail(
                    "base",
                    f"wheel joint '{name}' is not of type continuous in {self.description.urdf}; "
                    "wheels rotate without limit.",
                )
        for name in base.steering_names:
            if self.tree.joints[name].kind is not JointKind.REVOLUTE:
                raise self.fail(
                    "base",
                    f"steering joint '{name}' is not of type revolute in {self.description.urdf}; "
                    "it needs limits.",
                )
        if isinstance(base, DifferentialSpec) and (
            len(base.left_wheel_names) != len(base.right_wheel_names)
        ):
            raise self.fail("base", "left_wheel_names and right_wheel_names differ in length.")
        if isinstance(base, AckermannSpec):
            both, steers = base.steered_axle == "both", len(base.steering_joint_names)
            if (steers != 4) if both else (steers > 2):
                raise self.fail(
                    "base.steering_joint_names",
                    f"has {steers} entries; two steered axles (steered_axle: both) need 4, front "
                    "left, front right, rear left, rear right; a single one 2, or 1 in the middle.",
                )
            for end in ("front", "rear"):
                wheels = getattr(base, f"{end}_wheel_names")
                steered = base.steered_axle in (end, "both")
                count = min(2, steers) if steered else len(wheels)
                if count == 2 and getattr(base, f"{end}_track_width") is None:
                    raise self.fail(
                        f"base.{end}_track_width", "is missing; an axle with two wheels needs it."
                    )
                if len(wheels) == 1 and getattr(base, f"{end}_track_width") is not None:
                    raise self.fail(
                        f"base.{end}_wheel_names",
                        f"has one entry; give left and right, or none, or no {end}_track_width "
                        "for an axle with a single wheel.",
                    )
        known = CONTROLLERS[self.description.kind]
        if base.controller and base.controller not in known:
            raise self.fail(
                "base.controller",
                f"is '{base.controller}'; a robot of kind '{self.description.kind}' has one of: "
                f"{', '.join(known)}.",
            )
        if not base.wheel_names:
            raise self.fail(
                "base", "names no driven wheel; give front_wheel_names or rear_wheel_names."
            )

    def frames(self) -> None:
        """Reject frames that are not links."""
        self.link(self.description.frames.base, "frames.base")
        self.link(self.description.frames.tool, "frames.tool")
        if self.description.frames.odom in self.tree.links:
            raise self.fail("frames.odom", "is a link of the robot; it must be another frame.")

    def simulation(self, base: BaseSpec | None) -> None:
        """Reject settings of unknown links and joints, and rollers on invalid wheels."""
        for name in self.description.simulation.contact:
            self.link(name, "simulation.contact")
        for i, loop in enumerate(self.description.simulation.loops):
            for name in loop.links:
                self.link(name, f"simulation.loops[{i}]")
        self.joints(self.description.simulation.springs, "simulation.springs")
        wheels = [] if base is None else list(base.wheel_names)
        for i, rollers in enumerate(self.description.simulation.rollers):
            path = f"simulation.rollers[{i}]"
            if not isinstance(base, HolonomicSpec):
                raise self.fail(path, "only a robot of kind 'holonomic' has wheels with rollers.")
            for name in rollers.wheels:
                if name not in wheels:
                    hint = did_you_mean(name, wheels)
                    raise self.fail(
                        f"{path}.wheels", f"'{name}' is not a wheel, or already has rollers.{hint}"
                    )
                wheels.remove(name)
                radius = next(w.radius for w in base.wheels if w.joint == name)
                if radius is not None and rollers.radius >= 0.5 * radius:
                    raise self.fail(
                        f"{path}.radius",
                        f"is {rollers.radius:g} m; it must be below half of the radius of wheel "
                        f"'{name}', {radius:g} m.",
                    )

    def laser_scanners(self) -> None:
        """Reject scanners on unknown links or with equal topics, and invalid ranges or angles."""
        topics: set[str] = set()
        for i, scanner in enumerate(self.description.laser_scanners):
            path = f"laser_scanners[{i}]"
            self.link(scanner.link, f"{path}.link")
            if scanner.topic in topics:
                raise self.fail(f"{path}.topic", f"'{scanner.topic}' is another scanner's topic.")
            topics.add(scanner.topic)
            if scanner.range_min >= scanner.range_max:
                raise self.fail(
                    f"{path}.range_min",
                    f"is {scanner.range_min:g} m; it must be below range_max, "
                    f"{scanner.range_max:g} m.",
                )
            if not 0.0 < scanner.angle_max - scanner.angle_min <= math.tau:
                raise self.fail(
                    f"{path}.angle_max",
                    f"is {scanner.angle_max:g} rad; it must be above angle_min, "
                    f"{scanner.angle_min:g} rad, by at most one turn.",
                )

    def collision(self, spheres: Spheres) -> None:
        """Reject spheres and excluded pairs of unknown links, and invalid radii."""
        collision = self.description.collision
        for pair in (*collision.ignore, *collision.ignore_spheres):
            for name in pair:
                self.link(name, "collision.ignore")
        for name, items in spheres.items():
            path = f"{self.description.collision.spheres}, {name}"
            self.link(name, path)
            for item in items:
                if item[3] <= 0.0:
                    raise self.fail(path, f"sphere {list(item)} needs a positive radius.")

    def sources(self) -> None:
        """Reject numbers without a source, and sources of unknown fields."""
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
                raise self.fail("sources", f"'{source}' is not a number in this file.")


def _covers(source: str, path: str) -> bool:
    """Return whether a source's path is the number's or that of an enclosing block."""
    return path == source or path.startswith((f"{source}.", f"{source}["))


def _number_paths(data: object, path: str) -> Iterator[str]:
    """Yield the paths of all numbers in ``data``."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _number_paths(value, f"{path}.{key}")
    elif isinstance(data, list | tuple):
        for i, value in enumerate(data):
            yield from _number_paths(value, f"{path}[{i}]")
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield path


@dataclass(frozen=True)
class WheelPlace:
    """Position and axis of a wheel in the robot's base frame."""

    position: Array
    """Centre of the wheel [m], shape (3,)."""
    axis: Array
    """Unit vector of the rotation axis, shape (3,)."""


def complete(check: Agreement, spec: HolonomicSpec) -> HolonomicSpec:
    """Return the spec with joint, radius [m] and roller angle [deg] of every wheel.

    Without ``wheels`` all joints with ``<mecanum>`` in the URDF are wheels, in the URDF's order.

    Args:
        check: checks of the robot, with its tree.
        spec: the base as in the robot.yaml.

    Raises:
        InvalidDescription: no wheels, a wheel without a radius, or values that contradict the URDF.
    """
    tree = check.tree
    wheels = spec.wheels or tuple(
        RollerWheel(name) for name in tree.joint_names if tree.joints[name].rollers is not None
    )
    if not wheels:
        raise check.fail(
            "base.wheels",
            'is missing, and no joint of the URDF has <mecanum radius=".." angle_deg=".."/>.',
        )
    check.joints((wheel.joint for wheel in wheels), "base.wheels")
    return dataclasses.replace(spec, wheels=tuple(_complete(check, wheel) for wheel in wheels))


def _complete(check: Agreement, wheel: RollerWheel) -> RollerWheel:
    """Complete one wheel."""
    rollers = check.tree.joints[wheel.joint].rollers
    path = f"base.wheels: '{wheel.joint}'"
    if rollers is None:
        if wheel.radius is None:
            raise check.fail(path, 'has no radius, and no <mecanum radius=".."/> in the URDF.')
        angle = 90.0 if wheel.roller_angle_deg is None else wheel.roller_angle_deg
        return dataclasses.replace(wheel, roller_angle_deg=angle)
    for field, given, known in (
        ("radius", wheel.radius, rollers.radius),
        ("roller_angle_deg", wheel.roller_angle_deg, rollers.angle_deg),
    ):
        if given is not None and given != known:
            raise check.fail(path, f"{field} is {given:g}, but {known:g} in the URDF; keep one.")
    return RollerWheel(wheel.joint, rollers.radius, rollers.angle_deg)


def wheel_place(tree: KinematicTree, joint: str, base: str) -> WheelPlace:
    """Return the position and axis of a wheel in the base frame.

    Args:
        tree: kinematic tree of the robot.
        joint: wheel joint.
        base: link of the base frame, anywhere in the tree.

    Raises:
        UnknownJoint: lists the joints.
        UnknownFrame: lists the links.
        InvalidDescription: a movable joint between base and wheel.
    """
    X_RB, above_base = _from_root(tree, base)
    X_RP, above_wheel = _from_root(tree, tree.joint(joint).parent)
    moving = sorted(above_base ^ above_wheel)
    if moving:
        raise InvalidDescription(
            f"{tree.name}: wheel joint '{joint}' is mounted on '{moving[0]}', which moves relative "
            f"to '{base}'; the wheels of a holonomic base must be fixed."
        )
    X_BJ = compose(compose(inverse(X_RB), X_RP), tree.joints[joint].X_PJ)
    return WheelPlace(np.array(X_BJ[:3, 3]), X_BJ[:3, :3] @ tree.joints[joint].axis)


def _from_root(tree: KinematicTree, link: str) -> tuple[Array, set[str]]:
    """Return a link's pose in the root with all joints at zero, and the joints that move it."""
    X, moving = np.eye(4), set()
    for joint in tree.path(tree.root, link):
        X = compose(X, joint.X_PJ)
        if joint.movable:
            moving.add(joint.name)
    return X, moving


def assemble(
    file: Path, description: RobotDescription, tree: KinematicTree, urdf: str, spheres: Spheres
) -> Robot:
    """Return the validated robot.

    Args:
        file: the robot.yaml, for errors and to locate the robot's other files.
        description: content of the robot.yaml.
        tree: kinematic tree of the URDF.
        urdf: text of the URDF.
        spheres: collision spheres by link [m].

    Raises:
        InvalidDescription: names the file, the field and the allowed values.
    """
    check = Agreement(file, description, tree)
    base = base_of(file, description)
    if isinstance(base, HolonomicSpec):
        base = complete(check, base)
    check.base(base)
    check.frames()
    check.collision(spheres)
    check.simulation(base)
    check.laser_scanners()
    check.joints(description.passive_joints, "passive_joints")
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
        home=_home(states, limits),
        spheres=MappingProxyType(dict(spheres)),
        base=base,
    )


def base_of(file: Path, description: RobotDescription) -> BaseSpec | None:
    """Return the block ``base``, decoded to the class of the robot's kind; None: no wheeled base.

    Args:
        file: the robot.yaml, for errors.
        description: content of the robot.yaml.

    Raises:
        InvalidDescription: a block for an arm or floating base, no block for a wheeled base, or an
            invalid field.
    """
    kind = description.kind
    if kind in ("arm", "floating"):
        if description.base is not None:
            raise InvalidDescription(
                f"{file}: base: a robot of kind '{kind}' has none; remove it.", field="base"
            )
        return None
    spec = BASE_SPECS[kind]
    if description.base is None:
        fields = ", ".join(field.name for field in dataclasses.fields(spec))
        raise InvalidDescription(
            f"{file}: base: is missing; a robot of kind '{kind}' needs the fields: {fields}.",
            field="base",
        )
    return decode(description.base, spec, str(file), "base")


def _limits(check: Agreement) -> JointLimits:
    """Return the limits of all actuated joints."""
    given = check.description.limits
    check.moving(given.acceleration, "limits.acceleration")
    check.moving(given.jerk, "limits.jerk")
    return replace(
        JointLimits.of_tree(check.tree),
        acceleration=of_members(check.tree, given.acceleration),
        jerk=of_members(check.tree, given.jerk),
    )


def _states(check: Agreement, limits: JointLimits) -> dict[str, Mapping[str, float]]:
    """Return the named states, always including ``home``."""
    states: dict[str, Mapping[str, float]] = {"home": {}}
    for name, state in check.description.named_states.items():
        path = f"named_states.{name}"
        check.joints(state, path)
        own = limits.select(list(state))
        settled = own.settled(list(state.values()))
        outside = own.violations(settled)
        if outside:
            raise check.fail(path, f"is outside the limits: {'; '.join(outside)}.")
        states[name] = MappingProxyType(dict(zip(state, settled.tolist(), strict=True)))
    return states


def _home(states: Mapping[str, Mapping[str, float]], limits: JointLimits) -> Array:
    """Return ``home``.

    Joints that it does not contain are at the allowed position closest to zero.
    """
    home = limits.clip(np.zeros(len(limits.names)))
    for joint, value in states["home"].items():
        if joint in limits.names:
            home[limits.names.index(joint)] = value
    return frozen(home)


def _groups(check: Agreement, limits: JointLimits) -> dict[str, Group]:
    """Return the planning groups."""
    groups: dict[str, Group] = {}
    taken: dict[str, str] = {}
    for name, given in check.description.groups.items():
        path = f"groups.{name}"
        for word in (name, *given.aliases):
            if word in taken:
                raise check.fail(path, f"the name '{word}' is also one of group '{taken[word]}'.")
            taken[word] = name
        check.driven(given.joints, f"{path}.joints")
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
    return {
        name: replace(
            group, tips=(group.tip,) if group.tip else tips_inside(group.joints, groups.values())
        )
        for name, group in groups.items()
    }


def _check_chain(check: Agreement, given: GroupDescription, path: str) -> None:
    """Reject a base and tip that are not the ends of the group's joints."""
    check.link(given.base, f"{path}.base")
    check.link(given.tip, f"{path}.tip")
    if given.base is None or given.tip is None:
        if given.base is not given.tip:
            raise check.fail(path, "needs both base and tip, or neither.")
        return
    try:
        check.tree.path(given.base, given.tip)
    except InvalidDescription:
        raise check.fail(
            path, f"tip '{given.tip}' is not below base '{given.base}' in the tree."
        ) from None
    try:
        moving = check.tree.variables(given.base, given.tip)
    except InvalidDescription as error:
        raise check.fail(path, str(error)) from None
    if moving != given.joints:
        raise check.fail(
            path, f"the joints from {given.base} to {given.tip} are {', '.join(moving) or 'none'}."
        )


def _drives(check: Agreement, limits: JointLimits) -> tuple[JointDrive, ...]:
    """Return one drive per joint; that of a passive joint has no effect."""
    drives: dict[str, JointDrive] = {}
    for i, given in enumerate(check.description.drives):
        path = f"drives[{i}]"
        check.driven(given.joints, f"{path}.joints")
        numbers = {field: _per_joint(check, given, field, path) for field in _DRIVE_NUMBERS}
        for k, joint in enumerate(given.joints):
            if joint in drives:
                raise check.fail(f"{path}.joints", f"joint '{joint}' has two drives.")
            effort = float(limits.effort[limits.names.index(joint)])
            own = {field: values[k] for field, values in numbers.items()}
            drives[joint] = JointDrive(joint=joint, mode=given.mode, max_effort=effort, **own)
    for joint in check.description.passive_joints:
        drives[joint] = JointDrive(joint, "effort", 0.0, 0.0, 0.0, max_effort=0.0)
    missing = [name for name in limits.names if name not in drives]
    if missing:
        raise check.fail(
            "drives",
            f"these joints have no drive: {', '.join(missing)}; list joints without a drive in "
            "passive_joints.",
        )
    return tuple(drives[name] for name in limits.names)


def _per_joint(check: Agreement, given: DriveDescription, field: str, path: str) -> Sequence[float]:
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
