# SPDX-License-Identifier: Apache-2.0
"""Builds a :class:`Robot` from a decoded robot.yaml and a kinematic tree, with checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.base_description import BASE_SPECS, BaseSpec, HolonomicSpec
from motion_nodes.model.consistency_checks import Agreement, Spheres
from motion_nodes.model.limits import JointLimits, joint_indices, of_members
from motion_nodes.model.robot import Group, JointDrive, Robot, tips_inside
from motion_nodes.model.robot_yaml import (
    DriveDescription,
    GroupDescription,
    RobotDescription,
)
from motion_nodes.model.roller_wheels import complete
from motion_nodes.model.tree import KinematicTree, frozen
from motion_nodes.model.yaml_schema import decode
from motion_nodes.typing import Array


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


_DRIVE_NUMBERS = ("stiffness", "damping", "armature", "kp", "ki", "kd")
"""Fields of a drive with one value per joint."""


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
